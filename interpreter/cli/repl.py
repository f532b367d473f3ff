"""`interpreter repl`: cells typed at a prompt, with colour, history and Ctrl-C.

A session that it made is deleted when it is left, unless it is to be kept; one that it joined
stays as it is.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import typer

from interpreter.cli.attach import open_session
from interpreter.cli.cell import CellRunner
from interpreter.cli.exits import Exit, report
from interpreter.cli.images import ImageFolder
from interpreter.cli.prompt import Prompt
from interpreter.cli.run import explain_end
from interpreter.cli.screen import Screen
from interpreter.client import Client, Session
from interpreter.errors import InterpreterError

LEAVE = {"%quit", "%exit", "quit", "exit", "quit()", "exit()"}
"""Caught here: the kernel would take some of them as an order to end itself."""


def repl(
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
    keep: bool,
    images: Path,
) -> int:
    if not sys.stdin.isatty():
        raise typer.BadParameter("repl needs a terminal; 'interpreter run -' reads code from a pipe.")
    with Client(by="cli") as client:
        session = open_session(client, joined, name, environment, env, inputs, workspace, read_only)
        kept = keep or joined is not None
        info = session.info
        print(f"session {session.id}, {info.environment}, isolation: {info.isolation}")
        print("Ctrl-C interrupts, %restart starts the kernel afresh, %quit or Ctrl-D leaves.\n")
        try:
            _Repl(session, context, ImageFolder(images), timeout).loop()
        finally:
            if not kept:
                session.delete()
        if kept:
            print(f"session {session.id} stays; 'interpreter repl -s {session.id}' comes back to it")
    return Exit.ok


class _Repl:
    def __init__(
        self, session: Session, context: str, images: ImageFolder, timeout: float | None
    ) -> None:
        self._session = session
        self._context = context
        self._screen = Screen(sys.stdout, sys.stderr, images, labels=True)
        self._timeout = timeout
        self._prompt = Prompt()
        self._count = _last_count(session, context)

    def loop(self) -> None:
        while True:
            try:
                code = self._prompt.ask(self._count + 1)
            except KeyboardInterrupt:
                continue
            except EOFError:
                return
            if code.strip() in LEAVE:
                return
            if not code.strip():
                continue
            try:
                self._run(code)
            except InterpreterError as error:
                report(error)
            except KeyboardInterrupt:
                print("left; the cell may still run", file=sys.stderr)

    def _run(self, code: str) -> None:
        if code.strip() == "%restart":
            self._session.restart(self._context)
            self._count = 0
            print("The kernel is fresh; what was in memory is gone, files stay.\n")
            return
        result = CellRunner(self._session, self._screen, self._timeout, self._context).run(code)
        explain_end(result)
        self._screen.line(self._screen.out, "")
        self._count = result.execution_count or self._count + 1


def _last_count(session: Session, context: str) -> int:
    """The number of the last cell, read in pages because cells carry their outputs."""
    count, after = 0, None
    while page := session.executions(limit=20, after=after):
        for cell in page:
            # A restarted kernel counts from 1 again.
            if cell.execution.context == context:
                count = cell.execution_count or count
        after = page[-1].id
    return count
