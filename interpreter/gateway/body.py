"""A request's body on its way to a function that takes it piece by piece.

The connection is read no faster than the pieces are taken, so that a body of any size passes through
the memory of one piece.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Generic, TypeVar

from interpreter.errors import InvalidRequest

T = TypeVar("T")

SILENT_SECONDS = 120.0
"""A client that sends nothing for so long has gone without a word."""


class Streaming(Generic[T]):
    """A receiver for work that wants a body as an iterator, and begins before the body is there."""

    def __init__(self, work: Callable[[AsyncIterator[bytes]], Awaitable[T]]) -> None:
        self._piece: bytes | None = None
        self._over = False
        self._put: asyncio.Future[None] | None = None
        self._taken: asyncio.Future[None] | None = None
        self._working = asyncio.ensure_future(work(self._pieces()))
        self._working.add_done_callback(lambda working: self._end())

    async def receive(self, piece: bytes) -> None:
        """Returns when the piece is taken; raises what the work has ended with."""
        if not self._over:
            self._piece = piece
            self._taken = asyncio.get_running_loop().create_future()
            _wake(self._put)
            await self._taken
        if self._working.done():
            self._working.result()

    def leave(self) -> None:
        self._working.cancel()

    async def result(self) -> T:
        """What came of it, now that the body is complete."""
        self._end()
        return await self._working

    async def _pieces(self) -> AsyncIterator[bytes]:
        while True:
            while self._piece is None and not self._over:
                self._put = asyncio.get_running_loop().create_future()
                try:
                    async with asyncio.timeout(SILENT_SECONDS):
                        await self._put
                except TimeoutError:
                    raise InvalidRequest("The body stopped in the middle.", "Send it again.") from None
            piece, self._piece = self._piece, None
            if piece is None:
                return
            _wake(self._taken)
            yield piece

    def _end(self) -> None:
        self._over = True
        _wake(self._put)
        _wake(self._taken)


def _wake(waiting: asyncio.Future[None] | None) -> None:
    if waiting is not None and not waiting.done():
        waiting.set_result(None)
