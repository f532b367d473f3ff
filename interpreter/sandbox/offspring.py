"""Programs that the kernel host starts beside the kernels: for commands and for terminals.

Each has a mark of its own from its first moment on, as have all that it starts, so that they can be
told apart and ended together.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
from collections.abc import Callable
from typing import Any

from interpreter.sandbox.census import NOBODY, Census
from interpreter.sandbox.endings import Endings
from interpreter.sandbox.settings import Settings

SHELLS = ("/bin/bash", "/usr/bin/bash", "/bin/sh")
KERNELS_ONLY = ("MPLBACKEND", "PYDEVD_DISABLE_FILE_VALIDATION")
"""Variables that only make sense in a kernel."""


class Offspring:
    """Starts programs, and ends them with all that they have started."""

    def __init__(self, settings: Settings, census: Census, endings: Endings) -> None:
        self.environment: dict[str, str] = {}
        self._settings = settings
        self._census = census
        self._endings = endings

    def start(
        self,
        execution: str | None,
        argv: list[str],
        cwd: str | None,
        variables: dict[str, str],
        descriptors: tuple[int, int, int],
        before: Callable[[], Any] | None = None,
    ) -> tuple[int, int]:
        """Returns its pid and its mark; `descriptors` become its stdin, stdout and stderr.

        Raises OSError or ValueError for what cannot be started.
        """
        marks = self._census.marks
        if marks.full:
            marks.forget({m.number for m in self._census.take() if m.number is not None})
        number = marks.new(NOBODY, execution)
        environment = {k: v for k, v in self.environment.items() if k not in KERNELS_ONLY}
        folder = os.path.join(self._settings.workspace, cwd or "")
        stdin, stdout, stderr = descriptors
        usual = resource.getrlimit(resource.RLIMIT_RSS)
        # Given to this process for a moment, the mark is there before the program's first step.
        marks.put(os.getpid(), number)
        try:
            process = subprocess.Popen(
                argv, cwd=folder, env=environment | {"PWD": folder} | variables,
                start_new_session=True, preexec_fn=before,
                stdin=stdin, stdout=stdout, stderr=stderr,
            )  # fmt: skip
        finally:
            resource.setrlimit(resource.RLIMIT_RSS, usual)
        process.returncode = 0  # the host reaps all its children itself
        self._census.programs.add(process.pid)
        return process.pid, number

    def reaped(self, pid: int) -> None:
        self._census.programs.discard(pid)

    def end(self, command: dict[str, Any], pid: int, number: int) -> None:
        """Ends a program and all that it has started; the command is answered when that is done."""
        group = pid if self._is_there(pid) else None
        self._endings.begin(command, lambda m: m.number == number or m.process.group == group)

    def hang_up(self, pid: int) -> None:
        """What a shell is told when its terminal goes; it does not listen to SIGTERM."""
        if self._is_there(pid):
            with contextlib.suppress(OSError):
                os.killpg(pid, signal.SIGHUP)

    def _is_there(self, pid: int) -> bool:
        """Whether it was not reaped: afterwards its number may be another's, and that of its group."""
        return pid in self._census.programs


def shell() -> str:
    return next((path for path in SHELLS if os.access(path, os.X_OK)), "sh")


def exit_report(status: int) -> dict[str, Any]:
    """How a program ended, as the other end is told."""
    code = os.waitstatus_to_exitcode(status)
    return {"exit_code": code if code >= 0 else None, "signal": -code if code < 0 else None}


def problem_report(problem: Exception) -> dict[str, Any]:
    """Why there never was a program."""
    if isinstance(problem, OSError):
        return {"problem": f"{problem.strerror}: {problem.filename}"[:1000]}
    return {"problem": str(problem)[:1000]}


def whole_characters(data: bytes) -> int:
    """How much of this can be read as UTF-8 without waiting for the rest of its last character."""
    for back in range(1, min(3, len(data)) + 1):
        byte = data[-back]
        if byte < 0x80:
            break
        if byte >= 0xC0:
            needed = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return len(data) - back if needed > back else len(data)
    return len(data)
