"""A network between the browser and the gateway that breaks."""

from __future__ import annotations

import contextlib
import socket
import threading
from urllib.parse import urlsplit


class BrokenNetwork:
    """Listens on loopback and forwards to a gateway, until it is told to drop everything, or to lose it
    without a word."""

    def __init__(self, url: str) -> None:
        address = urlsplit(url)
        self._to = (str(address.hostname), int(address.port or 80))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._open: set[socket.socket] = set()
        self._lost: set[socket.socket] = set()
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def drop(self) -> None:
        """Ends every connection, in the middle of whatever it carries."""
        with self._lock:
            for one in self._open:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

    def lose(self) -> None:
        """Carries nothing more on the connections that there are, and ends none: as when a machine
        goes to sleep."""
        with self._lock:
            self._lost |= self._open

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.drop()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(self._to)
            with self._lock:
                self._open |= {near, far}
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._carry, args=(source, sink), daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if source not in self._lost:
                    sink.sendall(data)
        with self._lock:
            for one in (source, sink):
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
            self._open.discard(source)
            self._lost.discard(source)
        source.close()
