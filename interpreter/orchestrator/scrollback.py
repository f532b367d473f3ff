"""What a terminal showed last, as text that moves along: for those who look, and those who come later.

A sandbox may show it in pieces of any size: a tiny one costs as little as it is. Places in the text
are counted from the first character ever shown, so that each viewer knows its own.

What was shown before a viewer came may ask the terminal something: what it is, where its cursor is,
which colours it has. Whoever asked has its answer, or is gone; answered again, it would be typed into
whatever runs now. So old text is shown without questions.
"""

from __future__ import annotations

import re
from collections import deque

KEPT = 256 * 1024
"""Characters that are kept of what a terminal showed, at least."""
BLOCK = 4096
"""Pieces smaller than this are put together."""
PIECE = 64 * 1024
"""Characters that a viewer gets at once."""
LINE = 1000
"""How far a line's start is looked for."""

SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)(?P<csi>[0-?]*+[ -/]*+[@-~])"
    r"|(?:\x1b\]|\x9d)(?P<osc>[^\x07\x1b\x90\x98\x9b-\x9f]*+)(?:\x07|\x1b\\|\x9c)"
    r"|(?:\x1bP|\x90)(?P<dcs>[^\x1b\x90\x98\x9b-\x9f]*+)(?:\x1b\\|\x9c)"
    r"|(?P<asks>\x05|\x1bZ|\x9a|(?:\x1b_|\x9f)[^\x1b\x90\x98\x9b-\x9f]*+(?:\x1b\\|\x9c))"
)
"""What a terminal obeys, by kind. None goes on where another begins, as terminals have it: so each
character is looked at once, and hostile text costs no more than other text."""
ASKING = re.compile(
    r"[?>=]?[0-9;]*c"  # what it is
    r"|\??[0-9;]*n"  # how it is, where the cursor is
    r"|\??[0-9;]*\$p|>[0-9;]*q|[0-9;]*x|\?[0-9;]*[uSm]|[0-9;]*(?:\*y|\$w|&u|#R|\"v|#\||'\|)"
    r"|(?:11|13|14|15|16|18|19|20|21)(?:;[0-9;]*)?t"  # its window
)
UNFINISHED = re.compile(r"[\x1b\x90\x9b\x9d\x9f](?!\\)[^\x07\x9c]*\Z")
TAIL = 250
"""How far from its end a sequence that may be unfinished is looked for."""


class Scrollback:
    """The last of what was shown."""

    def __init__(self) -> None:
        self.first = 0
        """The place of the oldest character that is kept."""
        self.end = 0
        """The place after the newest."""
        self._blocks: deque[str] = deque()
        self._cut = False
        """Whether there was more before it."""

    def add(self, text: str) -> None:
        blocks = self._blocks
        if blocks and len(blocks[-1]) < BLOCK:
            blocks[-1] += text
        else:
            blocks.append(text)
        self.end += len(text)
        while self.end - self.first - len(blocks[0]) >= KEPT:
            self.first += len(blocks.popleft())
            self._cut = True

    def replace(self, text: str) -> None:
        """Forgets all that was shown; whoever looks goes on with this."""
        self._blocks.clear()
        self.first, self._cut = self.end, False
        self.add(text)

    def start(self, place: int) -> int:
        """Where one goes on who is at this place: there, or where what is kept begins, with a line if it
        can be: not in the middle of a colour."""
        if place >= self.first or not self._cut:
            return max(place, self.first)
        return self.first + self._blocks[0].find("\n", 0, LINE) + 1

    def read(self, place: int, most: int = PIECE) -> str:
        """What follows a place that is kept."""
        found: list[str] = []
        at = self.end
        for block in reversed(self._blocks):
            if at <= place:
                break
            at -= len(block)
            found.append(block[max(0, place - at) :][:most] if at <= place else block[:most])
        return "".join(reversed(found))[:most]

    def read_old(self, place: int, until: int) -> tuple[str, int]:
        """What follows a place without what it asks, and the place after it, at most `until`."""
        piece = self.read(place, min(PIECE, until - place))
        if place + len(piece) < until and (half := UNFINISHED.search(piece[-TAIL:])):
            piece = piece[: half.start() - TAIL]
        return SEQUENCE.sub(_unless_it_asks, piece), place + len(piece)


def _unless_it_asks(sequence: re.Match[str]) -> str:
    kind, said = sequence.lastgroup, sequence[sequence.lastgroup or 0]
    asks = (
        kind == "asks"
        or (kind == "csi" and ASKING.fullmatch(said) is not None)
        or (kind == "osc" and "?" in said.split(";")[1:])
        or (kind == "dcs" and said.startswith(("$q", "+q")))
    )
    return "" if asks else sequence[0]
