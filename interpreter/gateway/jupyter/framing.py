"""Jupyter messages on a WebSocket, in the two ways that clients know.

`v1.kernel.websocket.jupyter.org` puts the parts of a message behind each other, with a table of where
each begins; the older way is one JSON text, or with binary buffers a table and that text before them.
Here a message is its parts as bytes, so that what a kernel says passes without being looked into.
"""

from __future__ import annotations

import struct
from itertools import pairwise
from typing import Any

import msgspec
from msgspec import Struct

from interpreter.kernel import messages
from interpreter.kernel.messages import KernelMessage

V1 = "v1.kernel.websocket.jupyter.org"
MAX_PARTS = 1000
MAX_HEADER = 16 * 1024
BY_TYPE = {
    "input_reply": "stdin",
    "interrupt_request": "control",
    "shutdown_request": "control",
    "debug_request": "control",
}
"""The channel of a request whose sender left it out; all others are for the shell."""


class BadFrame(Exception):
    """What a client sent is not a Jupyter message."""


class Request(Struct):
    """A message from a client."""

    channel: str
    header: dict[str, Any]
    """With a `msg_id` and a `msg_type`, both text; all of it bounded."""
    parent: bytes
    metadata: bytes
    content: bytes
    buffers: list[bytes]

    @property
    def type(self) -> str:
        return str(self.header["msg_type"])


class _Text(Struct):
    header: msgspec.Raw
    parent_header: msgspec.Raw = msgspec.Raw(b"{}")
    metadata: msgspec.Raw = msgspec.Raw(b"{}")
    content: msgspec.Raw = msgspec.Raw(b"{}")
    channel: str | None = None


class _Id(Struct):
    msg_id: msgspec.Raw = msgspec.Raw(b'""')


_text = msgspec.json.Decoder(_Text)
_id = msgspec.json.Decoder(_Id)
_object = msgspec.json.Decoder(dict[str, Any])


def read(frame: bytes | str, *, v1: bool) -> Request:
    """A request as it came from a client; raises BadFrame."""
    try:
        if isinstance(frame, str):
            return _from_text(frame.encode(), [])
        return _read_v1(frame) if v1 else _read_binary(frame)
    except (msgspec.MsgspecError, UnicodeError, struct.error, RecursionError) as e:
        raise BadFrame(str(e)) from None


def _read_v1(frame: bytes) -> Request:
    (count,) = struct.unpack_from("<Q", frame)
    if not 6 <= count <= MAX_PARTS:
        raise BadFrame(f"it has {count} offsets")
    channel, header, parent, metadata, content, *buffers = _cut(
        frame, struct.unpack_from(f"<{count}Q", frame, 8)
    )
    return _request(channel.decode(), header, parent, metadata, content, buffers)


def _read_binary(frame: bytes) -> Request:
    (count,) = struct.unpack_from("!I", frame)
    if not 1 <= count <= MAX_PARTS:
        raise BadFrame(f"it has {count} offsets")
    offsets = struct.unpack_from(f"!{count}I", frame, 4)
    text, *buffers = _cut(frame, (*offsets, len(frame)))
    return _from_text(text, buffers)


def _cut(frame: bytes, offsets: tuple[int, ...]) -> list[bytes]:
    """The pieces between the offsets, which never go back and never leave the frame."""
    if list(offsets) != sorted(offsets) or offsets[-1] > len(frame):
        raise BadFrame("its offsets are not in order")
    return [frame[a:b] for a, b in pairwise(offsets)]


def _from_text(text: bytes, buffers: list[bytes]) -> Request:
    given = _text.decode(text)
    header, parent = bytes(given.header), bytes(given.parent_header)
    metadata, content = bytes(given.metadata), bytes(given.content)
    return _request(given.channel, header, parent, metadata, content, buffers)


def _request(
    channel: str | None,
    header: bytes,
    parent: bytes,
    metadata: bytes,
    content: bytes,
    buffers: list[bytes],
) -> Request:
    if len(header) > MAX_HEADER or len(parent) > MAX_HEADER:
        raise BadFrame("a header is too long")
    head = _object.decode(header)
    if not isinstance(head.get("msg_id"), str) or not isinstance(head.get("msg_type"), str):
        raise BadFrame("the header has no msg_id or no msg_type")
    if channel is None:
        channel = BY_TYPE.get(head["msg_type"], "shell")
    return Request(channel, head, _checked(parent), _checked(metadata), _checked(content), buffers)


def _checked(part: bytes) -> bytes:
    """A kernel that is sent what is no JSON object may say nothing for ever."""
    if part in (b"", b"null"):
        return b"{}"
    if not messages.is_object(part):
        raise BadFrame("a part is not a JSON object")
    return part


class Outgoing:
    """A message to clients; it is put together once for each way, however many want it."""

    def __init__(self, message: KernelMessage, parent: bytes | None = None) -> None:
        """`parent` takes the place of the parent header that the message has."""
        self.message = message
        encode = msgspec.json.encode
        header, own_parent, metadata, content = message.raw or (
            encode(messages.header(message.type)),
            encode({"msg_id": message.parent_id} if message.parent_id else {}),
            encode(message.metadata),
            encode(message.content),
        )
        parent = own_parent if parent is None else parent
        try:
            header.decode(), parent.decode()
        except UnicodeDecodeError:
            header, parent = encode(messages.header(message.type)), b"{}"
        self._parts = (header, parent, metadata, content)
        self.size = sum(map(len, self._parts)) + sum(map(len, message.buffers))
        self._frames: dict[bool, tuple[bytes, bool]] = {}

    def frame(self, *, v1: bool) -> tuple[bytes, bool]:
        """The frame, and whether it is binary."""
        if v1 not in self._frames:
            self._frames[v1] = (self._v1(), True) if v1 else self._legacy()
        return self._frames[v1]

    def _v1(self) -> bytes:
        parts = [self.message.channel.encode(), *self._parts, *self.message.buffers]
        offsets = [8 * (len(parts) + 2)]
        for part in parts:
            offsets.append(offsets[-1] + len(part))
        return b"".join((struct.pack(f"<{len(offsets) + 1}Q", len(offsets), *offsets), *parts))

    def _legacy(self) -> tuple[bytes, bool]:
        header, parent, metadata, content = self._parts
        channel, buffers = self.message.channel.encode(), self.message.buffers
        type = msgspec.json.encode(self.message.type)
        id = bytes(_id.decode(header).msg_id)
        text = (
            b'{"channel":"%b","msg_id":%b,"msg_type":%b,"header":%b,"parent_header":%b,'
            b'"metadata":%b,"content":%b,"buffers":[]}'
            % (channel, id, type, header, parent, metadata, content)
        )
        if not buffers:
            return text, False
        offsets = [4 * (len(buffers) + 2)]
        for part in (text, *buffers[:-1]):
            offsets.append(offsets[-1] + len(part))
        table = struct.pack(f"!{len(offsets) + 1}I", len(offsets), *offsets)
        return b"".join((table, text, *buffers)), True
