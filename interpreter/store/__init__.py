"""The persistence layer: sessions, executions, events and the audit log in one SQLite file.

store = await Store.open(path)
await store.save_session(record)
store.append_events(record.id, rows, received=7)
...
await store.close()
"""

from interpreter.store.records import EventRow, SessionRecord, StoreUnavailable
from interpreter.store.store import Store

__all__ = ["EventRow", "SessionRecord", "Store", "StoreUnavailable"]
