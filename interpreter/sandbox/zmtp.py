"""ZeroMQ's wire protocol, as much of it as it takes to talk to a kernel.

libzmq moves every message through a thread of its own, which costs the kernel host two more
wake-ups a message, and hides what the host has to know: that a connection has ended and
everything on it was read. So the host speaks ZMTP 3.0 itself; the kernel's end is still libzmq,
or whatever else the kernel was written with.

`Peer` does no I/O: bytes that arrived go into `receive`, messages to send through `encode`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

GREETING = b"\xff" + bytes(8) + b"\x7f" + b"\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
SUBSCRIBE_TO_ALL = b"\x01"
MORE, LONG, COMMAND = 1, 2, 4
_LENGTH = struct.Struct(">Q")


class ProtocolError(Exception):
    """The other end does not speak the protocol. The connection cannot go on."""


class Peer:
    """This end of one connection to a kernel's socket."""

    def __init__(self, kind: bytes, identity: bytes = b"") -> None:
        self.hello = GREETING + _ready(kind, identity)
        """What is sent first."""
        self.ready = False
        """Whether the other end is ready for messages; libzmq may sit on those that come sooner."""
        self._buffer = bytearray()
        self._greeted = False
        self._parts: list[bytes] = []

    @property
    def halfway(self) -> bool:
        """Whether a message has begun to arrive."""
        return bool(self._buffer or self._parts)

    def receive(self, data: bytes) -> list[list[bytes]]:
        """The messages that are whole with these bytes."""
        buffer = self._buffer
        buffer += data
        messages: list[list[bytes]] = []
        at = 0
        if not self._greeted:
            if len(buffer) < len(GREETING):
                return messages
            if buffer[0] != 0xFF or buffer[10] < 3 or bytes(buffer[12:17]) != b"NULL\0":
                raise ProtocolError("it does not greet as ZMTP 3 without encryption does")
            self._greeted, at = True, len(GREETING)
        end = len(buffer)
        while end - at >= 2:
            flags = buffer[at]
            if flags & LONG:
                if end - at < 9:
                    break
                start = at + 9
                (length,) = _LENGTH.unpack_from(buffer, at + 1)
            else:
                start, length = at + 2, buffer[at + 1]
            if end - start < length:
                break
            at = start + length
            if flags & COMMAND:
                self.ready = True
                continue
            with memoryview(buffer) as view:
                self._parts.append(bytes(view[start:at]))
            if not flags & MORE:
                messages.append(self._parts)
                self._parts = []
        del buffer[:at]
        return messages


def encode(parts: Sequence[bytes]) -> bytes:
    """A message as it goes over the connection."""
    pieces: list[bytes] = []
    last = len(parts) - 1
    for number, part in enumerate(parts):
        pieces += (_head(MORE if number < last else 0, len(part)), part)
    return b"".join(pieces)


def _head(flags: int, length: int) -> bytes:
    if length < 256:
        return bytes((flags, length))
    return bytes((flags | LONG,)) + _LENGTH.pack(length)


def _ready(kind: bytes, identity: bytes) -> bytes:
    body = b"\x05READY" + _property(b"Socket-Type", kind)
    if identity:
        body += _property(b"Identity", identity)
    return _head(COMMAND, len(body)) + body


def _property(name: bytes, value: bytes) -> bytes:
    return bytes((len(name),)) + name + struct.pack(">I", len(value)) + value
