"""`interpreter pause`, `resume`, `stop`, `start`, `delete`, `interrupt`, `restart`, `attach`, `detach`.

Those that take several sessions do what they can, and say of which they could not.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from interpreter.cli.attach import pick
from interpreter.cli.exits import Exit, report
from interpreter.cli.spinner import Spinner
from interpreter.client import Client, Session
from interpreter.client.errors import GatewayUnreachable
from interpreter.errors import InterpreterError


def pause(session: Session) -> str:
    session.pause()
    return f"paused {session.id}: memory is kept, the next cell resumes it"


def resume(session: Session) -> str:
    return f"resumed {session.id}: it is {session.resume().state.value}"


def stop(session: Session) -> str:
    session.stop()
    return f"stopped {session.id}: what was in memory is gone, files and history stay"


def start(session: Session) -> str:
    with Spinner(sys.stderr, f"starting {session.id}"):
        return f"started {session.id}: it is {session.start().state.value}"


def delete(session: Session) -> str:
    deleted = session.delete()
    cells = "1 cell" if deleted.executions == 1 else f"{deleted.executions:,} cells"
    return f"deleted {deleted.id}: {cells}, {deleted.workspace_bytes:,} bytes of files"


def interrupt(session: Session, context: str) -> str:
    session.interrupt(context)
    return f"interrupted {session.id}"


def restart(session: Session, context: str) -> str:
    session.restart(context)
    return f"restarted {session.id}: what was in memory is gone, files stay"


def attach(session: Session, dataset: str) -> str:
    session.attach(dataset)
    return f"attached {dataset} to {session.id}: it is at /data/input/{dataset}"


def detach(session: Session, dataset: str) -> str:
    session.detach(dataset)
    return f"detached {dataset} from {session.id}"


def each(wanted: Sequence[str], do: Callable[[Session], str]) -> Exit:
    """Does something with every session that was named, and prints what became of it."""
    outcome = Exit.ok
    with Client() as client:
        for one in wanted:
            try:
                print(do(pick(client, one)), flush=True)
            except GatewayUnreachable:
                raise
            except InterpreterError as error:
                outcome = report(error)
    return outcome
