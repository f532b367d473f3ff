"""What is written, as steps: a statement and the rows to run it with. Steps that are handed over
together are committed together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from interpreter.models import Execution
from interpreter.store.records import SessionRecord, WorkspaceRecord

Step = tuple[str, Sequence[Sequence[Any]]]
"""A statement and the rows to run it with."""

_encode = msgspec.json.Encoder().encode

SESSION = "(SELECT key FROM sessions WHERE id = ?)"

SAVE_SESSION = """INSERT INTO sessions (id, record) VALUES (?, ?)
    ON CONFLICT (id) DO UPDATE SET record = excluded.record"""
DISCARD_ROWS = "INSERT INTO discarded SELECT key FROM sessions WHERE id = ?"
DELETE_SESSION = "DELETE FROM sessions WHERE id = ?"
SAVE_EXECUTION = f"""INSERT INTO executions (session, id, status, record) VALUES ({SESSION}, ?, ?, ?)
    ON CONFLICT (session, id) DO UPDATE SET status = excluded.status, record = excluded.record"""
APPEND_EVENT = f"""INSERT INTO events (session, seq, type, execution_id, data)
    VALUES ({SESSION}, ?, ?, ?, ?)"""
RAISE_RECEIVED = "UPDATE sessions SET received = max(received, ?) WHERE id = ?"
SET_RECEIVED = "UPDATE sessions SET received = ? WHERE id = ?"
SAVE_DISPLAY = f"""INSERT INTO displays (session, display_id, execution_id) VALUES ({SESSION}, ?, ?)
    ON CONFLICT DO NOTHING"""
MARK_OUTDATED = f"""INSERT INTO outdated (session, execution_id) VALUES ({SESSION}, ?)
    ON CONFLICT DO NOTHING"""
UNMARK_OUTDATED = f"DELETE FROM outdated WHERE session = {SESSION} AND execution_id = ?"
SAVE_WORKSPACE = """INSERT INTO workspaces (id, record) VALUES (?, ?)
    ON CONFLICT (id) DO UPDATE SET record = excluded.record"""
DELETE_WORKSPACE = "DELETE FROM workspaces WHERE id = ?"
AUDIT = "INSERT INTO audit (time, action, session_id, detail) VALUES (?, ?, ?, ?)"


def saving_session(record: SessionRecord) -> Step:
    return SAVE_SESSION, [(record.id, _encode(record))]


def saving_workspace(record: WorkspaceRecord) -> Step:
    return SAVE_WORKSPACE, [(record.id, _encode(record))]


def saving_execution(execution: Execution, encoded: bytes) -> Step:
    return SAVE_EXECUTION, [(execution.session_id, execution.id, execution.status.value, encoded)]


def setting_received(session_id: str, received: int) -> Step:
    return SET_RECEIVED, [(received, session_id)]


def marking_outdated(session_id: str, execution_id: str) -> Step:
    """Its outputs changed after it had ended."""
    return MARK_OUTDATED, [(session_id, execution_id)]


def unmarking_outdated(session_id: str, execution_id: str) -> Step:
    """It is saved with the outputs it has now."""
    return UNMARK_OUTDATED, [(session_id, execution_id)]
