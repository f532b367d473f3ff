"""Jupyter messages as bytes and back.

A message is a list of byte strings: routing ids, a delimiter, a signature (empty here: the link
carries it, and the sandbox could sign anything anyway), then header, parent header, metadata,
content as JSON, then binary buffers. What comes from a kernel is untrusted: it parses into a
`KernelMessage` or raises MalformedMessage, and nothing else.
"""

from __future__ import annotations

import json
import re
import secrets
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

T = TypeVar("T")

MAX_DEPTH = 100
MAX_PARTS = 500_000
"""Lists and objects in one message."""
_STRING = re.compile(rb'"[^"]*"')
_SQUARE = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
DELIMITER = b"<IDS|MSG>"
PROTOCOL = "5.4"
SESSION = secrets.token_hex(8)
"""This gateway's name in the headers of its requests."""


class MalformedMessage(Exception):
    """Bytes that are not a Jupyter message."""


class _Header(Struct):
    msg_id: str = ""
    msg_type: str = ""


class KernelMessage(Struct):
    """A message from a kernel, as far as anyone here looks into it."""

    channel: str
    type: str
    parent_id: str
    content: dict[str, Any]
    """Empty if nobody here looks into messages of this type, as long as there is `raw`."""
    metadata: dict[str, Any]
    """The same: nobody looks into it."""
    buffers: list[bytes]
    raw: tuple[bytes, bytes, bytes, bytes] | None = None
    """Header, parent header, metadata and content as they came; None if one of them is not JSON as it
    should be, or the message was made here."""


_headers = msgspec.json.Decoder(_Header)
_objects = msgspec.json.Decoder(dict[str, Any])
_raw_objects = msgspec.json.Decoder(dict[str, msgspec.Raw])
READ = frozenset(
    [
        "stream",
        "display_data",
        "execute_result",
        "update_display_data",
        "clear_output",
        "error",
        "status",
        "execute_input",
        "execute_reply",
        "input_request",
        "complete_reply",
        "inspect_reply",
    ]
)
"""The types of messages whose content somebody here looks into; of others the bytes are passed on."""


def parse(channel: str, parts: list[bytes]) -> KernelMessage:
    head_part, parent, metadata, content, buffers = _split(parts)
    try:
        head = _headers.decode(head_part)
        parent_id = _headers.decode(parent).msg_id
    except (msgspec.MsgspecError, UnicodeDecodeError) as e:
        raise MalformedMessage(f"a header is wrong: {e}") from None
    passes = is_object(metadata) and (head.msg_type in READ or is_object(content))
    content_value, plain = ({}, True) if passes and head.msg_type not in READ else _object(content)
    metadata_value = {} if passes and plain else _object(metadata)[0]
    raw = (head_part, parent, metadata, content) if passes and plain else None
    return KernelMessage(channel, head.msg_type, parent_id, content_value, metadata_value, buffers, raw)


def is_object(data: bytes) -> bool:
    """Whether it is one JSON object to the letter; nothing is made of it, which would take longest."""
    try:
        _raw_objects.decode(data)
        return data.isascii() or bool(data.decode())
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False


def parse_heads(parts: list[bytes]) -> tuple[str, str]:
    """The type and the parent id of a message of which only the first parts are there."""
    try:
        at = parts.index(DELIMITER)
        head, parent = _headers.decode(parts[at + 2]), _headers.decode(parts[at + 3])
    except (ValueError, IndexError, msgspec.MsgspecError, UnicodeDecodeError):
        return "", ""
    return head.msg_type, parent.msg_id


def header(type: str, msg_id: str | None = None) -> dict[str, Any]:
    """The header of a message of this gateway's own."""
    return {
        "msg_id": msg_id or secrets.token_hex(16),
        "msg_type": type,
        "session": SESSION,
        "username": "interpreter",
        "date": datetime.now(UTC).isoformat(),
        "version": PROTOCOL,
    }


def build(type: str, content: dict[str, Any], msg_id: str | None = None) -> list[bytes]:
    """A request to a kernel."""
    encode = msgspec.json.encode
    return [DELIMITER, b"", encode(header(type, msg_id)), b"{}", b"{}", encode(content)]


def _split(parts: list[bytes]) -> tuple[bytes, bytes, bytes, bytes, list[bytes]]:
    try:
        at = parts.index(DELIMITER)
        _, header, parent, metadata, content = parts[at + 1 : at + 6]
    except ValueError:
        raise MalformedMessage("the message does not have the parts it should have") from None
    return header, parent, metadata, content, parts[at + 6 :]


def _object(data: bytes) -> tuple[dict[str, Any], bool]:
    """What a part says, and whether it is JSON to the letter."""
    if data == b"{}":
        return {}, True
    if len(data) > MAX_PARTS and data.count(b"[") + data.count(b"{") > MAX_PARTS:
        _check_values(data)  # before they are made: a list takes twenty times its two characters
    try:
        return _bounded(_objects.decode(data), data), True
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass
    # Kernels print bytes that are not UTF-8 and floats that are not JSON; both are worth keeping.
    try:
        value = _bounded(_clean(json.loads(data.decode("utf-8", "replace"))), data)
    except (ValueError, RecursionError):
        raise MalformedMessage("a part that should be JSON is not") from None
    if not isinstance(value, dict):
        raise MalformedMessage("a part that should be a JSON object is not")
    return value, False


def _bounded(value: T, data: bytes) -> T:
    """Refuses nesting that those who read it later could not walk through."""
    if isinstance(value, dict) and not any(isinstance(v, dict | list) for v in value.values()):
        return value  # most messages, and all the long ones, are flat
    if data.count(b"[") + data.count(b"{") > MAX_DEPTH:
        _check_nesting(data)
    return value


def _check_values(data: bytes) -> None:
    """The same for what may be a long text with many brackets in it, which is no trouble."""
    try:
        values: list[bytes] = [bytes(value) for value in _raw_objects.decode(data).values()]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        values = [data]
    for value in values:
        if value.startswith((b"[", b"{")):
            _check_nesting(value)


def _check_nesting(data: bytes) -> None:
    """On the text, where it costs little: to visit a million small lists takes seconds."""
    escapes_gone = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    brackets = _STRING.sub(b"", escapes_gone).translate(_SQUARE, _NO_BRACKETS)
    if len(brackets) > 2 * MAX_PARTS:
        raise MalformedMessage(f"it has more than {MAX_PARTS:,} lists and objects")
    for _ in range(MAX_DEPTH):
        brackets = brackets.replace(b"[]", b"")
        if not brackets:
            return
    raise MalformedMessage(f"it is nested deeper than {MAX_DEPTH} levels")


def _clean(value: Any) -> Any:
    """Replaces lone surrogates, which JSON can write and UTF-8 cannot."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [_clean(item) for item in value]
    if isinstance(value, dict):
        return {_clean(key): _clean(item) for key, item in value.items()}
    return value
