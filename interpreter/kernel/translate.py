"""A kernel's messages as the events of a session.

Every output of a cell passes here, so here it is checked: what leaves has the types and the
sizes that the rest of the gateway, the SDK and the notebook format rely on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

from interpreter.kernel.messages import KernelMessage, parse_heads
from interpreter.models import EventType

STREAM_CHARS = 256 * 1024
"""The most text one stream event carries."""
SHORT = 1000
MIME_TYPES = 100
"""The most that one output has."""

Translated = tuple[EventType, dict[str, Any]]

_JSON_MIME = re.compile(r"application/(.*\+)?json")


def translate(message: KernelMessage) -> Iterator[Translated]:
    """The events of one message: none for those that are not outputs."""
    content = message.content
    match message.type:
        case "stream":
            name = "stderr" if content.get("name") == "stderr" else "stdout"
            text = _text(content.get("text"))
            for start in range(0, len(text), STREAM_CHARS):
                yield EventType.stream, {"name": name, "text": text[start : start + STREAM_CHARS]}
        case "display_data" | "execute_result":
            yield EventType.display, _display(message)
        case "update_display_data":
            if display_id := _display_id(content):
                data, metadata = mime_bundle(content.get("data")), _dict(content.get("metadata"))
                yield EventType.update, {"display_id": display_id, "data": data, "metadata": metadata}
        case "clear_output":
            yield EventType.clear, {"wait": content.get("wait") is True}
        case "error":
            yield EventType.error, error_data(content)
        case "input_request":
            prompt, password = _text(content.get("prompt")), content.get("password") is True
            yield EventType.input_request, {"prompt": prompt[:10_000], "password": password}


def translate_oversized(parts: list[bytes], size: int, limit: int) -> tuple[str, Translated]:
    """The execution an oversized message belongs to, and a note in the message's place."""
    type, parent_id = parse_heads(parts)
    what = type[:SHORT] or "message"
    note = f"[a {what} of {size:,} bytes is over the limit of {limit:,} bytes and was not kept]"
    data = {"output_type": "display_data", "data": {"text/plain": note}, "metadata": {}}
    return parent_id, (EventType.display, data)


def error_data(content: dict[str, Any]) -> dict[str, Any]:
    traceback = content.get("traceback")
    return {
        "ename": _text(content.get("ename"))[:SHORT],
        "evalue": _text(content.get("evalue")),
        "traceback": [_text(line) for line in traceback] if isinstance(traceback, list) else [],
    }


def mime_bundle(data: Any) -> dict[str, Any]:
    """Data by MIME type as the notebook format wants it: text, or JSON where the type says so."""
    return {
        mime: value if _JSON_MIME.fullmatch(mime) else _text(value)
        for mime, value in islice(_dict(data).items(), MIME_TYPES)
    }


def _display(message: KernelMessage) -> dict[str, Any]:
    content = message.content
    display: dict[str, Any] = {
        "output_type": message.type,
        "data": mime_bundle(content.get("data")),
        "metadata": _dict(content.get("metadata")),
    }
    if message.type == "execute_result":
        count = content.get("execution_count")
        display["execution_count"] = count if isinstance(count, int) else None
    if display_id := _display_id(content):
        display["display_id"] = display_id
    return display


def _display_id(content: dict[str, Any]) -> str | None:
    display_id = _dict(content.get("transient")).get("display_id")
    return display_id[:SHORT] if isinstance(display_id, str) else None


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        return "".join(value)
    return "" if value is None else str(value)
