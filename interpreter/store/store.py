"""The store: what the other layers call.

A write returns at once with a future that completes after the commit; writes are committed in the
order of the calls, some at a time, and at once when told to `hurry`. Read methods are coroutines
and see what is committed when they run, so await a write's future before reading it back. Neither
blocks the event loop.

Rows can only be written to a session that is in the store: for any other, one that has just been
deleted included, the write's future gets an `sqlite3.IntegrityError`.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from interpreter.errors import StoreUnavailable
from interpreter.models import AuditEntry, Execution
from interpreter.store.condition import Condition
from interpreter.store.examination import examine, journal_of, note_use
from interpreter.store.journal import Ending, File, Journal, Left
from interpreter.store.readers import Readers
from interpreter.store.records import EventRow, Input, SessionRecord, WorkspaceRecord
from interpreter.store.schema import open_for_writing
from interpreter.store.statements import (
    APPEND_EVENT,
    AUDIT,
    DELETE_SESSION,
    DELETE_WORKSPACE,
    DISCARD_ROWS,
    RAISE_RECEIVED,
    SAVE_DISPLAY,
    SESSION,
    Step,
    saving_execution,
    saving_session,
    saving_workspace,
    setting_received,
)
from interpreter.store.writer import Writer

T = TypeVar("T")

_encode = msgspec.json.Encoder().encode
_decode_session = msgspec.json.Decoder(SessionRecord).decode
_decode_workspace = msgspec.json.Decoder(WorkspaceRecord).decode
_decode_execution = msgspec.json.Decoder(Execution).decode

AUDIT_LOG = "SELECT key, time, action, session_id, detail FROM audit"
EXECUTIONS = f"SELECT record FROM executions WHERE session = {SESSION}"


class Store:
    """One SQLite file. Made with `open`, and closed with `close`."""

    def __init__(self, writer: Writer, readers: Readers, journal: Journal, condition: Condition) -> None:
        self.condition = condition
        """Whether the database can be used, and why not."""
        self._writer = writer
        self._readers = readers
        self._journal = journal

    @classmethod
    async def open(cls, path: Path) -> Store:
        """Creates or migrates the file; `ConfigurationError` if it cannot be used or is damaged."""
        await asyncio.to_thread(examine, path)
        connection = await asyncio.to_thread(open_for_writing, path)
        await asyncio.to_thread(note_use, path)
        journal = await asyncio.to_thread(_open_journal, journal_of(path), connection)
        condition = Condition()
        return cls(Writer(connection, condition), Readers(path, condition), journal, condition)

    async def close(self) -> None:
        """Everything queued is committed first."""
        # The writer goes last: whoever closes last folds the write-ahead log into the file.
        await self._readers.close()
        await self._writer.close()
        self._journal.close()

    def hurry(self) -> None:
        """Has everything written so far committed now rather than in a moment."""
        self._writer.hurry()

    def save_session(self, record: SessionRecord) -> asyncio.Future[None]:
        """Inserts it, or replaces everything but `received`."""
        return self._writer.submit("save_session", saving_session(record))

    def delete_session(self, session_id: str) -> asyncio.Future[None]:
        """With its executions, events and displays. What the audit log says of it stays."""
        row = [(session_id,)]
        return self._writer.submit(
            "delete_session", (DISCARD_ROWS, row), (DELETE_SESSION, row), frees_space=True
        )

    def save_workspace(self, record: WorkspaceRecord) -> asyncio.Future[None]:
        """Inserts it, or replaces it."""
        return self._writer.submit("save_workspace", saving_workspace(record))

    def delete_workspace(self, id: str) -> asyncio.Future[None]:
        return self._writer.submit("delete_workspace", (DELETE_WORKSPACE, [(id,)]))

    def save_execution(self, execution: Execution, encoded: bytes | None = None) -> asyncio.Future[None]:
        """Inserts it, or replaces it in its place among the others.

        A caller that has it as JSON already saves the work of encoding it again.
        """
        record = _encode(execution) if encoded is None else encoded
        return self._writer.submit(
            "save_execution", saving_execution(execution, record), size=len(record)
        )

    def write_down(self, execution: bytes, request: bytes) -> File:
        """Notes a new execution, given as JSON. A process that is killed before it is saved does not
        forget it: `journaled` has it then. What is returned is to be handed to `settle`."""
        return self._journal.add(execution, request)

    def write_down_ending(self, ending: Ending) -> File:
        """Notes what was measured of an execution that is about to be answered. What is returned as
        above."""
        return self._journal.add_ending(ending)

    def settle(self, written: File, saved: asyncio.Future[None]) -> None:
        """Called when an execution that was written down there is saved."""
        if not saved.cancelled() and not isinstance(saved.exception(), StoreUnavailable):
            written.settle()

    def journaled(self, session_id: str) -> Left | None:
        """What an earlier process wrote down of a session, saved or not, until it is `told`."""
        return self._journal.left.get(session_id)

    def told(self, session_id: str) -> None:
        """Called when all that an earlier process wrote down of a session is saved."""
        self._journal.told(session_id)

    def append_events(
        self,
        session_id: str,
        rows: Sequence[EventRow],
        received: int | None = None,
        *,
        with_them: Sequence[Step] = (),
        size: int = 0,
    ) -> asyncio.Future[None]:
        """Together with the link number up to which the sandbox may forget, which only ever grows, and
        with what else belongs to the events: all of it is committed, or nothing."""
        steps: list[Step] = [*with_them, (APPEND_EVENT, [(session_id, *row) for row in rows])]
        if received is not None:
            steps.append((RAISE_RECEIVED, [(received, session_id)]))
        size += sum(len(row.data) for row in rows)
        return self._writer.submit("append_events", *steps, size=size)

    def set_received(self, session_id: str, received: int) -> asyncio.Future[None]:
        """To any value: a new sandbox counts from the start."""
        return self._writer.submit("set_received", setting_received(session_id, received))

    def save_display(self, session_id: str, display_id: str, execution_id: str) -> asyncio.Future[None]:
        """Remembers that the execution shows this display. Saying it twice changes nothing."""
        return self._writer.submit(
            "save_display", (SAVE_DISPLAY, [(session_id, display_id, execution_id)])
        )

    def audit(
        self, action: str, session_id: str | None, detail: Mapping[str, Any]
    ) -> asyncio.Future[None]:
        """The time is added here."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        return self._writer.submit("audit", (AUDIT, [(now, action, session_id, _encode(dict(detail)))]))

    async def sessions(self) -> list[SessionRecord]:
        """Newest first."""
        records = await self._read(_decode_session, "SELECT record FROM sessions ORDER BY key DESC")
        return sorted(records, key=lambda record: record.created_at, reverse=True)

    async def session(self, session_id: str) -> SessionRecord | None:
        query = "SELECT record FROM sessions WHERE id = ?"
        return _only(await self._read(_decode_session, query, session_id))

    async def workspaces(self) -> list[WorkspaceRecord]:
        return await self._read(_decode_workspace, "SELECT record FROM workspaces ORDER BY key")

    async def extent(self) -> dict[str, tuple[int, int]]:
        """Of every session: the number of its last event, and how many executions it has."""
        query = """SELECT id,
            (SELECT coalesce(max(seq), 0) FROM events WHERE events.session = sessions.key),
            (SELECT count(*) FROM executions WHERE executions.session = sessions.key)
            FROM sessions"""
        return {id: (seq, count) for id, seq, count in await self._read(lambda *row: row, query)}

    async def received(self, session_id: str) -> int:
        """The link number up to which the sandbox may forget; 0 when there is none."""
        query = "SELECT received FROM sessions WHERE id = ?"
        return _only(await self._read(int, query, session_id)) or 0

    async def last_seq(self, session_id: str) -> int:
        """Of the session's events; 0 when there is none."""
        query = f"SELECT coalesce(max(seq), 0) FROM events WHERE session = {SESSION}"
        return _only(await self._read(int, query, session_id)) or 0

    async def executions(
        self,
        session_id: str,
        limit: int | None = None,
        after: str | None = None,
        prefix: str = "",
        *,
        newest: bool = False,
        unfinished: bool = False,
    ) -> list[Execution]:
        """Oldest first, or newest; those after the execution `after`, and none if there is no such one;
        of those only the ones whose id begins with `prefix`, or of them the `unfinished` ones."""
        order, beyond = ("key DESC", "<") if newest else ("key", ">")
        most = -1 if limit is None else limit
        wanted = f"{EXECUTIONS} AND substr(id, 1, length(?)) = ?"
        if unfinished:
            wanted += " AND status IN ('queued', 'running')"
        values = (session_id, prefix, prefix)
        if after is None:
            query = f"{wanted} ORDER BY {order} LIMIT ?"
            return await self._read(_decode_execution, query, *values, most)
        place = f"(SELECT key FROM executions WHERE session = {SESSION} AND id = ?)"
        query = f"{wanted} AND key {beyond} {place} ORDER BY {order} LIMIT ?"
        return await self._read(_decode_execution, query, *values, session_id, after, most)

    async def execution(self, session_id: str, execution_id: str) -> Execution | None:
        query = f"{EXECUTIONS} AND id = ?"
        return _only(await self._read(_decode_execution, query, session_id, execution_id))

    async def has_execution(self, session_id: str, execution_id: str) -> bool:
        """Without reading it: it may have much output."""
        query = f"SELECT 1 FROM executions WHERE session = {SESSION} AND id = ?"
        return bool(await self._read(int, query, session_id, execution_id))

    async def first_event(self, session_id: str, execution_ids: list[str]) -> int | None:
        """The number of the first event of any of these."""
        marks = ", ".join("?" * len(execution_ids))
        query = f"""SELECT min(seq) FROM events WHERE session = {SESSION}
            AND execution_id IN ({marks}) HAVING min(seq) IS NOT NULL"""
        return _only(await self._read(int, query, session_id, *execution_ids))

    async def last_executions(self, session_id: str, count: int) -> list[str]:
        """The ids of the last ones, oldest first."""
        query = f"SELECT id FROM executions WHERE session = {SESSION} ORDER BY key DESC LIMIT ?"
        return (await self._read(str, query, session_id, count))[::-1]

    async def inputs(self, session_id: str, count: int) -> list[Input]:
        """The last cells that a kernel counted, oldest first, without what came of them."""
        fields = ", ".join(f"json_extract(text, '$.{name}')" for name in ("code", "execution_count"))
        records = f"""SELECT key, id, CAST(record AS TEXT) AS text FROM executions
            WHERE session = {SESSION}"""
        query = f"""SELECT id, {fields} FROM ({records})
            WHERE json_extract(text, '$.execution_count') > 0
            AND coalesce(json_extract(text, '$.context'), 'default') = 'default'
            ORDER BY key DESC LIMIT ?"""
        return (await self._read(Input, query, session_id, count))[::-1]

    async def unfinished(self, session_id: str) -> list[Execution]:
        """Queued or running, oldest first."""
        query = f"{EXECUTIONS} AND status IN ('queued', 'running') ORDER BY key"
        return await self._read(_decode_execution, query, session_id)

    async def count_executions(self, session_id: str) -> int:
        query = f"SELECT count(*) FROM executions WHERE session = {SESSION}"
        return _only(await self._read(int, query, session_id)) or 0

    async def events(
        self,
        session_id: str,
        after: int,
        *,
        execution_id: str | None = None,
        max_bytes: int = 1_000_000,
        max_rows: int = 1000,
    ) -> list[EventRow]:
        """Those with `seq > after`, in order; at most `max_bytes` of data, but always at least one."""
        wanted = f"FROM events WHERE session = {SESSION} AND seq > ?"
        values: tuple[Any, ...] = (session_id, after)
        if execution_id is not None:
            wanted += " AND execution_id = ?"
            values += (execution_id,)
        wanted += " ORDER BY seq LIMIT ?"

        def read(connection: sqlite3.Connection) -> list[EventRow]:
            # Sizes first: the length of a row is known without reading it, and a cursor over the
            # rows themselves would always have read one more than was asked of it.
            count = total = 0
            sizes = connection.execute(f"SELECT length(data) {wanted}", (*values, max_rows))
            with closing(sizes):
                for (size,) in sizes:
                    total += size
                    if count and total > max_bytes:
                        break
                    count += 1
            rows = connection.execute(f"SELECT seq, type, execution_id, data {wanted}", (*values, count))
            return [EventRow._make(row) for row in rows]

        return await self._readers.run(read)

    async def displays(self, session_id: str, most: int) -> dict[str, list[str]]:
        """The executions that show each display, in the order they were saved: the last so many."""
        query = f"""SELECT display_id, execution_id FROM displays WHERE session = {SESSION}
            ORDER BY key DESC LIMIT ?"""
        found: dict[str, list[str]] = {}
        rows = await self._read(lambda *row: row, query, session_id, most)
        for display_id, execution_id in reversed(rows):
            found.setdefault(display_id, []).append(execution_id)
        return found

    async def outdated(self, session_id: str) -> list[str]:
        """The executions whose outputs changed after they had ended and were not saved again."""
        query = f"SELECT execution_id FROM outdated WHERE session = {SESSION} ORDER BY key"
        return await self._read(str, query, session_id)

    async def audit_log(
        self, session_id: str | None = None, after: int | None = None, limit: int = 1000
    ) -> list[AuditEntry]:
        """Of one session or of all, oldest first: the first `limit` entries after a number, or the
        last ones."""
        of_session, values = ("", ()) if session_id is None else ("session_id = ? AND", (session_id,))
        order = "DESC" if after is None else ""
        query = f"{AUDIT_LOG} WHERE {of_session} key > ? ORDER BY key {order} LIMIT ?"
        found = await self._read(_audit_entry, query, *values, after or 0, limit)
        return found[::-1] if after is None else found

    async def _read(self, make: Callable[..., T], query: str, *values: Any) -> list[T]:
        """What `make` makes of each row's columns."""
        return await self._readers.run(
            lambda connection: [make(*row) for row in connection.execute(query, values).fetchall()]
        )


def _open_journal(path: Path, connection: sqlite3.Connection) -> Journal:
    journal = Journal(path)
    there = {id for (id,) in connection.execute("SELECT id FROM sessions")}
    for session_id in journal.left.keys() - there:
        journal.told(session_id)
    return journal


def _only(found: list[T]) -> T | None:
    return found[0] if found else None


def _audit_entry(
    number: int, time: str, action: str, session_id: str | None, detail: bytes
) -> AuditEntry:
    return AuditEntry(
        number=number,
        time=datetime.fromisoformat(time),
        action=action,
        session_id=session_id,
        detail=msgspec.json.decode(detail),
    )
