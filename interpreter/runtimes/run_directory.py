"""The run directory: what is on disk for a sandbox while it runs, and only for the gateway.

    link      the socket into the sandbox, made by the gateway before the sandbox starts
    in/start  a socket by which a container is handed that one over, there only meanwhile
    log       what the kernel host said on stderr
    process   which process the sandbox is, written by that process before it does anything
    exit      the code it ended with, so that also a later gateway can say why
    sandbox.json   what it takes to end it, for a gateway that knows nothing else of it
    tmp       scratch space of a sandbox that has no view of its own

Nobody but the gateway's user may enter it. A sandbox with a view of its own does not see it at
all, so nothing it does can put another socket in the place of `link`.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from interpreter.runtimes import process
from interpreter.runtimes.process import Identity

TAIL_BYTES = 4096
IN_CONTAINER = "/run/interpreter"
"""Where a container sees the part of it that is shared."""


class RunDirectory:
    """The run directory of one sandbox."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def create(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.path.mkdir(mode=0o700)

    def remove(self) -> None:
        # A hostile tree can be too deep for shutil.rmtree and closed to its owner; rm copes with both
        # once its directories are open.
        if self.path.exists() and subprocess.call(["rm", "-rf", "--", self.path], stderr=-3) != 0:
            subprocess.call(["chmod", "-R", "u+rwX", "--", self.path], stderr=-3)
            subprocess.call(["rm", "-rf", "--", self.path], stderr=-3)

    def listen(self) -> socket.socket:
        listener = socket.socket(socket.AF_UNIX)
        try:
            with self._link() as address:
                listener.bind(address)
            listener.listen(16)
        except BaseException:
            listener.close()
            raise
        return listener

    @property
    def shared(self) -> Path:
        """The part of it that a container sees, and cannot write to."""
        return self.path / "in"

    @contextlib.contextmanager
    def hand_over(self) -> Iterator[socket.socket]:
        """A listening socket that a container can reach, as long as this lasts."""
        self.shared.mkdir(mode=0o755, exist_ok=True)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.setblocking(False)
            with self._inside(self.shared, "start") as address:
                listener.bind(address)
            os.chmod(self.shared / "start", 0o777)
            listener.listen(1)
            try:
                yield listener
            finally:
                (self.shared / "start").unlink(missing_ok=True)

    def connect(self) -> socket.socket:
        """A connection to the sandbox. At once: it need not have come so far as to accept it."""
        connection = socket.socket(socket.AF_UNIX)
        try:
            # Blocks only while the backlog is full, that is when the sandbox never accepts.
            connection.setblocking(False)
            with self._link() as address:
                connection.connect(address)
        except BaseException:
            connection.close()
            raise
        return connection

    @property
    def has_link(self) -> bool:
        return (self.path / "link").is_socket()

    def _link(self) -> contextlib.AbstractContextManager[str]:
        return self._inside(self.path, "link")

    @contextlib.contextmanager
    def _inside(self, folder: Path, name: str) -> Iterator[str]:
        # A socket's address has room for 107 bytes; this one is short however long the path is.
        fd = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            yield f"/proc/self/fd/{fd}/{name}"
        finally:
            os.close(fd)

    @contextlib.contextmanager
    def log(self) -> Iterator[int]:
        """For the sandbox's stderr: survives the gateway, which a pipe would not, and cannot grow
        beyond the sandbox's file size limit; only its end is ever read."""
        fd = os.open(self.path / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            yield fd
        finally:
            os.close(fd)

    def log_tail(self) -> str:
        try:
            with (self.path / "log").open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL_BYTES))
                text = file.read(TAIL_BYTES).decode(errors="replace")
        except OSError:
            return ""
        lines = ["".join(c for c in line if c.isprintable()) for line in text.splitlines()]
        return "\n".join([line for line in lines if line.strip()][-5:])

    def exit_code(self) -> int | None:
        try:
            return int((self.path / "exit").read_text())
        except (OSError, ValueError):
            return None

    def process(self) -> Identity | None:
        """Which process this sandbox is or was."""
        try:
            return process.parse_stat((self.path / "process").read_text()).identity
        except (OSError, ValueError, IndexError):
            return None

    def record(self, handle: dict[str, Any]) -> None:
        (self.path / "sandbox.json").write_bytes(msgspec.json.encode(handle))

    def recorded(self) -> dict[str, Any] | None:
        try:
            return msgspec.json.decode((self.path / "sandbox.json").read_bytes(), type=dict[str, Any])
        except (OSError, msgspec.DecodeError):
            return None
