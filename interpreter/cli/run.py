"""`interpreter run`: one cell, its outputs as they come, and an exit code that says how it went."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
import typer

from interpreter.cli.attach import open_session
from interpreter.cli.cell import CellRunner
from interpreter.cli.exits import OF_STATUS, Exit, complain
from interpreter.cli.images import ImageFolder
from interpreter.cli.screen import Screen
from interpreter.client import Client, Result
from interpreter.models import ExecutionStatus, to_json


def read_code(code: str | None, file: Path | None) -> str:
    """The code from wherever the command line says it is."""
    if (code is None) == (file is None):
        raise typer.BadParameter("Give the code, or a file with -f, or - for stdin.", param_hint="CODE")
    if file is not None:
        try:
            return file.read_text()
        except (OSError, UnicodeDecodeError) as e:
            raise typer.BadParameter(str(e), param_hint="--file") from None
    return sys.stdin.read() if code == "-" else str(code)


def run(
    code: str,
    *,
    joined: str | None,
    name: str | None,
    environment: str | None,
    env: Sequence[str] | None,
    inputs: Sequence[str] | None,
    workspace: str | None,
    read_only: bool,
    context: str,
    timeout: float | None,
    delete: bool,
    images: Path,
    json: bool,
) -> int:
    screen = None if json else Screen(sys.stdout, sys.stderr, ImageFolder(images))
    with Client(by="cli") as client:
        session = open_session(client, joined, name, environment, env, inputs, workspace, read_only)
        if joined is None and not delete:
            print(f"session {session.id} (keep using it: --session {session.id})", file=sys.stderr)
        try:
            runner = CellRunner(session, screen, timeout, context)
            result = runner.run(code)
        except KeyboardInterrupt:
            print(f"left; the cell may still run ('interpreter logs {session.id}')", file=sys.stderr)
            return Exit.interrupted
        finally:
            if delete:
                session.delete()
    if json:
        _print_json(result)
    else:
        explain_end(result)
    return Exit.interrupted if runner.interrupted and not result.ok else OF_STATUS[result.status]


def explain_end(result: Result) -> None:
    """Says why a cell ended that neither went well nor raised an exception."""
    if result.status not in (ExecutionStatus.ok, ExecutionStatus.error):
        complain(result.reason or f"The cell ended as {result.status.value}.")


def _print_json(result: Result) -> None:
    text = to_json(result.execution)
    if sys.stdout.isatty():
        text = msgspec.json.format(text, indent=2)
    sys.stdout.buffer.write(text + b"\n")
    sys.stdout.flush()
