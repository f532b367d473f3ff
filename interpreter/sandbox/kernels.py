"""Kernels as processes: how one is started, and what is known when it has ended."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from typing import Any

from interpreter.sandbox.channels import Channels
from interpreter.sandbox.proc import Process
from interpreter.sandbox.settings import Settings

STDERR_KEPT = 8 * 1024


class Kernel:
    """One kernel process, its channels, and the last it wrote to its stderr."""

    def __init__(self, name: str, streams: dict[str, int], settings: Settings) -> None:
        self.name = name
        self.streams = streams
        self.start_command: dict[str, Any] = {}
        self.variables: dict[str, str] = {}
        """Environment variables that only this kernel has."""
        self.forked = settings.argv is None
        """Whether it is a fork of the zygote; else it was started by a command of its own."""
        self.pid: int | None = None
        self.helpers: list[Process] | None = None
        """Its other processes when its first cell came: a command may start the kernel proper."""
        self.number = 0
        """The mark of its running or last cell."""
        self.childless = False
        """Whether nothing is left of what it started, now that it has ended."""
        self.status: int | None = None
        self.ended_at = 0.0
        self.attempts = 0
        self.stalled: set[str] = set()
        """Channels that are not read because the gateway has too much to acknowledge."""
        self.resting = False
        """Whether its output is left to gather for a moment."""
        self.newest = b""
        """The id of the cell that it was sent last; empty if that was something else."""
        self.asked = 0
        """Requests on the shell channel that it has not replied to."""
        self.idle = False
        """Whether the last thing it said is that it is idle after what it was sent last."""
        self.replied = False
        """Whether it has replied to what it was sent last and has yet to say that it is idle."""
        directory = os.path.join(settings.scratch, f".k{streams['shell']}")
        self.channels = Channels(directory, settings.transport)
        self.stderr, self.stderr_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        os.set_blocking(self.stderr_end, True)
        self._stderr_tail = b""

    def read_stderr(self) -> None:
        try:
            while data := os.read(self.stderr, 64 * 1024):
                self._stderr_tail = (self._stderr_tail + data)[-STDERR_KEPT:]
        except BlockingIOError:
            pass

    def end(self, status: int) -> None:
        self.status = status
        self.ended_at = time.monotonic()

    def exit_report(self) -> dict[str, Any]:
        assert self.status is not None
        code = os.waitstatus_to_exitcode(self.status)
        return {
            "exit_code": code if code >= 0 else None,
            "signal": -code if code < 0 else None,
            "stderr": self._stderr_tail.decode(errors="replace"),
        }

    def close(self) -> None:
        # Whatever the kernel started in its own group ends with it.
        if self.pid is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
        os.close(self.stderr)
        os.close(self.stderr_end)
        self.channels.close()


class Launcher:
    """Starts kernels: forked from the zygote, or by another kernel's own command."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.environment = kernel_environment(settings)
        self.channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._unused: socket.socket | None = None
        self.alive = True
        self.zygote: int | None = None
        if settings.argv is not None:
            # No zygote: its end stays here, or the channel would for ever say that it is gone.
            self._unused = theirs
            return
        environment = self.environment | {"PYTHONPATH": payload_path()}
        zygote = subprocess.Popen(
            [sys.executable, "-P", "-m", "interpreter.sandbox.zygote", str(theirs.fileno()),
             json.dumps(settings.preload)],
            # Not in the workspace: another may be mounted over it.
            pass_fds=[theirs.fileno()], env=environment, cwd="/",
            stdin=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        self.zygote = zygote.pid
        zygote.returncode = 0  # the host reaps all its children itself
        theirs.close()

    def fork(self, kernel: Kernel) -> bool:
        """Asks the zygote for a kernel; it answers when the kernel runs."""
        kernel.attempts += 1
        request = {
            "kernel": kernel.name,
            "connection_file": kernel.channels.connection_file,
            "workspace": self._settings.workspace,
            "env": kernel.variables,
            "hurry": kernel.start_command.get("hurry", True),
        }
        try:
            socket.send_fds(self.channel, [json.dumps(request).encode()], [kernel.stderr_end])
            return True
        except OSError:
            return False

    def spawn(self, kernel: Kernel) -> None:
        """Starts a kernel by its own command."""
        assert self._settings.argv is not None
        file = kernel.channels.connection_file
        argv = [argument.replace("{connection_file}", file) for argument in self._settings.argv]
        process = subprocess.Popen(
            argv, cwd=self._settings.workspace, env=self.environment | kernel.variables,
            start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=kernel.stderr_end, stderr=kernel.stderr_end,
        )  # fmt: skip
        kernel.pid = process.pid
        process.returncode = 0  # the host reaps all its children itself

    def read(self) -> dict[str, Any] | None:
        """The zygote's next answer; None when it is gone."""
        try:
            packet = self.channel.recv(64 * 1024)
        except OSError:
            packet = b""
        if not packet:
            self.alive = False
            return None
        answer: dict[str, Any] = json.loads(packet)
        return answer

    def close(self) -> None:
        self.channel.close()
        if self._unused is not None:
            self._unused.close()


def payload_path() -> str:
    """The directory that the kernel host's own modules were imported from."""
    return os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def kernel_environment(settings: Settings) -> dict[str, str]:
    """The environment variables of kernels: writable places for what likes to write at home."""
    home = os.path.join(settings.scratch, "home")
    os.makedirs(home, exist_ok=True)
    matplotlib = os.path.join(home, "matplotlib")
    if settings.matplotlib_cache and not os.path.exists(matplotlib):
        # A cache of fonts made beforehand saves a second of the first import.
        shutil.copytree(settings.matplotlib_cache, matplotlib)
    return {
        **os.environ,
        "HOME": home,
        "IPYTHONDIR": os.path.join(home, "ipython"),
        "MPLCONFIGDIR": matplotlib,
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
        **settings.env,
    }
