"""Events folded into notebook outputs: the one place where that is done.

The REST answer, the notebook, the SDK and everything else that shows outputs get them from
here. Streams are joined, also where stdout and stderr interleave; displays are updated by id;
`clear_output` is obeyed. What is kept is bounded: beyond the limit the head and the tail stay,
and the cut between them is stated.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

import msgspec

from interpreter.kernel.plaintext import shorten
from interpreter.models import EventType, Output

SLACK = 1024 * 1024
MAX_OF_ONE_ID = 100
"""How many displays of one id an update changes, the newest ones."""
WORTH_FINDING = 10_000
"""Bytes of a part that is named when it is left out, for whoever looks it up in the record."""


@dataclass(eq=False)
class _Entry:
    """One output. A stream's text is kept in pieces until someone wants to see it."""

    output: Output
    size: int
    pieces: deque[str] = field(default_factory=deque)
    display_id: str | None = None
    in_head: bool = False

    def finished(self) -> Output:
        if self.output["output_type"] != "stream":
            return self.output
        if len(self.pieces) > 1:
            joined = "".join(self.pieces)
            self.pieces = deque([joined])
        return {**self.output, "text": self.pieces[0] if self.pieces else ""}


class Fold:
    """The outputs of one cell, built event by event.

    >>> fold = Fold(limit=1_000_000)
    >>> fold.apply(EventType.stream, {"name": "stdout", "text": "a"})
    >>> fold.apply(EventType.stream, {"name": "stdout", "text": "b"})
    >>> fold.outputs()
    [{'output_type': 'stream', 'name': 'stdout', 'text': 'ab'}]
    """

    def __init__(self, limit: int) -> None:
        self._half = limit // 2
        self._clear()
        self._clear_pending = False
        self.has_result = False

    def _clear(self) -> None:
        self._head: deque[_Entry] = deque()
        self._tail: deque[_Entry] = deque()
        self._head_size = 0
        self._tail_size = 0
        self._head_full = False
        self._displays: dict[str, list[_Entry]] = {}
        """Those that are kept and have an id: it does not take a search to update one."""
        self.total_bytes = 0
        self.error: Output | None = None

    def apply(self, type: EventType, data: dict[str, Any]) -> None:
        match type:
            case EventType.stream:
                self._before_output()
                self._stream(data["name"], data["text"])
            case EventType.display:
                self._before_output()
                output = {k: data[k] for k in ("output_type", "data", "metadata")}
                if data["output_type"] == "execute_result":
                    output["execution_count"] = data.get("execution_count")
                    self.has_result = True
                self._add(output, data.get("display_id"))
            case EventType.error:
                self._before_output()
                what = {k: data[k] for k in ("ename", "evalue", "traceback")}
                self.error = {"output_type": "error", **what}
                self._add(self.error, None)
            case EventType.update:
                self._update(data)
            case EventType.clear:
                if data["wait"]:
                    self._clear_pending = True
                else:
                    self._clear()

    def outputs(self) -> list[Output]:
        self._trim(slack=0)
        head = [entry.finished() for entry in self._head]
        tail = [entry.finished() for entry in self._tail]
        if self.cut_bytes:
            note = f"\n[… {self.cut_bytes:,} bytes of output cut here …]\n"
            return [*head, {"output_type": "stream", "name": "stderr", "text": note}, *tail]
        if head and tail and head[-1].get("name", "") == tail[0].get("name"):
            # The same stream with nothing in between: it is one text.
            head[-1] = {**head[-1], "text": head[-1]["text"] + tail.pop(0)["text"]}
        return head + tail

    @property
    def kept_bytes(self) -> int:
        self._trim(slack=0)
        return self._head_size + self._tail_size

    @property
    def cut_bytes(self) -> int:
        return self.total_bytes - self.kept_bytes

    def _before_output(self) -> None:
        if self._clear_pending:
            self._clear_pending = False
            self._clear()

    def _stream(self, name: str, text: str) -> None:
        size = _utf8_size(text)
        self.total_bytes += size
        if not self._head_full:
            room = self._half - self._head_size
            if size <= room:
                self._join(self._head, name, text, size)
                self._head_size += size
                return
            # Cut at a character: `room` bytes hold at least a quarter as many characters.
            self._head_full = True
            kept = text.encode()[:room].decode(errors="ignore")
            if kept:
                kept_size = _utf8_size(kept)
                self._join(self._head, name, kept, kept_size)
                self._head_size += kept_size
                text, size = text[len(kept) :], size - kept_size
        self._join(self._tail, name, text, size)
        self._tail_size += size
        self._trim()

    def _join(self, entries: deque[_Entry], name: str, text: str, size: int) -> None:
        """Appends to the stream of this name, unless something else came since."""
        for entry in reversed(entries):
            if entry.output["output_type"] != "stream":
                break
            if entry.output["name"] == name:
                entry.pieces.append(text)
                entry.size += size
                return
        output = {"output_type": "stream", "name": name}
        entries.append(_Entry(output, size, deque([text])))

    def _add(self, output: Output, display_id: str | None) -> None:
        size = len(msgspec.json.encode(output))
        self.total_bytes += size
        if size > self._half:
            output = _reduced(output, self._half)
            kept = len(msgspec.json.encode(output))
            size = kept
        entry = _Entry(output, size, display_id=display_id)
        if display_id is not None:
            shown = self._displays.setdefault(display_id, [])
            shown.append(entry)
            del shown[:-MAX_OF_ONE_ID]
        if not self._head_full and size <= self._half - self._head_size:
            entry.in_head = True
            self._head.append(entry)
            self._head_size += size
            return
        self._head_full = True
        self._tail.append(entry)
        self._tail_size += size
        self._trim()

    def _trim(self, slack: int = SLACK) -> None:
        """Drops from the front of the tail what is too much; a little more may stay for a while,
        so that a flood is cut in large pieces."""
        if self._tail_size <= self._half + slack:
            return
        while self._tail_size > self._half and self._tail:
            entry = self._tail[0]
            excess = self._tail_size - self._half
            if entry.pieces and (len(entry.pieces) > 1 or entry.size > excess):
                piece = entry.pieces.popleft()
                size = _utf8_size(piece)
                if size > excess:
                    rest = piece.encode()[excess:].decode(errors="ignore")
                    entry.pieces.appendleft(rest)
                    size -= _utf8_size(rest)
                entry.size -= size
                self._tail_size -= size
            else:
                self._tail.popleft()
                self._tail_size -= entry.size
                self._forget(entry)

    def _forget(self, entry: _Entry) -> None:
        if entry.display_id is not None and (shown := self._displays.get(entry.display_id)):
            if entry in shown:
                shown.remove(entry)
            if not shown:
                del self._displays[entry.display_id]

    def _update(self, data: dict[str, Any]) -> None:
        shown = {"output_type": "display_data", "data": data["data"], "metadata": data["metadata"]}
        size = len(msgspec.json.encode(shown))
        if size > self._half:
            shown = _reduced(shown, self._half)
            size = len(msgspec.json.encode(shown))
        for entry in self._displays.get(data["display_id"], ()):
            entry.output = {**entry.output, "data": shown["data"], "metadata": shown["metadata"]}
            grown, entry.size = size - entry.size, size
            self.total_bytes += grown
            if entry.in_head:
                self._head_size += grown
            else:
                self._tail_size += grown
        while self._head_size > 2 * self._half and len(self._head) > 1:
            dropped = self._head.pop()
            self._head_size -= dropped.size
            self._forget(dropped)
            self._head_full = True
        self._trim()


