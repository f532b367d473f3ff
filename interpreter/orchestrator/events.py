"""Everything that happens in a session, in order, with a number: recorded, then shown.

An event is shown to watchers only after it is stored, so a number that someone has seen means
the same thing forever, also after the gateway was killed. A watcher says the last number it
saw and gets the rest, from memory when it keeps up and from the store when it does not: a slow
watcher costs no memory and misses nothing. The link's messages are acknowledged when the events
they brought are stored.

What else is stored of a session goes along with its events, in one transaction: an execution that is
`ok` has a `done` event, whenever the gateway is killed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec

from interpreter.models import EventType
from interpreter.store import EventRow, Step, Store, setting_received

RECENT_BYTES = 1024 * 1024
PAGE_BYTES = 1024 * 1024
GATHER_SECONDS = 0.01
GATHER_BYTES = 64 * 1024
"""Events that nobody watches are gathered this long, or until they are this many bytes."""


def _pass_on(stored: asyncio.Future[None], to: asyncio.Future[None]) -> None:
    if to.done():
        return
    if stored.cancelled() or (problem := stored.exception()) is None:
        to.set_result(None)
    else:
        to.set_exception(problem)
        to.exception()  # the store has told of it, and not everyone awaits it


def _nobody(number: int) -> None:
    """There is no link that waits to hear of it."""


class EventLog:
    """The events of one session."""

    def __init__(self, session_id: str, store: Store, last_seq: int = 0) -> None:
        self._session_id = session_id
        self._store = store
        self._on_stored: Callable[[int], None] = _nobody
        self._loop = asyncio.get_running_loop()
        self._seq = last_seq
        self._committed = last_seq
        self._pending: list[EventRow] = []
        self._along: list[Step] = []
        self._together: asyncio.Future[None] | None = None
        """Completes when what is pending is stored."""
        self._passed = 0
        self._pending_bytes = 0
        self._flush_handle: asyncio.Handle | None = None
        self._flush_is_due = False
        self._recent: deque[EventRow] = deque()
        self._recent_bytes = 0
        self._changed = asyncio.Event()
        self._watchers = 0
        self.closed = False
        self.before_flush: list[Callable[[], None]] = []

    @property
    def last_seq(self) -> int:
        return self._seq

    @property
    def committed(self) -> int:
        """The number of the last event that is stored."""
        return self._committed

    def connect(self, received: int, on_stored: Callable[[int], None]) -> None:
        """From now on messages come from this sandbox, whose link has received so many already;
        `on_stored` is told up to which number what they carried is stored. What an earlier sandbox said
        was flushed before, and is acknowledged to that one."""
        self._passed, self._on_stored = received, on_stored
        self.along(setting_received(self._session_id, received))

    def append(self, type: EventType, execution_id: str | None, data: dict[str, Any]) -> int:
        """Adds an event; returns how many bytes it takes."""
        return self.append_encoded(
            type, execution_id, msgspec.json.encode({"execution_id": execution_id, **data})
        )

    def append_encoded(self, type: EventType, execution_id: str | None, data: bytes) -> int:
        self._seq += 1
        self._pending.append(EventRow(self._seq, type.value, execution_id, data))
        self._pending_bytes += len(data)
        self._schedule()
        return len(data)

    def along(self, *steps: Step, size: int = 0) -> asyncio.Future[None]:
        """Has something stored together with the events appended so far; what is returned completes
        when it is, or when it cannot be because the session is gone."""
        if self._together is None:
            self._together = self._loop.create_future()
            if self.closed:
                self._together.set_result(None)
        together = self._together
        self._along += steps
        self._pending_bytes += size
        self._schedule()
        return together

    def _schedule(self) -> None:
        """Flushes at the end of the loop's turn if someone waits for it, else after a moment."""
        if self._watchers or self._pending_bytes >= GATHER_BYTES:
            if not self._flush_is_due:
                self._flush_is_due = True
                if self._flush_handle is not None:
                    self._flush_handle.cancel()
                self._flush_handle = self._loop.call_soon(self._flush)
        elif self._flush_handle is None:
            self._flush_handle = self._loop.call_later(GATHER_SECONDS, self._flush)

    def passed(self, number: int) -> None:
        """The link's message with this number is worked off; its events were appended."""
        self._passed = number
        if self._flush_handle is None:
            self._schedule()

    def flush(self) -> None:
        """Hands over what is pending, so that it is stored before whatever is handed over next."""
        if self._flush_handle is not None:
            self._flush()

    def _flush(self) -> None:
        if self.closed:
            return
        for prepare in self.before_flush:
            prepare()
        if self._flush_handle is not None:
            self._flush_handle.cancel()
        self._flush_handle, self._flush_is_due = None, False
        rows, self._pending = self._pending, []
        steps, self._along = self._along, []
        together, self._together = self._together, None
        size, self._pending_bytes = self._pending_bytes, 0
        size -= sum(len(row.data) for row in rows)
        passed, tell = self._passed, self._on_stored
        future = self._store.append_events(self._session_id, rows, passed, with_them=steps, size=size)
        if together is not None:
            future.add_done_callback(lambda f: _pass_on(f, together))
        future.add_done_callback(lambda f: self._stored(f, rows, passed, tell))
        if self._watchers:
            self._store.hurry()

    def _stored(
        self,
        future: asyncio.Future[None],
        rows: list[EventRow],
        passed: int,
        tell: Callable[[int], None],
    ) -> None:
        if self.closed or future.cancelled() or future.exception() is not None:
            return
        for row in rows:
            self._recent.append(row)
            self._recent_bytes += len(row.data)
        while self._recent_bytes > RECENT_BYTES and len(self._recent) > 1:
            self._recent_bytes -= len(self._recent.popleft().data)
        if rows:
            self._committed = rows[-1].seq
            self._wake()
        tell(passed)

    def let_go(self) -> None:
        """What is stored can be read there, and there is no link any more that waits for it."""
        self._recent.clear()
        self._recent_bytes = 0
        self._on_stored = _nobody

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def close(self) -> None:
        """The session is gone, or the gateway goes: what is pending is the last that is recorded."""
        self.flush()
        self.closed = True
        self._wake()

    async def settled(self) -> None:
        """Returns when every event appended so far is stored."""
        upto = self._seq
        self.flush()
        self._store.hurry()
        while self._committed < upto and not self.closed:
            await self._changed.wait()

    async def caught_up(self) -> None:
        """The same, but only as long as the database can be written: readers get what there is."""
        settled = asyncio.ensure_future(self.settled())
        try:
            await self._store.condition.wait_for(settled)
        finally:
            settled.cancel()

    async def follow(
        self, after: int, *, execution_id: str | None = None, wait: bool = True
    ) -> AsyncIterator[list[EventRow]]:
        """The events after a number, as they are stored; `wait=False` ends when caught up."""
        self._watchers += 1
        try:
            while not self.closed:
                changed = self._changed
                if after < self._committed:
                    upto = self._committed
                    rows = await self._rows_after(after, execution_id)
                    after = rows[-1].seq if rows else upto
                    if execution_id is not None:
                        rows = [row for row in rows if row.execution_id == execution_id]
                    if rows:
                        yield rows
                elif not wait:
                    return
                else:
                    await changed.wait()
        finally:
            self._watchers -= 1

    async def _rows_after(self, after: int, execution_id: str | None) -> list[EventRow]:
        if self._recent and self._recent[0].seq <= after + 1:
            skip = after + 1 - self._recent[0].seq
            return [row for i, row in enumerate(self._recent) if i >= skip]
        return await self._store.events(
            self._session_id, after, execution_id=execution_id, max_bytes=PAGE_BYTES
        )
