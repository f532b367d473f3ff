"""The command line as a user has it: a process of its own, on pipes or on a terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

COMMAND = [sys.executable, "-m", "interpreter.cli"]
ROOT = Path(__file__).resolve().parents[2]
CONTROL = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[()][A-Z0-9]|\x1b[=>78]")


def environment(**more: str) -> dict[str, str]:
    env = {k: v for k, v in os.environ.items() if not k.startswith("INTERPRETER_")}
    return {**env, "PYTHONPATH": str(ROOT), "TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1", **more}


def interpreter(
    *arguments: str, env: Mapping[str, str], cwd: Path, stdin: str | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        env=dict(env),
        cwd=cwd,
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        text=True,
        timeout=60,
    )


class Terminal:
    """A command on a pseudo-terminal, read as a person would: without the control codes."""

    def __init__(self, arguments: Sequence[str], env: Mapping[str, str], cwd: Path) -> None:
        self._master, slave = pty.openpty()
        self._process = subprocess.Popen(
            [*COMMAND, *arguments],
            env=dict(env),
            cwd=cwd,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=_own_terminal,
        )
        os.close(slave)
        self.raw = ""
        self._read_to = 0

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        os.close(self._master)

    @property
    def text(self) -> str:
        return CONTROL.sub("", self.raw).replace("\r", "")

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def expect(self, pattern: str, timeout: float = 30.0) -> str:
        """What came up to and with this; only what is new since the last time counts."""
        deadline = time.monotonic() + timeout
        while True:
            found = re.compile(pattern).search(self.text, self._read_to)
            if found:
                before, self._read_to = self._read_to, found.end()
                return self.text[before : found.end()]
            left = deadline - time.monotonic()
            if left <= 0 or not self._read(left):
                raise AssertionError(f"no {pattern!r} in {self.text[self._read_to :]!r}")

    def exit_code(self, timeout: float = 30.0) -> int:
        deadline = time.monotonic() + timeout
        while self._read(max(0.0, deadline - time.monotonic())):
            pass
        return self._process.wait(max(0.1, deadline - time.monotonic()))

    def _read(self, timeout: float) -> bool:
        if not select.select([self._master], [], [], timeout)[0]:
            return False
        try:
            data = os.read(self._master, 65536)
        except OSError:  # the last one to hold the terminal has gone
            return False
        self.raw += data.decode(errors="replace")
        return bool(data)


def _own_terminal() -> None:
    """Makes the terminal the controlling one, so that Ctrl-C is a signal."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
