"""`interpreter sessions`, `delete`, `interrupt` and `restart`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime

from interpreter.cli.attach import pick
from interpreter.client import Client
from interpreter.models import Session, SessionList, to_json

COLUMNS = ("id", "name", "state", "isolation", "environment", "memory", "cpu", "age", "last activity")


def show(json: bool) -> None:
    with Client() as client:
        sessions = client.sessions()
    if json:
        print(to_json(SessionList(sessions=sessions)).decode())
    elif sessions:
        print_table(COLUMNS, [_row(session) for session in sessions])
    else:
        print("There are no sessions. 'interpreter run CODE' makes one.", file=sys.stderr)


def delete(wanted: Sequence[str]) -> None:
    with Client() as client:
        for one in wanted:
            deleted = pick(client, one).delete()
            size = deleted.workspace_bytes
            print(f"deleted {deleted.id}: {deleted.executions} cells, {size:,} bytes of files")


def interrupt(wanted: str) -> None:
    with Client() as client:
        info = pick(client, wanted).interrupt()
    print(f"interrupted {info.id}")


def restart(wanted: str) -> None:
    with Client() as client:
        info = pick(client, wanted).restart()
    print(f"restarted {info.id}: what was in memory is gone, files stay")


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table that fits a terminal, and that is not cut where it goes to a file or a pipe."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*columns, box=None, header_style="bold", pad_edge=False)
    table.columns[0].no_wrap = True
    for row in rows:
        # Names come from others: no markup and no control characters of theirs.
        table.add_row(*(Text("".join(c for c in cell if c.isprintable())) for cell in row))
    Console(width=None if sys.stdout.isatty() else 1000, soft_wrap=False).print(table)


def _row(session: Session) -> tuple[str, ...]:
    return (
        session.id,
        session.name or "",
        session.state.value,
        session.isolation,
        session.environment,
        *_used(session),
        ago(session.created_at),
        ago(session.last_activity),
    )


def _used(session: Session) -> tuple[str, str]:
    """Memory now, of the limit, and processor time since it started."""
    usage = session.usage
    if usage is None:
        return "", ""
    return (
        f"{usage.memory_bytes >> 20:,} of {session.limits.memory_mb:,} MB",
        f"{usage.cpu_seconds:,.1f} s",
    )


def ago(then: datetime) -> str:
    seconds = max(0, int((datetime.now(UTC) - then).total_seconds()))
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
