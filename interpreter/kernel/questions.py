"""A kernel's answers about code, taken for what they are: a stranger's, and as long as it likes."""

from __future__ import annotations

from typing import Any

from interpreter.kernel.translate import mime_bundle
from interpreter.models.questions import Completion, Inspection

MOST_MATCHES = 1000
LONGEST_MATCH = 1000
LONGEST_TEXT = 200_000
SHOWN = ("text/plain", "text/html", "text/markdown")
TYPES = "_jupyter_types_experimental"


def completion(content: dict[str, Any], length: int, cursor: int) -> Completion:
    """`length` is that of the code; whatever the kernel says, the places lie in it."""
    given = content.get("matches")
    found = given if isinstance(given, list) and content.get("status") == "ok" else []
    matches = [m for m in found if isinstance(m, str) and 0 < len(m) <= LONGEST_MATCH][:MOST_MATCHES]
    start, end = (_place(content.get(name), length, cursor) for name in ("cursor_start", "cursor_end"))
    metadata = content.get("metadata")
    types = _types(metadata.get(TYPES) if isinstance(metadata, dict) else None, length)
    return Completion(
        matches=matches,
        cursor_start=min(start, end),
        cursor_end=end,
        metadata={TYPES: types} if types else {},
    )


def inspection(content: dict[str, Any]) -> Inspection:
    bundle = content.get("data")
    shown = {k: v for k, v in bundle.items() if k in SHOWN} if isinstance(bundle, dict) else {}
    data = {mime: text[:LONGEST_TEXT] for mime, text in mime_bundle(shown).items()}
    return Inspection(found=content.get("found") is True and bool(data), data=data)


def _place(given: Any, length: int, otherwise: int) -> int:
    return given if type(given) is int and 0 <= given <= length else otherwise


def _types(given: Any, length: int) -> list[dict[str, Any]]:
    types = []
    for one in given[:MOST_MATCHES] if isinstance(given, list) else ():
        if isinstance(one, dict) and isinstance(one.get("text"), str):
            texts = {
                k: one[k][:LONGEST_MATCH] for k in ("text", "type", "signature") if _is_text(one, k)
            }
            places = {k: one[k] for k in ("start", "end") if _place(one.get(k), length, -1) >= 0}
            types.append({**texts, **places})
    return types


def _is_text(one: dict[str, Any], key: str) -> bool:
    return isinstance(one.get(key), str)
