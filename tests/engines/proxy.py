"""A proxy before an engine's socket: a network that breaks, or that carries nothing any more."""

from __future__ import annotations

import contextlib
import socket
import threading
from pathlib import Path


class Proxy:
    """Listens on loopback and forwards to a unix socket, byte by byte as they come."""

    def __init__(self, to: Path) -> None:
        self._to = str(to)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"tcp://127.0.0.1:{self._listener.getsockname()[1]}"
        self._flows = threading.Event()
        self._flows.set()
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self.carried = 0
        """Bytes from the engine so far."""
        threading.Thread(target=self._accept, daemon=True).start()

    def drop(self) -> None:
        """Ends every connection, in the middle of whatever it carries."""
        with self._lock:
            for one in self._open:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

    def stall(self) -> None:
        """Connections stay, and new ones are taken, but nothing comes through."""
        self._flows.clear()

    def go_on(self) -> None:
        self._flows.set()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.go_on()
        self.drop()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.socket(socket.AF_UNIX)
            try:
                far.connect(self._to)
            except OSError:
                near.close()
                far.close()
                continue
            with self._lock:
                self._open |= {near, far}
            done = threading.Barrier(2)
            for source, sink, counts in ((near, far, False), (far, near, True)):
                args = (source, sink, counts, done)
                threading.Thread(target=self._carry, args=args, daemon=True).start()

    def _carry(
        self, source: socket.socket, sink: socket.socket, counts: bool, done: threading.Barrier
    ) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self._flows.wait()
                sink.sendall(data)
                self.carried += len(data) if counts else 0
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)
        done.wait()
        with self._lock:
            self._open.discard(source)
        source.close()
