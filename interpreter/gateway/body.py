"""A request's body on its way to whoever takes it, piece by piece.

The connection is read no faster than the pieces are taken, so that a body of any size passes through
the memory of one piece.
"""

from __future__ import annotations

import asyncio

SILENT_SECONDS = 120.0
"""A client that sends nothing for so long has gone without a word."""


class Body:
    """Filled at one end while it is taken from at the other."""

    def __init__(self) -> None:
        self._piece: bytes | None = None
        self._over = False
        self._put: asyncio.Future[None] | None = None
        self._taken: asyncio.Future[None] | None = None

    async def put(self, piece: bytes) -> None:
        """Returns when the piece is taken, or nobody takes any more."""
        if self._over:
            return
        self._piece = piece
        self._taken = asyncio.get_running_loop().create_future()
        _wake(self._put)
        await self._taken

    async def take(self) -> bytes | None:
        """The next piece; None when there is none any more. Raises TimeoutError."""
        while self._piece is None and not self._over:
            self._put = asyncio.get_running_loop().create_future()
            async with asyncio.timeout(SILENT_SECONDS):
                await self._put
        piece, self._piece = self._piece, None
        _wake(self._taken)
        return piece

    def end(self) -> None:
        """That was all of it, or nobody wants the rest."""
        self._over = True
        _wake(self._put)
        _wake(self._taken)


def _wake(waiting: asyncio.Future[None] | None) -> None:
    if waiting is not None and not waiting.done():
        waiting.set_result(None)
