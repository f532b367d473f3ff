"""Sandboxes of one environment that stand ready, their kernel started and its imports done.

Each is used once. How many there should be follows from how many were wanted: as many as were asked
for within the time that it takes to make a few, at the busiest moment of the last minutes, whether
there was room for their sessions at once or they have to wait for it. They are made in the background,
and only while nobody waits for a sandbox that is being started.
"""

from __future__ import annotations

import asyncio
import math
import time
from bisect import bisect_left
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import structlog

from interpreter.errors import InterpreterError
from interpreter.orchestrator.live_sandbox import LiveSandbox
from interpreter.orchestrator.tasks import Tasks

log = structlog.get_logger()

RETRY_SECONDS = 5.0
FILL_AFTER = 0.1
REMEMBERED_SECONDS = 300.0
REMEMBERED_ARRIVALS = 1000
AT_ONCE = 2
"""Sandboxes that are made at the same time."""


class WarmPool:
    """Keeps between `minimum` and `maximum` sandboxes ready."""

    def __init__(
        self,
        environment: str,
        minimum: int,
        maximum: int,
        make: Callable[[], Awaitable[LiveSandbox]],
        discard: Callable[[LiveSandbox], Coroutine[Any, Any, None]],
        may_fill: Callable[[], bool],
    ) -> None:
        self.environment = environment
        self.minimum, self.maximum = minimum, maximum
        self.being_made = 0
        self._make, self._discard, self._may_fill = make, discard, may_fill
        self._ready: deque[LiveSandbox] = deque()
        self._waiting: deque[asyncio.Future[LiveSandbox | None]] = deque()
        self._arrivals: deque[float] = deque(maxlen=REMEMBERED_ARRIVALS)
        self._make_seconds = 1.0
        self._retry: asyncio.TimerHandle | None = None
        self._soon: asyncio.TimerHandle | None = None
        self._tasks = Tasks(f"the pool of {environment}")
        self._closed = False

    @property
    def ready(self) -> int:
        return len(self._ready)

    @property
    def target(self) -> int:
        """How many should stand ready now."""
        since = time.monotonic() - REMEMBERED_SECONDS
        while self._arrivals and self._arrivals[0] < since:
            self._arrivals.popleft()
        arrivals, window = list(self._arrivals), 2 * self._make_seconds
        busiest = max(
            (i + 1 - bisect_left(arrivals, at - window) for i, at in enumerate(arrivals)), default=0
        )
        return min(self.maximum, max(self.minimum, math.ceil(busiest)))

    def asked(self) -> None:
        """Somebody wants a sandbox, and may have to wait for room first."""
        if self.maximum:
            self._arrivals.append(time.monotonic())
            self._fill_later()

    async def take(self) -> LiveSandbox | None:
        """One that is ready, or is being made and nobody waits for yet; None when there is none."""
        if self.maximum == 0:
            return None
        sandbox = self._take_ready()
        if sandbox is None and len(self._waiting) < self.being_made:
            # Waiting for one that has begun is quicker than to begin another.
            coming: asyncio.Future[LiveSandbox | None] = asyncio.get_running_loop().create_future()
            self._waiting.append(coming)
            try:
                sandbox = await coming
            except asyncio.CancelledError:
                if coming.done() and not coming.cancelled() and (made := coming.result()):
                    self.put_back(made)
                raise
            finally:
                if coming in self._waiting:
                    self._waiting.remove(coming)
        if sandbox is None:
            self.fill()
        else:
            self._fill_later()
        return sandbox

    def _take_ready(self) -> LiveSandbox | None:
        while self._ready:
            sandbox = self._ready.popleft()
            if sandbox.gone is None:
                return sandbox
            self._tasks.spawn(self._discard(sandbox))
        return None

    def put_back(self, sandbox: LiveSandbox) -> None:
        """Returns one that did not fit what was asked for."""
        if self._closed:
            self._tasks.spawn(self._discard(sandbox))
        else:
            self._hand_out(sandbox)

    def fill(self) -> None:
        """Has more made if there are too few, and ends some if there are too many."""
        if self._closed or self._retry is not None:
            return
        target = self.target
        while self._ready and len(self._ready) + self.being_made > max(target, self.minimum):
            self._tasks.spawn(self._discard(self._ready.pop()))
        while (
            len(self._ready) + self.being_made < target
            and self.being_made < AT_ONCE
            and self._may_fill()
        ):
            self.being_made += 1
            self._tasks.spawn(self._make_one())

    async def _make_one(self) -> None:
        began = time.monotonic()
        try:
            sandbox = await self._make()
        except Exception as e:
            reason = e.message if isinstance(e, InterpreterError) else f"{type(e).__name__}: {e}"
            log.error("no sandbox could be made ready", environment=self.environment, reason=reason)
            self._retry = asyncio.get_running_loop().call_later(RETRY_SECONDS, self._try_again)
        else:
            self._make_seconds = (self._make_seconds + time.monotonic() - began) / 2
            sandbox.on_end = lambda reason: self._lost(sandbox)
            self._hand_out(sandbox)
        finally:
            self.being_made -= 1
            while len(self._waiting) > self.being_made:
                if not (waiting := self._waiting.popleft()).done():
                    waiting.set_result(None)  # it has to be started for them after all
        self.fill()

    def _hand_out(self, sandbox: LiveSandbox) -> None:
        while self._waiting:
            if not (waiting := self._waiting.popleft()).done():
                waiting.set_result(sandbox)
                return
        self._ready.append(sandbox)

    def _lost(self, sandbox: LiveSandbox) -> None:
        """One died while it stood ready."""
        if sandbox in self._ready:
            self._ready.remove(sandbox)
            self._tasks.spawn(self._discard(sandbox))
            self.fill()

    def _fill_later(self) -> None:
        """Not at once: whoever has just got a sandbox is about to use it."""
        if self._soon is None and not self._closed:
            self._soon = asyncio.get_running_loop().call_later(FILL_AFTER, self._fill_soon)

    def _fill_soon(self) -> None:
        self._soon = None
        self.fill()

    def _try_again(self) -> None:
        self._retry = None
        self.fill()

    async def close(self) -> None:
        self._closed = True
        for timer in (self._retry, self._soon):
            if timer is not None:
                timer.cancel()
        self._tasks.cancel()
        await self._tasks.done()
        await asyncio.gather(*(self._discard(sandbox) for sandbox in self._ready))
        self._ready.clear()
