"""Events as a person reads them in a terminal.

What the cell prints goes where it printed it, as it comes. Results are shown as text, errors as a
traceback on stderr, with the kernel's colours on a terminal; pictures are saved and named; what is
about to end is warned of on stderr, and on a terminal the files that a cell changed are named there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, TextIO

from interpreter.cli.images import ImageFolder
from interpreter.models import Event, EventType

RED, GREEN, YELLOW, CYAN, DIM = "31", "32", "33", "36", "2"
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_TERMINAL = -1
MOST_FILES = 20
"""Changed files that are named."""
_READABLE = ("text/plain", "text/markdown", "text/latex")


class Screen:
    """Shows the events of a session. `labels` puts Out[n] before results."""

    def __init__(
        self, out: TextIO, err: TextIO, images: ImageFolder | None, *, labels: bool = False
    ) -> None:
        self.out = out
        self.err = err
        self._unfinished: set[int] = set()
        self._images = images
        self._labels = labels

    def show(self, event: Event) -> None:
        data = event.data
        match event.type:
            case EventType.stream:
                self.write(self.err if data["name"] == "stderr" else self.out, data["text"])
            case EventType.display | EventType.update:
                self._show_bundle(data)
            case EventType.error:
                self._show_error(data)
            case EventType.files:
                self._show_files(data)
            case EventType.warning:
                self.line(self.err, self.paint(self.err, YELLOW, f"warning: {data['message']}"))

    @property
    def cursor_in_line(self) -> bool:
        """Whether the terminal, if there is one, shows a line that is not ended."""
        return _TERMINAL in self._unfinished

    def begin_line(self) -> None:
        """Somebody else, who typed at the terminal, has ended the line."""
        self._unfinished.discard(_TERMINAL)

    def line(self, file: TextIO, text: str) -> None:
        """A line of its own, also after output that did not end its line."""
        self.write(file, ("\n" if _place(file) in self._unfinished else "") + text + "\n")

    def write(self, file: TextIO, text: str) -> None:
        if not text:
            return
        try:
            file.write(text)
        except UnicodeEncodeError:  # the terminal's encoding has not all of its characters
            file.write(text.encode(file.encoding, "backslashreplace").decode(file.encoding))
        file.flush()
        if text.endswith("\n"):
            self._unfinished.discard(_place(file))
        else:
            self._unfinished.add(_place(file))

    def paint(self, file: TextIO, style: str, text: str) -> str:
        return f"\x1b[{style}m{text}\x1b[0m" if self._colourful(file) else text

    def _show_bundle(self, data: Mapping[str, Any]) -> None:
        bundle = data["data"]
        saved = self._images.save(bundle, data.get("display_id")) if self._images else []
        for path in saved:
            self.line(self.err, self.paint(self.err, CYAN, f"image saved: {path}"))
        if not saved:
            self.line(self.out, self._label(data) + readable(bundle))

    def _label(self, data: Mapping[str, Any]) -> str:
        count = data.get("execution_count")
        if not self._labels or data.get("output_type") != "execute_result" or count is None:
            return ""
        space = "\n" if "\n" in readable(data["data"]) else " "
        return self.paint(self.out, RED, f"Out[{count}]:") + space

    def _show_error(self, data: Mapping[str, Any]) -> None:
        text = "\n".join(data["traceback"]) or f"{data['ename']}: {data['evalue']}"
        self.line(self.err, text if self._colourful(self.err) else _COLOURS.sub("", text))

    def _show_files(self, data: Mapping[str, Any]) -> None:
        """Only for a person: what the cell changed is no output of it."""
        if not self.err.isatty():
            return
        for file in data["files"][:MOST_FILES]:
            size = "" if file["size"] is None else f" ({readable_size(file['size'])})"
            # A name can have in it what a terminal would obey.
            name = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in file["path"])
            self.line(self.err, self.paint(self.err, DIM, f"{file['change']} {name}{size}"))
        if more := len(data["files"][MOST_FILES:]) + data["left_out"]:
            self.line(self.err, self.paint(self.err, DIM, f"and {more:,} more files"))

    def _colourful(self, file: TextIO) -> bool:
        return file.isatty() and "NO_COLOR" not in os.environ


def _place(file: TextIO) -> int:
    """What is written to any file on a terminal ends up in the same place."""
    return _TERMINAL if file.isatty() else id(file)


def readable_size(size: float) -> str:
    for unit in ("bytes", "kB", "MB"):
        if size < 999.5:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:,.1f} GB"


def readable(bundle: Mapping[str, Any]) -> str:
    """The best plain text there is for one output."""
    for mime in _READABLE:
        if mime in bundle:
            text = bundle[mime]
            return "".join(text) if isinstance(text, list) else str(text)
    kinds = ", ".join(sorted(bundle)) or "nothing"
    return f"[{kinds}]"
