"""`interpreter sessions` and `contexts`: what there is."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from interpreter.cli.attach import pick, read_pairs
from interpreter.cli.table import ago, narrow, print_table, span
from interpreter.client import Client
from interpreter.models import ContextList, Session, SessionList, SessionState, to_json

COLUMNS: dict[str, Callable[[Session], str]] = {
    "id": lambda s: s.id,
    "name": lambda s: s.name or "",
    "state": lambda s: _state(s),
    "environment": lambda s: s.environment,
    "isolation": lambda s: s.isolation,
    "memory": lambda s: _memory(s),
    "cpu": lambda s: f"{s.usage.cpu_seconds:,.1f} s" if s.usage else "",
    "age": lambda s: ago(s.created_at),
    "last used": lambda s: f"{ago(s.last_activity)} ago",
    "if idle": lambda s: _if_idle(s),
    "ends in": lambda s: _ends_in(s),
}
LEFT_OUT = ("environment", "isolation", "age", "cpu")
"""Where the terminal is narrow."""
WIDE = 130


def show(state: str | None, name: str | None, labels: Sequence[str] | None, json: bool) -> None:
    wanted = read_pairs(labels, "--label")
    with Client() as client:
        sessions = client.sessions(state=state, name=name, labels=wanted)
    if json:
        print(to_json(SessionList(sessions=sessions)).decode())
    elif sessions:
        left_out = LEFT_OUT if narrow(WIDE) else ()
        columns = {title: cell for title, cell in COLUMNS.items() if title not in left_out}
        print_table(tuple(columns), [[cell(s) for cell in columns.values()] for s in sessions])
    elif state or name or wanted:
        print("There are no such sessions.", file=sys.stderr)
    else:
        print("There are no sessions. 'interpreter run CODE' makes one.", file=sys.stderr)


def contexts(wanted: str, create: str | None, delete: str | None, json: bool) -> None:
    with Client() as client:
        session = pick(client, wanted)
        if create is not None:
            session.create_context(create)
        if delete is not None:
            session.delete_context(delete)
        there = session.contexts()
    if json:
        print(to_json(ContextList(contexts=there)).decode())
    elif there:
        rows = [(c.name, "busy" if c.busy else "ready", ago(c.created_at)) for c in there]
        print_table(("context", "state", "age"), rows)
    else:
        print(f"{session.id} has no contexts while it is {session.info.state.value}.", file=sys.stderr)


def _state(session: Session) -> str:
    if session.queue_position is not None:
        return f"{session.state.value}, {session.queue_position} in line"
    return session.state.value


def _memory(session: Session) -> str:
    """Now, of the limit."""
    if session.usage is None:
        return ""
    return f"{session.usage.memory_bytes >> 20:,} of {session.limits.memory_mb:,} MB"


def _if_idle(session: Session) -> str:
    """What becomes of it if nobody uses it, and when."""
    if session.state in (SessionState.stopped, SessionState.failed, SessionState.paused):
        return ""
    if session.on_idle == "nothing":
        return "stays"
    left = session.remaining.idle_seconds
    return f"{session.on_idle} in {span(session.limits.idle_seconds if left is None else left)}"


def _ends_in(session: Session) -> str:
    """How long until its sandbox has reached its lifetime."""
    left = session.remaining.lifetime_seconds
    return "" if left is None else span(left)
