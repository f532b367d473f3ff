"""One cell at the terminal: shown as it runs, interrupted by Ctrl-C, answered when it asks.

The first Ctrl-C interrupts the cell; the second leaves it to itself. A cell that still waits for
its turn is taken out of the queue instead, so that nobody else's cell is hit.
"""

from __future__ import annotations

import getpass
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from interpreter.cli.screen import Screen
from interpreter.cli.spinner import Spinner
from interpreter.client import Result, Session
from interpreter.client.requests import DEFAULT
from interpreter.errors import ExecutionNotFound, InputNotExpected, InterpreterError
from interpreter.models import Event, EventType


class CellRunner:
    """Runs one cell. Without a screen its outputs are not shown, only its questions."""

    def __init__(
        self,
        session: Session,
        screen: Screen | None,
        timeout: float | None,
        context: str = DEFAULT,
    ) -> None:
        self.interrupted = False
        self._session = session
        self._screen = screen
        self._timeout = timeout
        self._context = context
        self._execution_id: str | None = None
        self._running = False
        self._asking = False

    def run(self, code: str) -> Result:
        answerable = sys.stdin.isatty()
        with Spinner(sys.stderr, "running") as spinner, self._own_ctrl_c():
            for event in self._session.stream(
                code, context=self._context, timeout=self._timeout, allow_stdin=answerable
            ):
                self._note(event)
                with spinner.hidden():
                    self._show(event)
                if self._screen is not None:
                    spinner.keep_line(self._screen.cursor_in_line)
        return self._session.result(event)

    def _show(self, event: Event) -> None:
        if event.type is EventType.input_request:
            self._answer(event)
        elif self._screen is not None:
            self._screen.show(event)

    def _note(self, event: Event) -> None:
        if event.type is not EventType.status or event.execution_id is None:
            return
        starts = self._execution_id is None
        self._execution_id = event.execution_id
        self._running = event.data.get("status") == "running"
        if starts and self.interrupted:  # Ctrl-C came before there was anything to interrupt
            self._interrupt()

    def _answer(self, event: Event) -> None:
        try:
            self._asking = True
            value = ask(event.data["prompt"], event.data["password"])
        except (KeyboardInterrupt, EOFError):
            print(file=sys.stderr)
            self.interrupted = True
            self._interrupt()
            return
        finally:
            self._asking = False
        if self._screen is not None:
            self._screen.begin_line()
        with suppress(InputNotExpected, ExecutionNotFound):  # it ended, or somebody was faster
            self._session.answer(str(event.execution_id), value)

    @contextmanager
    def _own_ctrl_c(self) -> Iterator[None]:
        before = signal.signal(signal.SIGINT, self._ctrl_c)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def _ctrl_c(self, number: int, frame: FrameType | None) -> None:
        if self._asking or self.interrupted:
            raise KeyboardInterrupt
        self.interrupted = True
        # The signal came in the middle of reading; another thread has its own connection.
        threading.Thread(target=self._interrupt, daemon=True).start()

    def _interrupt(self) -> None:
        with suppress(InterpreterError):
            if self._running:
                self._session.interrupt(self._context)
            elif self._execution_id is not None:
                self._session.cancel(self._execution_id)


def ask(prompt: str, password: bool) -> str:
    """A line from the terminal. The prompt goes to stderr: stdout belongs to the cell."""
    if password:
        return getpass.getpass(prompt)
    print(prompt, end="", file=sys.stderr, flush=True)
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.removesuffix("\n")
