"""`interpreter notebook run`: a notebook's cells run one after another in a session of their own, its
outputs written down, and compared with those that it came with."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec
import typer

from interpreter.cli.attach import open_session
from interpreter.cli.exits import OF_STATUS, Exit, complain
from interpreter.client import Client, Result
from interpreter.models.executions import ExecutionStatus
from interpreter.models.notebooks import comparable

Notebook = dict[str, Any]


def run(
    file: Path,
    out: Path | None,
    *,
    joined: str | None,
    environment: str | None,
    timeout: float | None,
    compare: bool,
    keep_going: bool,
) -> int:
    notebook = _read(file)
    cells = [cell for cell in notebook["cells"] if cell.get("cell_type") == "code"]
    before = [comparable(cell.get("outputs", [])) for cell in cells]
    ended = Exit.ok
    with Client(by="cli") as client:
        session = open_session(client, joined, None, environment)
        try:
            for number, cell in enumerate(cells, 1):
                result = session.run(_source(cell), timeout=timeout)
                cell["outputs"] = result.outputs
                cell["execution_count"] = result.execution_count
                print(f"[{number}/{len(cells)}] {_summary(result)}", file=sys.stderr)
                if result.status is not ExecutionStatus.ok:
                    ended = ended or OF_STATUS[result.status]
                    if not keep_going:
                        cells = cells[:number]
                        break
        finally:
            if joined is None:
                session.delete()
    if out is not None:
        out.write_bytes(msgspec.json.format(msgspec.json.encode(notebook), indent=1) + b"\n")
    if not compare:
        return ended
    after = [comparable(cell["outputs"]) for cell in cells]
    differ = [n for n, (a, b) in enumerate(zip(before, after, strict=False), 1) if a != b]
    for number in differ:
        print(f"cell {number} differs: {_first_line(_source(cells[number - 1]))}")
    if not differ:
        print(f"{len(cells)} cells, all outputs as they were")
    return Exit.cell_failed if differ else ended


def _read(file: Path) -> Notebook:
    try:
        notebook = msgspec.json.decode(file.read_bytes(), type=Notebook)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as e:
        raise typer.BadParameter(f"{file} cannot be read: {e}", param_hint="NOTEBOOK") from None
    cells = notebook.get("cells")
    fine = isinstance(cells, list) and all(isinstance(cell, dict) for cell in cells)
    if notebook.get("nbformat") != 4 or not fine:
        raise typer.BadParameter(f"{file} is not a notebook of version 4.", param_hint="NOTEBOOK")
    return notebook


def _source(cell: dict[str, Any]) -> str:
    source = cell.get("source", "")
    return "".join(source) if isinstance(source, list) else str(source)


def _summary(result: Result) -> str:
    took = f"{(result.duration_ms or 0) / 1000:.1f} s"
    first = _first_line(result.execution.code)
    if result.status is ExecutionStatus.ok:
        return f"ok, {took}: {first}"
    if result.error is not None:
        complain(f"{result.error.ename}: {result.error.evalue}")
    return f"{result.status.value}, {took}: {first}"


def _first_line(code: str) -> str:
    return (code.strip().splitlines() or [""])[0][:60]
