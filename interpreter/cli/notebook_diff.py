"""Whether a cell shows what it showed before, and if not, where the first difference is.

What changes with every run though nothing is different is not looked at: execution counts, times,
metadata and tracebacks; in texts colours, addresses in memory (`0x7f…`) and the names that kernels give
to the code of a cell; and the ids of widgets. Streams are compared as wholes: where one piece ends and
the next begins, and how stdout and stderr alternate, is chance. A picture is the same when every byte of
it is.
"""

from __future__ import annotations

import base64
import binascii
import difflib
import re
from itertools import zip_longest
from typing import Any

import msgspec

Part = tuple[str, Any]
"""A stream, an error or a MIME type, and what it says."""

WIDGET = "application/vnd.jupyter.widget-view+json"
MOST_LINES = 8
MOST_CHARS = 160

_NOISE = (
    (re.compile(r"\x1b\[[0-9;]*m"), ""),
    (re.compile(r"\b0x[0-9a-fA-F]{6,16}\b"), "0x…"),
    # Looked for from the beginning of a word: a megabyte without a space is one, too.
    (re.compile(r"(?<!\S)\S*ipykernel_\d+/\d+\.py|<ipython-input-\d+-\w+>"), "<cell>"),
)


def differences(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> list[str]:
    """The first difference as some lines to print, and how many more there are; nothing if none."""
    found = [
        _described(*pair)
        for pair in zip_longest(_parts(before), _parts(after), fillvalue=None)
        if pair[0] != pair[1]
    ]
    if len(found) < 2:
        return [line for lines in found for line in lines]
    return [*found[0], f"and {len(found) - 1} more"]


def _parts(outputs: list[dict[str, Any]]) -> list[Part]:
    parts: list[Part] = []
    streams: dict[str, str] = {}
    for output in outputs:
        if output.get("output_type") == "stream":
            name = str(output.get("name"))
            streams[name] = streams.get(name, "") + str(_joined(output.get("text", "")))
            continue
        parts += _of_streams(streams)
        if output.get("output_type") == "error":
            parts.append(("error", _quiet(f"{output.get('ename')}: {output.get('evalue')}")))
        else:
            data = output.get("data") or {}
            parts += [(mime, _content(mime, data[mime])) for mime in sorted(data)]
    return parts + _of_streams(streams)


def _of_streams(streams: dict[str, str]) -> list[Part]:
    parts: list[Part] = [(name, _quiet(streams[name])) for name in sorted(streams)]
    streams.clear()
    return parts


def _content(mime: str, value: Any) -> Any:
    value = _joined(value)
    if mime == WIDGET:
        return "a widget"
    if not isinstance(value, str):
        encoded = msgspec.json.encode(value, order="deterministic")
        return msgspec.json.format(encoded, indent=1).decode()
    if mime.startswith("image/") and mime != "image/svg+xml":
        try:
            return base64.b64decode(value)
        except (binascii.Error, ValueError):
            return value
    return _quiet(value)


def _joined(text: Any) -> Any:
    """A text can be written as a list of its lines."""
    if isinstance(text, list) and all(isinstance(line, str) for line in text):
        return "".join(text)
    return text


def _quiet(text: str) -> str:
    for pattern, instead in _NOISE:
        text = pattern.sub(instead, text)
    return text


def _described(before: Part | None, after: Part | None) -> list[str]:
    if before is None or after is None or before[0] != after[0]:
        was, now = ("nothing" if part is None else part[0] for part in (before, after))
        return [f"{was} before, {now} now"]
    name, old, new = before[0], before[1], after[1]
    if isinstance(old, bytes) or isinstance(new, bytes):
        return [f"{name}: another picture ({len(old):,} bytes before, {len(new):,} now)"]
    lines = list(difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=0))[2:]
    if not lines:
        return [f"{name}: another line ending"]
    place = re.match(r"@@ -(\d+)", lines[0])
    shown = [line[:MOST_CHARS] for line in lines if not line.startswith("@@")]
    cut = [] if len(shown) <= MOST_LINES else [f"… and {len(shown) - MOST_LINES} more lines"]
    return [f"{name}, line {place[1] if place else 1}:", *shown[:MOST_LINES], *cut]
