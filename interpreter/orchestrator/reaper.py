"""The end of sessions whose time is over, with one timer for all of them.

A session is looked at when its time may be over, not whenever it is used: running a cell costs
nothing here, and a session that waits costs nothing at all.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools

import structlog

from interpreter.errors import InterpreterError
from interpreter.models import SessionState
from interpreter.orchestrator import expiry
from interpreter.orchestrator.session import LiveSession
from interpreter.orchestrator.tasks import Tasks

log = structlog.get_logger()

AGAIN_SECONDS = 30.0
"""When something that was due did not work."""


class Reaper:
    """Pauses and stops sessions in time, and warns before."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._heap: list[tuple[float, int, LiveSession]] = []
        self._due: dict[str, float] = {}
        """Session → when it is looked at next; other entries of the heap are out of date."""
        self._warned: dict[str, set[str]] = {}
        self._order = itertools.count()
        self._timer: asyncio.TimerHandle | None = None
        self._tasks = Tasks("the reaper")

    def watch(self, session: LiveSession) -> None:
        """Called when a session has got a sandbox, lost it, was resumed, or has other limits."""
        self._warned.pop(session.id, None)
        self._look(session)

    def forget(self, session: LiveSession) -> None:
        self._due.pop(session.id, None)
        self._warned.pop(session.id, None)

    def _look(self, session: LiveSession) -> None:
        """Does what is due, and finds out when something will be."""
        if session.live is None:
            self.forget(session)
            return
        record, limits = session.record, session.limits
        waits = [
            self._toward(session, "lifetime", limits.lifetime_seconds, expiry.lifetime_left(record))
        ]
        idle = expiry.idle_left(record, session.active_tick)
        if idle is not None:
            if record.on_idle == "stop":
                waits.append(self._toward(session, "idle", limits.idle_seconds, idle))
            elif idle <= 0:
                self._tasks.spawn(self._pause(session))
                waits.append(AGAIN_SECONDS)
            else:
                waits.append(idle)
        elif session.state is SessionState.busy and record.on_idle != "nothing":
            # It may be idle from now on.
            warning = expiry.warning_span(limits.idle_seconds) if record.on_idle == "stop" else 0
            waits.append(limits.idle_seconds - warning)
        self._schedule(session, min(waits))

    def _toward(self, session: LiveSession, what: str, span: float, left: float) -> float:
        """Warns or stops if it is time for that; returns how long until the next of them."""
        warned = self._warned.setdefault(session.id, set())
        if left <= 0:
            why = "nobody used it for" if what == "idle" else "it reached its lifetime of"
            self._tasks.spawn(self._stop(session, what, f"{why} {span:g} s"))
            return AGAIN_SECONDS
        before = expiry.warning_span(span)
        if left > before:
            warned.discard(what)
            return left - before
        if what not in warned:
            warned.add(what)
            unless = " unless somebody uses it" if what == "idle" else ""
            message = f"The session is stopped in {left:.0f} s{unless}. Its files stay."
            session.warn(what, message, round(left, 3))
        return left

    def _schedule(self, session: LiveSession, seconds: float) -> None:
        at = self._loop.time() + max(0.001, seconds)
        self._due[session.id] = at
        heapq.heappush(self._heap, (at, next(self._order), session))
        if len(self._heap) > 2 * len(self._due) + 100:
            self._heap = [entry for entry in self._heap if self._due.get(entry[2].id) == entry[0]]
            heapq.heapify(self._heap)
        self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._heap and self._due.get(self._heap[0][2].id) != self._heap[0][0]:
            heapq.heappop(self._heap)
        if self._heap:
            self._timer = self._loop.call_at(self._heap[0][0], self._run)

    def _run(self) -> None:
        self._timer = None
        now = self._loop.time()
        while self._heap and self._heap[0][0] <= now:
            at, _, session = heapq.heappop(self._heap)
            if self._due.get(session.id) == at:
                self._look(session)
        self._set_timer()

    async def _pause(self, session: LiveSession) -> None:
        reason = f"nobody used it for {session.limits.idle_seconds:g} s"
        try:
            await session.pause(reason, lambda: _is_over(session, "idle"))
        except InterpreterError as e:
            log.warning("a session could not be paused", session=session.id, reason=e.message)

    async def _stop(self, session: LiveSession, what: str, reason: str) -> None:
        try:
            await session.stop(reason, lambda: _is_over(session, what))
        except InterpreterError as e:
            log.error("a sandbox could not be ended", session=session.id, reason=e.message)

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._due.clear()
        self._heap.clear()
        self._tasks.cancel()
        await self._tasks.done()


def _is_over(session: LiveSession, what: str) -> bool:
    """Whether its time is still over: somebody may have come meanwhile."""
    if session.live is None:
        return False
    if what == "lifetime":
        return expiry.lifetime_left(session.record) <= 0
    idle = expiry.idle_left(session.record, session.active_tick)
    return idle is not None and idle <= 0
