"""The persistence layer: sessions, executions, events and the audit log in one SQLite file.

store = await Store.open(path)
await store.save_session(record)
store.append_events(record.id, rows, received=7)
...
await store.close()
"""

from interpreter.errors import StoreDamaged, StoreUnavailable
from interpreter.store.journal import Ending, Entry, File
from interpreter.store.records import EventRow, Input, ReplayRecord, SessionRecord, WorkspaceRecord
from interpreter.store.repair import Report, repair
from interpreter.store.statements import (
    Step,
    marking_outdated,
    saving_execution,
    saving_session,
    setting_received,
    unmarking_outdated,
)
from interpreter.store.store import Store

__all__ = [
    "Ending",
    "Entry",
    "EventRow",
    "File",
    "Input",
    "ReplayRecord",
    "Report",
    "SessionRecord",
    "Step",
    "Store",
    "StoreDamaged",
    "StoreUnavailable",
    "WorkspaceRecord",
    "marking_outdated",
    "repair",
    "saving_execution",
    "saving_session",
    "setting_received",
    "unmarking_outdated",
]
