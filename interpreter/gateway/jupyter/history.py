"""What was run before, as Jupyter's clients ask for it: for a console's arrow keys, and for searching.

It comes from the session's record, and not from a kernel: whoever ran a cell, and however often the
kernel was replaced since. A new kernel counts from 1 again, which begins another session of the history.
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Annotated, Any

from msgspec import Meta, Struct

from interpreter.errors import InterpreterError
from interpreter.orchestrator.executions import Executions
from interpreter.store import Input

MOST = 1000
"""Cells that are looked at."""


class HistoryWanted(Struct):
    """The content of a history_request."""

    hist_access_type: str = "tail"
    output: bool = False
    n: int | None = None
    session: int = 0
    start: int = 0
    stop: int | None = None
    pattern: Annotated[str, Meta(max_length=10_000)] | None = None
    unique: bool = False


class Line(Struct):
    """One cell of the history."""

    session: int
    input: Input


def lines(inputs: Iterable[Input]) -> list[Line]:
    found: list[Line] = []
    for input in inputs:
        last = found[-1] if found else None
        session, count = (last.session, last.input.execution_count) if last else (1, 0)
        if input.execution_count <= count:
            session += 1
        found.append(Line(session, input))
    return found


def chosen(there: list[Line], wanted: HistoryWanted) -> list[Line]:
    match wanted.hist_access_type:
        case "range":
            current = there[-1].session if there else 1
            session = wanted.session if wanted.session > 0 else current + wanted.session
            stop = wanted.stop if wanted.stop is not None else MOST * MOST
            return [
                line
                for line in there
                if line.session == session and wanted.start <= line.input.execution_count < stop
            ]
        case "search":
            pattern = wanted.pattern or "*"
            found = [line for line in there if fnmatchcase(line.input.code, pattern)]
            if wanted.unique:
                last = {line.input.code: line for line in found}
                found = [line for line in found if last[line.input.code] is line]
            return found if wanted.n is None else found[-max(0, wanted.n) :]
        case _:
            return there[-max(1, wanted.n or 10) :]


async def history(executions: Executions, session_id: str, wanted: HistoryWanted) -> dict[str, Any]:
    """The content of the reply."""
    found = chosen(lines(await executions.inputs(session_id, MOST)), wanted)
    told: list[tuple[int, int, Any]] = []
    for line in found:
        shown: Any = line.input.code
        if wanted.output:
            shown = (shown, await _result(executions, session_id, line.input.execution_id))
        told.append((line.session, line.input.execution_count, shown))
    return {"status": "ok", "history": told}


async def _result(executions: Executions, session_id: str, execution_id: str) -> str | None:
    try:
        execution = await executions.read(session_id, execution_id)
    except InterpreterError:
        return None  # it was deleted meanwhile
    results = [o["data"] for o in execution.outputs if o["output_type"] == "execute_result"]
    text = results[-1].get("text/plain") if results else None
    return None if text is None else str(text)
