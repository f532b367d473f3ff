"""Everything that happens in a session, in order, with a number: recorded, then shown.

An event is shown to watchers only after it is stored, so a number that someone has seen means
the same thing forever, also after the gateway was killed. A watcher says the last number it
saw and gets the rest, from memory when it keeps up and from the store when it does not: a slow
watcher costs no memory and misses nothing. The link's messages are acknowledged when the events
they brought are stored.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec

from interpreter.models import EventType
from interpreter.store import EventRow, Store

RECENT_BYTES = 1024 * 1024
PAGE_BYTES = 1024 * 1024
IDLE_FLUSH = 0.2
"""Messages that brought no event are acknowledged this much later."""


class EventLog:
    """The events of one session."""

    def __init__(
        self, session_id: str, store: Store, on_stored: Callable[[int], None], last_seq: int = 0
    ) -> None:
        self._session_id = session_id
        self._store = store
        self._on_stored = on_stored
        self._loop = asyncio.get_running_loop()
        self._seq = last_seq
        self._committed = last_seq
        self._pending: list[EventRow] = []
        self._passed = 0
        self._flushed = 0
        self._flush_handle: asyncio.Handle | None = None
        self._idle_handle: asyncio.TimerHandle | None = None
        self._recent: deque[EventRow] = deque()
        self._recent_bytes = 0
        self._changed = asyncio.Event()
        self._recording = False
        self._ended = False
        self.closed = False
        self.before_flush: Callable[[], None] = lambda: None

    def record(self) -> None:
        """From now on the session is in the store; before that there is nothing to keep."""
        self._recording = True
        if self._passed:
            self._store.set_received(self._session_id, self._passed)
            self._flushed = self._passed

    def append(self, type: EventType, execution_id: str | None, data: dict[str, Any]) -> int:
        """Adds an event; returns how many bytes it takes."""
        return self.append_encoded(
            type, execution_id, msgspec.json.encode({"execution_id": execution_id, **data})
        )

    def append_encoded(self, type: EventType, execution_id: str | None, data: bytes) -> int:
        self._seq += 1
        self._pending.append(EventRow(self._seq, type.value, execution_id, data))
        if self._flush_handle is None:
            self._flush_handle = self._loop.call_soon(self._flush)
        return len(data)

    def passed(self, number: int) -> None:
        """The link's message with this number is worked off; its events were appended."""
        self._passed = number
        if not self._recording:
            self._on_stored(number)
        elif self._idle_handle is None and self._flush_handle is None:
            self._idle_handle = self._loop.call_later(IDLE_FLUSH, self._flush)

    def _flush(self) -> None:
        for handle in (self._flush_handle, self._idle_handle):
            if handle is not None:
                handle.cancel()
        self._flush_handle = self._idle_handle = None
        if self.closed:
            return
        self.before_flush()
        if self._flush_handle is not None:
            self._flush_handle.cancel()
            self._flush_handle = None
        rows, self._pending = self._pending, []
        passed, self._flushed = self._passed, self._passed
        future = self._store.append_events(self._session_id, rows, passed)
        future.add_done_callback(lambda f: self._stored(f, rows, passed))

    def _stored(self, future: asyncio.Future[None], rows: list[EventRow], passed: int) -> None:
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
        self._on_stored(passed)

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def end(self) -> None:
        """The last event was appended: who follows gets it, and then the end."""
        self._ended = True
        self._wake()

    def close(self) -> None:
        """The session is gone: nothing is recorded any more, and nobody waits."""
        self.closed = True
        self._wake()

    async def settled(self) -> None:
        """Returns when every event appended so far is stored."""
        upto = self._seq
        while self._committed < upto and not self.closed:
            await self._changed.wait()

    async def follow(
        self, after: int, *, execution_id: str | None = None, wait: bool = True
    ) -> AsyncIterator[list[EventRow]]:
        """The events after a number, as they are stored; `wait=False` ends when caught up."""
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
            elif not wait or (self._ended and after >= self._seq):
                return
            else:
                await changed.wait()

    async def _rows_after(self, after: int, execution_id: str | None) -> list[EventRow]:
        if self._recent and self._recent[0].seq <= after + 1:
            skip = after + 1 - self._recent[0].seq
            return [row for i, row in enumerate(self._recent) if i >= skip]
        return await self._store.events(
            self._session_id, after, execution_id=execution_id, max_bytes=PAGE_BYTES
        )