def _reduced(output: Output, limit: int) -> Output:
    """A single output that is too large, with its largest parts replaced by a note."""
    if output["output_type"] == "error":
        most = limit // 16
        return {
            **output,
            "evalue": shorten(output["evalue"], most),
            "traceback": [shorten("\n".join(output["traceback"]), most)],
        }
    data, notes = dict(output["data"]), []
    left_out: dict[str, int] = {}
    sizes = {mime: len(msgspec.json.encode({mime: value})) for mime, value in data.items()}
    total = sum(sizes.values())
    for mime in sorted(sizes, key=sizes.__getitem__, reverse=True):
        if total <= limit - 1000:
            break
        notes.append(f"[{mime[:100]} of {sizes[mime]:,} bytes is over the limit and was left out]")
        if sizes[mime] >= WORTH_FINDING and len(left_out) < 5:
            left_out[mime[:100]] = sizes[mime]
        total -= sizes[mime]
        del data[mime]
    # What a figure has as text says nothing of what is missing.
    said = data.get("text/plain")
    data["text/plain"] = "\n".join([said, *notes[:5]] if isinstance(said, str) else notes[:5])
    metadata = output["metadata"]
    if len(msgspec.json.encode(metadata)) > limit // 4:
        metadata = {}
    if left_out:
        metadata = {**metadata, "interpreter": {"left_out": left_out}}
    return {**output, "data": data, "metadata": metadata}


def _utf8_size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())
