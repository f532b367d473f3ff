"""Server-Sent Events, read fast.

A cell may print 100 MB, in lines of a quarter of a megabyte that arrive in pieces. So the parser
works on whole byte strings: a chunk is split at line ends once, a line's pieces are joined once,
and the JSON goes to msgspec as it came.

It promises that an event is given out whole or not at all: one that was cut by a broken
connection is not seen, and comes again when the stream is resumed.
"""

from __future__ import annotations

from typing import Any

import msgspec

from interpreter.models import Event, EventType

_TYPES = {t.value.encode(): t for t in EventType}


class EventParser:
    """Takes the bytes of one connection in any pieces; gives back the events they complete."""

    def __init__(self) -> None:
        self._decode = msgspec.json.Decoder(dict[str, Any]).decode
        self._unfinished: list[bytes] = []
        self._seq = 0
        self._type = b""
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> list[Event]:
        lines = chunk.split(b"\n")
        if self._unfinished:
            self._unfinished.append(lines[0])
            if len(lines) == 1:
                return []
            lines[0] = b"".join(self._unfinished)
        self._unfinished = [lines.pop()]
        events = []
        for line in lines:
            if line.startswith(b"data:"):
                self._data.append(line[5:])
            elif line.startswith(b"id:"):
                self._seq = int(line[3:])
            elif line.startswith(b"event:"):
                self._type = line[6:].strip()
            elif line in (b"", b"\r"):
                event = self._complete()
                if event is not None:
                    events.append(event)
        return events

    def _complete(self) -> Event | None:
        kind = _TYPES.get(self._type)
        lines, self._data, self._type = self._data, [], b""
        # A gateway newer than this client may have events that it has no name for.
        if not lines or kind is None:
            return None
        data = self._decode(lines[0] if len(lines) == 1 else b"\n".join(lines))
        return Event(seq=self._seq, type=kind, execution_id=data.pop("execution_id", None), data=data)
