"""The bytes on the link.

A frame is a header (payload length, kind, stream, number) and a payload of at most
`MAX_PAYLOAD` bytes. A message is a list of byte strings, as ZMQ has them; its encoding is cut
into any number of PART frames and one DATA frame that ends it.

Whatever arrives, `FrameReader` returns frames or raises FrameError, and never holds more than
one frame.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

HEADER = struct.Struct(">IBIQ")
MAX_PAYLOAD = 256 * 1024
MAX_PARTS = 4096

_COUNT = struct.Struct(">I")


class FrameError(Exception):
    """The other end broke the format or the rules. The connection cannot go on."""

    before: Sequence[Any] = ()
    """What was received before that, and with it."""


class Kind(enum.IntEnum):
    """What a frame is. DATA, OPEN and CLOSE end a numbered message."""

    HELLO = 1
    OPEN = 2
    PART = 3
    DATA = 4
    CLOSE = 5
    ACK = 6
    CREDIT = 7


class Frame(NamedTuple):
    kind: Kind
    stream: int
    number: int
    payload: bytes


def encode(kind: Kind, stream: int, number: int, payload: bytes | memoryview = b"") -> bytes:
    return HEADER.pack(len(payload), kind, stream, number) + payload


_KINDS = {int(kind): kind for kind in Kind}


class FrameReader:
    """Turns bytes, cut anywhere, into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes | bytearray | memoryview) -> list[Frame]:
        whole: bytes | bytearray
        if self._buffer or not isinstance(data, bytes):
            self._buffer += data
            whole = self._buffer
        else:
            whole = data  # most reads begin with a frame: there is nothing to join it to
        frames: list[Frame] = []
        at, end = 0, len(whole)
        while end - at >= HEADER.size:
            length, kind, stream, number = HEADER.unpack_from(whole, at)
            if length > MAX_PAYLOAD:
                raise FrameError(f"a frame of {length} bytes is over the limit of {MAX_PAYLOAD}")
            if kind not in _KINDS:
                raise FrameError(f"there is no frame kind {kind}")
            start = at + HEADER.size
            if end - start < length:
                break
            at = start + length
            frames.append(Frame(_KINDS[kind], stream, number, bytes(whole[start:at])))
        if whole is self._buffer:
            del self._buffer[:at]
        elif at < end:
            self._buffer += whole[at:]
        return frames


def join_parts(parts: Sequence[bytes | memoryview]) -> bytes:
    """A message as one byte string: how many parts, how long each is, then all of them."""
    count = len(parts)
    return b"".join((struct.pack(f">I{count}Q", count, *map(len, parts)), *parts))


def split_parts(message: bytes, *, partial: bool = False) -> list[bytes]:
    """The parts of a message. `partial` returns those that a cut-off message still has whole."""
    if len(message) < _COUNT.size:
        raise FrameError("a message is too short to have parts")
    (count,) = _COUNT.unpack_from(message)
    if count > MAX_PARTS:
        raise FrameError(f"a message of {count} parts is over the limit of {MAX_PARTS}")
    at = _COUNT.size + 8 * count
    if len(message) < at:
        raise FrameError("a message is too short for the lengths of its parts")
    parts: list[bytes] = []
    for length in struct.unpack_from(f">{count}Q", message, _COUNT.size):
        if at + length > len(message):
            break
        parts.append(message[at : at + length])
        at += length
    if not partial and (len(parts) != count or at != len(message)):
        raise FrameError("the lengths of a message's parts do not add up")
    return parts
