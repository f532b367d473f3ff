"""`interpreter ps`: what runs in a session, and ending what finished cells have left."""

from __future__ import annotations

import sys

from interpreter.cli.attach import pick
from interpreter.cli.table import ago, print_table
from interpreter.client import Client
from interpreter.models import to_json
from interpreter.models.processes import Process, ProcessList

COLUMNS = ("pid", "parent", "state", "cpu", "memory", "age", "started by", "command")


def ps(wanted: str, end_orphans: bool, json: bool) -> None:
    with Client() as client:
        session = pick(client, wanted)
        if end_orphans:
            done = session.end_orphans()
            if json:
                print(to_json(done).decode())
                return
            for process in done.ended:
                print(f"ended {process.pid}: {_printable(process.command or process.name)}")
            for pid in done.left:
                print(f"{pid} could not be ended", file=sys.stderr)
            return
        processes = session.processes()
    if json:
        print(to_json(ProcessList(processes=processes)).decode())
    else:
        print_table(COLUMNS, [_row(process) for process in processes])


def _row(process: Process) -> tuple[str, ...]:
    return (
        str(process.pid),
        str(process.parent),
        process.state.value,
        f"{process.cpu_seconds:,.1f} s",
        f"{process.memory_bytes >> 20:,} MB",
        ago(process.started_at),
        _started_by(process),
        process.command or process.name,
    )


def _started_by(process: Process) -> str:
    if process.is_kernel:
        return "kernel"
    if process.execution_id is None:
        return ""
    return process.execution_id + (" (ended)" if process.orphan else "")


def _printable(text: str) -> str:
    return "".join(c for c in text if c.isprintable())
