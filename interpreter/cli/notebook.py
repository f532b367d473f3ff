"""`interpreter notebook run`: a notebook replayed in a session of its own, its outputs written down, and
compared with those that it came with."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import msgspec
import typer

from interpreter.cli.exits import OF_STATUS, Exit, complain
from interpreter.cli.notebook_diff import differences
from interpreter.client import Client, Result, Session
from interpreter.models import ExecutionStatus, GivenCell, ReplayState
from interpreter.models.notebooks import code_cell

Notebook = dict[str, Any]


class Shown(Protocol):
    """Where a person sees how far it is."""

    def begins(self, number: int) -> None:
        """The cell with this number, from 1, is the next."""

    def ended(self, number: int, result: Result) -> None: ...


def run(
    file: Path,
    out: Path | None,
    *,
    environment: str | None,
    workspace: str | None,
    inputs: Sequence[str] | None,
    timeout: float | None,
    compare: bool,
    keep_going: bool,
    keep: bool,
) -> int:
    notebook, cells = _read(file)
    before = [cell.get("outputs", []) for cell in cells]
    for cell in notebook["cells"]:
        if cell.get("cell_type") == "code":
            cell |= {"outputs": [], "execution_count": None}
    with Client(by="cli") as client:
        session = client.create_session(
            environment=environment,
            workspace=workspace,
            inputs=inputs,
            notebook=notebook,
            keep_going=keep_going,
            cell_timeout=timeout,
        )
        try:
            ran, cut, ended = _follow(session, cells)
        except KeyboardInterrupt:
            complain("It was interrupted.", f"Its session is {session.id}." if keep else "")
            return Exit.interrupted
        finally:
            if not keep:
                session.delete()
    if keep:
        print(f"session {session.id} (keep using it: --session {session.id})", file=sys.stderr)
    if out is not None:
        out.write_bytes(msgspec.json.format(msgspec.json.encode(notebook), indent=1) + b"\n")
    if compare and _compare(cells[:ran], before, cut):
        return Exit.cell_failed
    return ended


def _follow(session: Session, cells: list[dict[str, Any]]) -> tuple[int, set[int], int]:
    """Fills in what comes of the cells; returns how many were run, which of them put out more than a
    result carries, and how it ended."""
    number, ended = 0, Exit.ok
    cut: set[int] = set()
    with _progress(cells) as shown:
        shown.begins(1)
        for number, result in enumerate(session.replay(), 1):
            filled = code_cell(result.execution)
            cell = cells[number - 1]
            cell |= {key: filled[key] for key in ("outputs", "execution_count")}
            if "execution" in filled["metadata"]:
                cell.setdefault("metadata", {})["execution"] = filled["metadata"]["execution"]
            if result.execution.truncated is not None:
                cut.add(number)
            ended = ended or OF_STATUS[result.status]
            shown.ended(number, result)
            shown.begins(number + 1)
    replay = session.info.replay
    if replay is not None and replay.state is ReplayState.cancelled:
        complain(f"The notebook ended early: {replay.reason}.")
        ended = ended or Exit.interrupted
    return number, cut, ended


def _compare(cells: list[dict[str, Any]], before: list[list[dict[str, Any]]], cut: set[int]) -> bool:
    """Says which outputs differ; returns whether any does."""
    differ, unknown = False, 0
    for number, (cell, old) in enumerate(zip(cells, before, strict=False), 1):
        lines = differences(old, cell["outputs"])
        if lines and number in cut:
            unknown += 1
            print(f"cell {number} cannot be compared, it put out too much: {_first_line(cell)}")
        elif lines:
            differ = True
            print(f"cell {number} differs: {_first_line(cell)}")
            print(*(f"    {line}" for line in lines), sep="\n")
    if not differ:
        print(f"{len(cells) - unknown} cells, all outputs as they were")
    return differ


def _read(file: Path) -> tuple[Notebook, list[dict[str, Any]]]:
    """A notebook, and those of its cells that are run."""
    try:
        notebook = msgspec.json.decode(file.read_bytes(), type=Notebook)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as e:
        raise typer.BadParameter(f"{file} cannot be read: {e}", param_hint="NOTEBOOK") from None
    try:
        if notebook.get("nbformat") != 4:
            raise msgspec.ValidationError("it is not of version 4")
        given = msgspec.convert(notebook.get("cells"), list[GivenCell])
    except msgspec.ValidationError as e:
        raise typer.BadParameter(f"{file} is not a notebook: {e}.", param_hint="NOTEBOOK") from None
    return notebook, [cell for cell, what in zip(notebook["cells"], given, strict=True) if what.runs]


def _first_line(cell: dict[str, Any]) -> str:
    text = msgspec.convert(cell, GivenCell).text
    return (text.strip().splitlines() or [""])[0][:60]


class _Lines:
    """One line for each cell, where nobody watches."""

    def __init__(self, cells: list[dict[str, Any]]) -> None:
        self._cells = cells

    def begins(self, number: int) -> None:
        """A line is written when it has ended."""

    def ended(self, number: int, result: Result) -> None:
        what = f"{result.status.value}, {(result.duration_ms or 0) / 1000:.1f} s"
        first = _first_line(self._cells[number - 1])
        print(f"[{number}/{len(self._cells)}] {what}: {first}", file=sys.stderr)
        _explain(result)


@contextmanager
def _progress(cells: list[dict[str, Any]]) -> Iterator[Shown]:
    """A bar with the cell that runs, on a terminal; of cells that fail a line stays."""
    if not sys.stderr.isatty():
        yield _Lines(cells)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    text = TextColumn("{task.description}", markup=False)
    with Progress(*columns, text, console=Console(stderr=True)) as bars:
        task = bars.add_task("", total=len(cells))

        class Bar(_Lines):
            def begins(self, number: int) -> None:
                over = number > len(cells)
                line = "" if over else _first_line(cells[number - 1])
                bars.update(task, completed=number - 1, description=line)

            def ended(self, number: int, result: Result) -> None:
                if not result.ok:
                    super().ended(number, result)

        yield Bar(cells)


def _explain(result: Result) -> None:
    if result.error is not None:
        complain(f"{result.error.ename}: {result.error.evalue}")
    elif result.status is not ExecutionStatus.ok:
        complain(result.reason or f"The cell ended as {result.status.value}.")
