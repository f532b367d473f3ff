"""A sign of life while nothing else is shown.

After half a second without output a line with the elapsed seconds appears on stderr, and goes
before anything else is written. Where stderr is not a terminal, there is nothing at all.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

PATIENCE = 0.5
TICK = 0.1
FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
ERASE = "\r\x1b[K"


class Spinner:
    """Runs as long as its `with` block. Write inside `with spinner.hidden():`."""

    def __init__(self, file: TextIO, what: str) -> None:
        self._file = file
        self._what = what
        self._lock = threading.RLock()
        self._over = threading.Event()
        self._began = self._quiet_since = time.monotonic()
        self._shown = False
        self._at_line_start = True
        self._thread = threading.Thread(target=self._turn, daemon=True) if file.isatty() else None

    def __enter__(self) -> Spinner:
        if self._thread is not None:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    @contextmanager
    def hidden(self) -> Iterator[None]:
        with self._lock:
            self._hide()
            yield
            self._quiet_since = time.monotonic()

    def keep_line(self, unfinished: bool) -> None:
        """Says whether the cursor is in the middle of a line of the cell's, which must stay."""
        self._at_line_start = not unfinished

    def _turn(self) -> None:
        while not self._over.wait(TICK):
            with self._lock:
                if self._at_line_start and time.monotonic() - self._quiet_since > PATIENCE:
                    self._show()
        with self._lock:
            self._hide()

    def _show(self) -> None:
        seconds = time.monotonic() - self._began
        frame = FRAMES[int(seconds / TICK) % len(FRAMES)]
        self._file.write(f"{ERASE}{frame} {self._what}, {seconds:.0f} s")
        self._file.flush()
        self._shown = True

    def _hide(self) -> None:
        if self._shown:
            self._file.write(ERASE)
            self._file.flush()
            self._shown = False
