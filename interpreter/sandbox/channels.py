"""The ZMQ channels of one kernel, seen from the kernel host.

Messages pass through unparsed. A channel that is not read makes the kernel wait. When the
kernel is gone, everything it had sent is still read, up to the end of the connection.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
from typing import Any

from interpreter.sandbox.zmtp import SUBSCRIBE_TO_ALL, Peer, ProtocolError, encode

NAMES = ("shell", "iopub", "stdin", "control")
_PORTS = {"shell": 1, "iopub": 2, "stdin": 3, "hb": 4, "control": 5}
TARGET = "interrupted"
"""Beside the connection file: the id of the cell that an interrupt is meant for."""
CHUNK = 256 * 1024
CONNECT_SECONDS = 0.1
"""On a loopback interface; a unix socket answers at once."""


class Channel:
    """One connection to a kernel: made as soon as the kernel listens, used once."""

    def __init__(self, family: int, address: Any, peer: Peer) -> None:
        self.ended = False
        """Whether the connection was there and is gone; nothing more can come."""
        self.socket: socket.socket | None = None
        self._family = family
        self._address = address
        self._peer = peer
        self._unsent = bytearray(peer.hello)
        self._later = bytearray()
        """What is sent when the kernel is ready for it."""

    def connect(self) -> bool:
        """Returns whether the kernel listens by now."""
        sock = socket.socket(self._family)
        try:
            sock.settimeout(CONNECT_SECONDS)
            sock.connect(self._address)
            if self._family == socket.AF_INET and sock.getsockname() == sock.getpeername():
                raise OSError  # nobody listens, and the system gave us the very port we wanted
            sock.setblocking(False)
        except OSError:
            sock.close()
            return False
        self.socket = sock
        self.flush()
        return True

    def read(self) -> list[list[bytes]] | None:
        """The messages that some bytes brought, maybe none; None when there are no bytes now."""
        if self.socket is None or self.ended:
            return None
        try:
            data = self.socket.recv(CHUNK)
        except BlockingIOError:
            return None
        except OSError:
            data = b""
        if data:
            with contextlib.suppress(ProtocolError):
                messages = self._peer.receive(data)
                if self._later and self._peer.ready:
                    self._unsent += self._later
                    self._later.clear()
                    self.flush()
                return messages
        self.ended = True
        return None

    def send(self, parts: list[bytes]) -> None:
        if self._peer.ready:
            self._unsent += encode(parts)
            self.flush()
        else:
            self._later += encode(parts)

    def flush(self) -> None:
        """Sends what the kernel takes now."""
        if self.socket is None:
            return
        try:
            while self._unsent:
                del self._unsent[: self.socket.send(self._unsent)]
        except BlockingIOError:
            pass
        except OSError:
            self._unsent.clear()  # its end is noticed when it is read

    @property
    def halfway(self) -> bool:
        """Whether a message has begun to arrive."""
        return self._peer.halfway

    @property
    def waits_to_send(self) -> bool:
        return bool(self._unsent)

    def close(self) -> None:
        if self.socket is not None:
            self.socket.close()


class Channels:
    """All channels of a kernel, and the connection file that tells the kernel of them."""

    def __init__(self, directory: str, transport: str = "ipc") -> None:
        # No signature: whoever can reach these sockets is the same user in the same sandbox.
        os.mkdir(directory, 0o700)
        self._directory = directory
        self.connection_file = os.path.join(directory, "connection.json")
        ports = _PORTS if transport == "ipc" else free_ports()
        ip = os.path.join(directory, "c") if transport == "ipc" else "127.0.0.1"
        with open(self.connection_file, "w") as file:
            named = {f"{name}_port": port for name, port in ports.items()}
            scheme = {"key": "", "signature_scheme": "hmac-sha256"}
            json.dump({"transport": transport, "ip": ip, **scheme, **named}, file)
        # input() asks the identity that sent the request, so all channels share one.
        identity = secrets.token_hex(8).encode()
        self._channels: dict[str, Channel] = {}
        for name in NAMES:
            peer = Peer(b"SUB") if name == "iopub" else Peer(b"DEALER", identity)
            if transport == "ipc":
                self._channels[name] = Channel(socket.AF_UNIX, f"{ip}-{ports[name]}", peer)
            else:
                self._channels[name] = Channel(socket.AF_INET, (ip, ports[name]), peer)
        self._channels["iopub"].send([SUBSCRIBE_TO_ALL])

    def name_target(self, cell: str) -> None:
        """Tells the kernel which cell the signal is meant for that it is about to get."""
        new = os.path.join(self._directory, f".{TARGET}")
        with open(new, "w") as file:
            file.write(cell)
        os.replace(new, os.path.join(self._directory, TARGET))

    def __getitem__(self, name: str) -> Channel:
        return self._channels[name]

    def connect(self) -> list[str]:
        """Connects those that can be and are not yet, and names them."""
        waiting = [name for name, channel in self._channels.items() if channel.socket is None]
        return [name for name in waiting if self._channels[name].connect()]

    @property
    def connected(self) -> bool:
        return all(channel.socket is not None for channel in self._channels.values())

    @property
    def drained(self) -> bool:
        """Whether nothing more can come: every connection there was is read to its end."""
        return all(channel.ended or channel.socket is None for channel in self._channels.values())

    def close(self) -> None:
        for channel in self._channels.values():
            channel.close()
        for entry in os.listdir(self._directory):
            os.unlink(os.path.join(self._directory, entry))
        os.rmdir(self._directory)


def free_ports() -> dict[str, int]:
    """Ports for a kernel that only speaks TCP; nobody else is on the sandbox's loopback."""
    with contextlib.ExitStack() as stack:
        listeners = {
            name: stack.enter_context(socket.create_server(("127.0.0.1", 0))) for name in _PORTS
        }
        return {name: listener.getsockname()[1] for name, listener in listeners.items()}


def says_idle(parts: list[bytes]) -> bool:
    """A guess at what an IOPub message says, good enough to know whether to hurry."""
    return len(parts[-1]) < 100 and b'"idle"' in parts[-1]


def answers(parts: list[bytes], id: bytes) -> bool:
    """A guess at whether a message answers the request with this id, as good as that. A cell may be
    sent while another is not quite over: its end is not to be taken for this one's."""
    return len(parts) < 3 or id in parts[-3]
