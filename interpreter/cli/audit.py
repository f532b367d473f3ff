"""`interpreter audit`: what became of sessions, and why."""

from __future__ import annotations

from interpreter.cli.table import print_table
from interpreter.client import Client
from interpreter.client.lookup import find
from interpreter.errors import SessionNotFound
from interpreter.models import AuditEntry, AuditLog, to_json

COLUMNS = ("time", "session", "what", "from", "why")


def audit(wanted: str | None, limit: int, json: bool) -> None:
    with Client() as client:
        id = wanted
        if wanted is not None:
            try:
                id = find(client.sessions(), wanted, prefix=True).id
            except SessionNotFound:
                id = wanted  # one that is deleted is known by its whole id
        entries = client.audit(id, limit=limit)
    if json:
        print(to_json(AuditLog(entries=entries)).decode())
    else:
        print_table(COLUMNS, [_row(entry) for entry in entries])


def _row(entry: AuditEntry) -> tuple[str, ...]:
    detail = dict(entry.detail)
    old, cause = detail.pop("from", ""), detail.pop("cause", None)
    why = cause or ", ".join(f"{name}: {value}" for name, value in detail.items())
    time = entry.time.astimezone().isoformat(" ", "seconds")[:19]
    return time, entry.session_id or "", entry.action, str(old), str(why)
