"""What a cell has shown already, so that nothing of it is shown twice.

A gateway that was started again tells a cell from its beginning to whoever sends it again. What came
before is known here by how much it was: so many characters on stdout, so many other outputs, and so on.
"""

from __future__ import annotations

from typing import Any

import msgspec

from interpreter.provisioner.frames import BadMessage

OTHER = "other"
_content = msgspec.json.Decoder(dict[str, Any])


class Shown:
    """The outputs of one cell, as they pass."""

    def __init__(self) -> None:
        self._begun = False
        self._all: list[tuple[str, int]] = []
        """Outputs of one kind that follow each other, and how much they are."""
        self._again: list[tuple[str, int]] = []
        """Those of them that are still to come once more."""

    def new(self, type: str, parts: list[bytes]) -> list[bytes] | None:
        """What is new of a message: all of it, a part, or nothing."""
        if type.startswith("comm_"):
            return parts  # never told again
        if type == "execute_input":
            if self._begun:
                self._again = self._all.copy()
                return None
            self._begun = True
            return parts
        if type == "status":
            return None if self._begun and b'"busy"' in parts[3] else parts
        if type != "stream":
            return parts if self._count(OTHER, 1) else None
        content = _decoded(parts[3])
        text = str(content.get("text", ""))
        new = self._count(str(content.get("name")), len(text))
        if new == len(text):
            return parts
        content["text"] = text[len(text) - new :]
        return [*parts[:3], msgspec.json.encode(content), *parts[4:]] if new else None

    def _count(self, kind: str, amount: int) -> int:
        """How much of it was not there before, which is its end."""
        while amount and self._again:
            known, before = self._again[0]
            if known != kind:
                self._again.clear()  # not as it was: rather twice than never
                break
            passed = min(amount, before)
            amount -= passed
            self._again[0] = (kind, before - passed)
            if before == passed:
                self._again.pop(0)
        if amount:
            last = self._all[-1][1] if self._all and self._all[-1][0] == kind else None
            if last is None:
                self._all.append((kind, amount))
            else:
                self._all[-1] = (kind, last + amount)
        return amount


def _decoded(content: bytes) -> dict[str, Any]:
    try:
        return _content.decode(content)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as e:
        raise BadMessage(f"the content of a message is wrong: {e}") from None
