"""Sandboxes that stand ready, their kernel started and its imports done; each is used once."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

import structlog

from interpreter.errors import InterpreterError
from interpreter.orchestrator.session import LiveSession

log = structlog.get_logger()

RETRY_SECONDS = 5.0


class Spares:
    """Keeps `target` unclaimed sessions of the default environment."""

    def __init__(
        self,
        target: int,
        make: Callable[[], Awaitable[LiveSession]],
        discard: Callable[[LiveSession], Awaitable[None]],
    ) -> None:
        self._target = target
        self._make = make
        self._discard = discard
        self._ready: deque[LiveSession] = deque()
        self._filling: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._awaited = False
        self._closed = False

    async def take(self) -> LiveSession | None:
        """A spare, if there is one or one is being made; another is made in its place."""
        if not self._ready and self._filling is not None and not self._awaited:
            # Waiting for the one that has begun is quicker than to begin another.
            self._awaited = True
            changed = self._changed
            try:
                await changed.wait()
            finally:
                self._awaited = False
        spare = None
        while self._ready and spare is None:
            candidate = self._ready.popleft()
            if candidate.ended.is_set():
                await self._discard(candidate)
            else:
                spare = candidate
        self.fill()
        return spare

    def put_back(self, spare: LiveSession) -> None:
        """Returns a spare that did not fit what was asked for."""
        self._ready.appendleft(spare)

    def fill(self) -> None:
        if self._filling is None and not self._closed and len(self._ready) < self._target:
            self._filling = asyncio.create_task(self._fill())

    async def _fill(self) -> None:
        try:
            while len(self._ready) < self._target:
                try:
                    self._ready.append(await self._make())
                    self._tell()
                except InterpreterError as e:
                    log.error("a spare sandbox could not be made", reason=e.message)
                    self._tell()
                    await asyncio.sleep(RETRY_SECONDS)
        finally:
            self._filling = None
            self._tell()

    def _tell(self) -> None:
        """A spare was made, or could not be."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def close(self) -> None:
        self._closed = True
        if self._filling is not None:
            self._filling.cancel()
            await asyncio.gather(self._filling, return_exceptions=True)
        await asyncio.gather(*(self._discard(spare) for spare in self._ready))
        self._ready.clear()
