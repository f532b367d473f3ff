"""Starts the processes that describe files, and passes on what they say.

Each has a file, little time, and an answer of limited length. What it says is neither read nor
believed here: cells run as the same user and could have said it.
"""

from __future__ import annotations

import base64
import contextlib
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from interpreter.sandbox.reactor import Reactor

SECONDS = 20.0
MOST_BYTES = 150 * 1024
"""As base64, an answer of this length fits into one frame of the link."""
MOST_AT_ONCE = 4


class _Description:
    """A process that describes a file, and what it has said so far."""

    def __init__(self, command: dict[str, Any], pid: int, output: int) -> None:
        self.command = command
        self.pid = pid
        self.output = output
        self.said = b""
        self.until = time.monotonic() + SECONDS


class Describing:
    """The gateway's command to describe a file."""

    def __init__(
        self, workspace: str, payload: str, reactor: Reactor, answer: Callable[..., None]
    ) -> None:
        self.environment: dict[str, str] = {}
        """That of kernels, so that the same packages are found."""
        self._workspace = workspace
        self._payload = payload
        self._reactor = reactor
        self._answer = answer
        self._running: list[_Description] = []

    @property
    def patience(self) -> float:
        """Seconds until one has taken too long."""
        soonest = min((one.until for one in self._running), default=math.inf)
        return max(0.0, soonest - time.monotonic())

    def begin(self, command: dict[str, Any]) -> None:
        if len(self._running) >= MOST_AT_ONCE:
            self._answer(command, problem="busy")
            return
        path = os.path.join(self._workspace, command["path"])
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "interpreter.sandbox.describe", path],
            env=self.environment | {"PYTHONPATH": self._payload, "OPENBLAS_NUM_THREADS": "1"},
            cwd=self._workspace, start_new_session=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        process.returncode = 0  # the host reaps all its children itself
        assert process.stdout is not None
        output = os.dup(process.stdout.fileno())
        process.stdout.close()
        os.set_blocking(output, False)
        one = _Description(command, process.pid, output)
        self._running.append(one)
        self._reactor.watch(output, lambda: self._read(one))

    def step(self) -> None:
        """Ends those that take too long."""
        now = time.monotonic()
        for one in [one for one in self._running if one.until <= now]:
            self._end(one, problem="time")

    def _read(self, one: _Description) -> None:
        try:
            data = os.read(one.output, 64 * 1024)
        except BlockingIOError:
            return
        one.said += data
        if len(one.said) > MOST_BYTES:
            self._end(one, problem="length")
        elif not data:
            self._end(one, said=base64.b64encode(one.said).decode())

    def _end(self, one: _Description, **said: str) -> None:
        self._running.remove(one)
        self._reactor.forget(one.output)
        os.close(one.output)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(one.pid, signal.SIGKILL)
        self._answer(one.command, **said)
