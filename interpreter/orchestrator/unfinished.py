"""The cells that an earlier gateway left unfinished: from the store, and from its journal."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from interpreter.config import Config
from interpreter.models import EventType, Execution, ExecutionStatus
from interpreter.orchestrator.cell import Cell
from interpreter.orchestrator.command import Command, is_command
from interpreter.orchestrator.events import EventLog
from interpreter.store import Entry, Store, saving_execution


async def save_journaled(store: Store, session_id: str, events: EventLog) -> None:
    """Stores what the gateway was killed too early to store, and wrote down: cells, and what was
    measured of some. From then on the journal is not needed for this session."""
    if (left := store.journaled(session_id)) is None:
        return
    await _save_cells(store, session_id, events, left.entries)
    for execution in await store.unfinished(session_id):
        if (ending := left.endings.pop(execution.id, None)) is not None:
            facts = {"status": execution.status.value, "measured": ending}
            events.append(EventType.status, execution.id, facts)
    await events.settled()
    if not events.closed:
        store.told(session_id)


async def _save_cells(store: Store, session_id: str, events: EventLog, entries: Sequence[Entry]) -> None:
    seen: set[str] = set()
    for entry in entries:
        execution = entry.execution
        if execution.id in seen or await store.has_execution(session_id, execution.id):
            continue
        seen.add(execution.id)
        # Whether the kernel ever saw it is for the kernel to say.
        queued = replace(execution, status=ExecutionStatus.queued, started_at=None)
        facts = {"status": "queued", "request": entry.request}
        events.append(EventType.status, execution.id, facts)
        events.along(saving_execution(queued, msgspec.json.encode(queued)))
    await events.settled()


async def unfinished_cells(store: Store, session_id: str, config: Config) -> list[Cell]:
    """Oldest first."""
    return [await _restore(store, e, config) for e in await store.unfinished(session_id)]


async def _restore(store: Store, execution: Execution, config: Config) -> Cell:
    """An unfinished cell, from its execution and its events."""
    kind = Command if is_command(execution.id) else Cell
    cell: Cell | None = None
    after = 0
    while rows := await store.events(execution.session_id, after, execution_id=execution.id):
        for row in rows:
            data = msgspec.json.decode(row.data)
            if cell is None:
                cell = kind.restore(execution, data.get("request", {}), config)
            cell.replay(EventType(row.type), data)
            cell.recorded_bytes += len(row.data)
        after = rows[-1].seq
    return cell or kind.restore(execution, {}, config)
