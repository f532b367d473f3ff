"""How the gateway's connection gets into a sandbox: by a listening socket, or by stdin and stdout.

A socket is the better door: it tells when a gateway comes and goes. The gateway makes it outside
of the sandbox, where nothing can take its place, and this process inherits it or is handed it
over once. Where nothing of the gateway's machine can be reached, the container's own stdin and
stdout carry the link. They have no beginning and no end that this process could see, and half
of a frame may be left in them by a gateway that was killed. So each connection begins with a
key that only the two ends know, and with bytes that are new for each connection and are sent back:
what comes before them is dropped, also an answer to a connection that broke meanwhile.
"""

from __future__ import annotations

import os
import socket

from interpreter.sandbox.settings import Settings

CHUNK = 256 * 1024
NONCE = 16
"""Bytes after the key that tell one connection from the next."""


class Connection:
    """A connected gateway. For a socket both descriptors are the same."""

    def __init__(self, read_fd: int, write_fd: int, key: bytes = b"") -> None:
        self.read_fd = read_fd
        self.write_fd = write_fd
        self.key = key
        """What is sent before anything else."""

    def read(self) -> bytes | None:
        """Some bytes; none at the end; None when there are none now."""
        try:
            return os.read(self.read_fd, CHUNK)
        except BlockingIOError:
            return None
        except OSError:
            return b""

    def write(self, data: memoryview) -> int:
        return os.write(self.write_fd, data)

    def close(self) -> None:
        os.close(self.read_fd)


class SocketDoor:
    """A listening socket: each connection to it is a gateway."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        listener.setblocking(False)

    def fileno(self) -> int:
        return self._listener.fileno()

    def accept(self) -> Connection | None:
        try:
            sock, _ = self._listener.accept()
        except OSError:
            return None
        sock.setblocking(False)
        fd = sock.detach()
        return Connection(fd, fd)


class StdioDoor:
    """Stdin and stdout: finds where in stdin a connection begins."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._tail = b""
        for fd in (0, 1):
            os.set_blocking(fd, False)

    def fileno(self) -> int:
        return 0

    def read(self) -> bytes | None:
        return Connection(0, 1).read()

    def split(self, data: bytes) -> tuple[bytes, Connection | None]:
        """The bytes of the connection that there is now; and that connection, if it is a new one."""
        whole = self._tail + data
        at = whole.rfind(self._key)
        if at < 0:
            self._tail = whole[-(len(self._key) - 1) :]
            return data, None
        begin = at + len(self._key) + NONCE
        if len(whole) < begin:
            # Half of what begins a connection ends the one before it.
            self._tail = whole[at:]
            return b"", None
        self._tail = b""
        return whole[begin:], _Stdio(0, 1, whole[at:begin])


class _Stdio(Connection):
    def close(self) -> None:
        """They stay open: the next gateway comes the same way."""


def open_door(settings: Settings) -> SocketDoor | StdioDoor:
    if settings.listen_fd is not None:
        return SocketDoor(socket.socket(fileno=settings.listen_fd))
    if settings.start_socket is not None:
        return SocketDoor(take_over(settings.start_socket))
    assert settings.key_variable is not None
    return StdioDoor(bytes.fromhex(os.environ.pop(settings.key_variable)))


def take_over(path: str) -> socket.socket:
    """The listening socket that the gateway hands over at `path`, which is there only for that."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        _, descriptors, _, _ = socket.recv_fds(connection, 1, 1)
    if not descriptors:
        raise OSError("the gateway handed over no socket")
    return socket.socket(fileno=descriptors[0])
