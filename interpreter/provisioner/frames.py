"""A Jupyter message as its parts, on a gateway's WebSocket and on a kernel's sockets.

The WebSocket has `v1.kernel.websocket.jupyter.org`: the parts behind each other, after a table of where
each begins. On the sockets there is a signature, and before it whom the message is for. The parts
themselves are the same bytes on both, and are not looked into.
"""

from __future__ import annotations

import hmac
import struct
from collections.abc import Sequence
from itertools import pairwise

import msgspec
from msgspec import Struct

V1 = "v1.kernel.websocket.jupyter.org"
DELIMITER = b"<IDS|MSG>"


class BadMessage(Exception):
    """What came is not a Jupyter message, or is not signed as it has to be."""


class Header(Struct):
    """What is to be known of a header."""

    msg_id: str = ""
    msg_type: str = ""


_header = msgspec.json.Decoder(Header)


class Message(Struct):
    """`parts` are header, parent header, metadata, content, and any buffers."""

    channel: str
    parts: list[bytes]

    def header(self) -> Header:
        return _read(self.parts[0])

    def parent(self) -> Header:
        return _read(self.parts[1])


def _read(part: bytes) -> Header:
    try:
        return _header.decode(part)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as e:
        raise BadMessage(f"a header is wrong: {e}") from None


def pack(message: Message) -> bytes:
    """For the WebSocket."""
    parts = [message.channel.encode(), *message.parts]
    offsets = [8 * (len(parts) + 2)]
    for part in parts:
        offsets.append(offsets[-1] + len(part))
    return b"".join((struct.pack(f"<{len(offsets) + 1}Q", len(offsets), *offsets), *parts))


def unpack(frame: bytes) -> Message:
    try:
        (count,) = struct.unpack_from("<Q", frame)
        offsets = struct.unpack_from(f"<{min(count, len(frame))}Q", frame, 8)
        channel, *parts = (frame[a:b] for a, b in pairwise(offsets))
        message = Message(channel.decode(), parts)
    except (struct.error, ValueError) as e:
        raise BadMessage(f"a frame is wrong: {e}") from None
    if len(parts) < 4:
        raise BadMessage("a frame has too few parts")
    return message


class Signer:
    """Signs what goes to clients, and lets in only what is signed with the same key."""

    def __init__(self, key: bytes, scheme: str) -> None:
        self._key = key
        self._hash = scheme.partition("-")[2]

    def sign(self, parts: Sequence[bytes]) -> bytes:
        if not self._key:
            return b""
        digest = hmac.new(self._key, digestmod=self._hash)
        for part in parts[:4]:
            digest.update(part)
        return digest.hexdigest().encode()

    def wrap(self, to: Sequence[bytes], parts: Sequence[bytes]) -> list[bytes]:
        """As it goes to a client."""
        return [*to, DELIMITER, self.sign(parts), *parts]

    def unwrap(self, received: list[bytes]) -> tuple[list[bytes], list[bytes]]:
        """Who sent it, and its parts."""
        if DELIMITER not in received:
            raise BadMessage("a message has no delimiter")
        middle = received.index(DELIMITER)
        signature, *parts = received[middle + 1 :] or [b""]
        if len(parts) < 4 or not hmac.compare_digest(signature, self.sign(parts)):
            raise BadMessage("a message is not signed with the kernel's key")
        return received[:middle], parts
