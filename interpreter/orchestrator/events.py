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
GATHER_SECONDS = 0.01
GATHER_BYTES = 64 * 1024
"""Events that nobody watches are gathered this long, or until they are this many bytes."""


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
        self._pending_bytes = 0
        self._flush_handle: asyncio.Handle | None = None
        self._flush_is_due = False
        self._recent: deque[EventRow] = deque()
        self._recent_bytes = 0
        self._changed = asyncio.Event()
        self._watchers = 0
        self._recording = False
        self._ended = False
        self.closed = False
        self.before_flush: Callable[[], None] = lambda: None

    def record(self) -> None:
        """From now on the session is in the store; before that there is nothing to keep."""
        self._recording = True
        if self._passed:
            self._store.set_received(self._session_id, self._passed)

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
        if not self._recording:
            self._on_stored(number)
        elif self._flush_handle is None:
            self._schedule()

    def _flush(self) -> None:
        if self.closed:
            return
        self.before_flush()
        if self._flush_handle is not None:
            self._flush_handle.cancel()
        self._flush_handle, self._flush_is_due = None, False
        rows, self._pending = self._pending, []
        self._pending_bytes = 0
        passed = self._passed
        future = self._store.append_events(self._session_id, rows, passed)
        future.add_done_callback(lambda f: self._stored(f, rows, passed))
        if self._watchers:
            self._store.hurry()

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
        if self._flush_handle is not None:
            self._flush()
        self._store.hurry()
        while self._committed < upto and not self.closed:
            await self._changed.wait()

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
                elif not wait or (self._ended and after >= self._seq):
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
