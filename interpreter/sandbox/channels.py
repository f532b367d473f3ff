"""The ZMQ channels of one kernel, seen from the kernel host.

Messages pass through unparsed. When the kernel is gone, everything it had sent is still read:
a socket monitor tells when the last byte of a connection has been taken in.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
from collections.abc import Iterator
from typing import Any

import zmq
from zmq.utils.monitor import parse_monitor_message

NAMES = ("shell", "iopub", "stdin", "control")
_PORTS = {"shell": 1, "iopub": 2, "stdin": 3, "hb": 4, "control": 5}
_TYPES = {"shell": zmq.DEALER, "iopub": zmq.SUB, "stdin": zmq.DEALER, "control": zmq.DEALER}
RECONNECT_MS = 2
RECEIVE_QUEUE = 8


class Channels:
    """Connected sockets, the connection file they belong to, and whether they are drained."""

    def __init__(self, context: zmq.Context[Any], directory: str, transport: str = "ipc") -> None:
        # No signature: whoever can reach these sockets is the same user in the same sandbox.
        os.mkdir(directory, 0o700)
        self.directory = directory
        self.connection_file = os.path.join(directory, "connection.json")
        if transport == "ipc":
            ip, ports, separator = os.path.join(directory, "c"), _PORTS, "-"
        else:
            ip, ports, separator = "127.0.0.1", free_ports(), ":"
        with open(self.connection_file, "w") as file:
            named = {f"{name}_port": port for name, port in ports.items()}
            scheme = {"key": "", "signature_scheme": "hmac-sha256"}
            json.dump({"transport": transport, "ip": ip, **scheme, **named}, file)
        identity = secrets.token_hex(8).encode()
        self.sockets: dict[str, zmq.Socket[bytes]] = {}
        self.monitors: dict[str, zmq.Socket[bytes]] = {}
        self._connected: set[str] = set()
        for name in NAMES:
            sock = context.socket(_TYPES[name])
            sock.linger = 0
            sock.reconnect_ivl = RECONNECT_MS
            sock.reconnect_ivl_max = 50
            sock.sndhwm = 0
            if name == "iopub":
                # A short queue here makes a kernel wait that prints more than is taken.
                sock.rcvhwm = RECEIVE_QUEUE
                sock.subscribe(b"")
            else:
                # input() asks the identity that sent the request, so all channels share one.
                sock.identity = identity
            events = zmq.EVENT_CONNECTED | zmq.EVENT_DISCONNECTED
            self.monitors[name] = sock.get_monitor_socket(events)
            sock.connect(f"{transport}://{ip}{separator}{ports[name]}")
            self.sockets[name] = sock

    def read(self, name: str) -> Iterator[list[bytes]]:
        """The messages that are there now."""
        sock = self.sockets[name]
        while True:
            try:
                yield sock.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return

    def send(self, name: str, parts: list[bytes]) -> None:
        self.sockets[name].send_multipart(parts)

    def read_monitor(self, name: str) -> None:
        monitor = self.monitors[name]
        with contextlib.suppress(zmq.Again):
            while True:
                event = parse_monitor_message(monitor.recv_multipart(zmq.NOBLOCK))["event"]
                if event == zmq.EVENT_CONNECTED:
                    self._connected.add(name)
                else:
                    self._connected.discard(name)

    def drained(self) -> bool:
        """Whether nothing more can come: every connection has ended and is read to its end."""
        for name in NAMES:
            self.read_monitor(name)
        if self._connected:
            return False
        return not any(sock.poll(0) for sock in self.sockets.values())

    def close(self) -> None:
        for name, sock in self.sockets.items():
            sock.disable_monitor()
            self.monitors[name].close(linger=0)
            sock.close(linger=0)
        for entry in os.listdir(self.directory):
            os.unlink(os.path.join(self.directory, entry))
        os.rmdir(self.directory)


def free_ports() -> dict[str, int]:
    """Ports for a kernel that only speaks TCP; nobody else is on the sandbox's loopback."""
    with contextlib.ExitStack() as stack:
        listeners = {
            name: stack.enter_context(socket.create_server(("127.0.0.1", 0))) for name in _PORTS
        }
        return {name: listener.getsockname()[1] for name, listener in listeners.items()}
