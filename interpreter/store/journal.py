"""Cells that were sent to a kernel, or answered, and are not in the database yet.

The database takes a moment; a kernel does not wait for it, and neither does the answer to a short
cell. What a killed gateway must not forget in that moment is that the cell was sent, and what was
measured of it when it was answered: everything the kernel said of it is still in the sandbox,
unacknowledged, and is said again. So each cell is first written to a file, with one call that takes
some microseconds, and so is what was measured. The file needs no sync: the system has it when the call
returns, whatever becomes of the process. It is emptied when the database has caught up.

Its disk space is taken beforehand, so that cells which are sent before anybody has noticed that the
disk is full are written down all the same.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import structlog

from interpreter.models import Execution, ExecutionUsage, FileChange

log = structlog.get_logger()

EMPTY_AT = 256 * 1024
RESERVED = 1024 * 1024
KEEP_SIZE = 1
"""FALLOC_FL_KEEP_SIZE: the space is taken, and the file is as long as what was written."""

_libc = ctypes.CDLL(None, use_errno=True)


class Entry(msgspec.Struct, frozen=True):
    """A cell as it was when it was sent, and what else its request said."""

    execution: Execution
    request: dict[str, Any]


class Ending(msgspec.Struct, frozen=True, array_like=True):
    """What was measured of a cell that was answered: nobody can measure it again."""

    execution_id: str
    started_at: datetime | None
    duration_ms: float | None
    usage: ExecutionUsage | None
    files: list[FileChange] | None
    files_left_out: int


_decode = msgspec.json.Decoder(Entry).decode
_decode_ending = msgspec.json.Decoder(Ending).decode


class Journal:
    """An append-only file. `entries` and `endings` are those of an earlier gateway."""

    def __init__(self, path: Path) -> None:
        self.entries, self.endings = _read(path)
        self._path = path
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._waiting = 0
        self._size = os.fstat(self._fd).st_size
        self._reserve()

    def _reserve(self) -> None:
        # Where the file system cannot, or has no space left, it is written as far as it goes.
        _libc.fallocate(self._fd, KEEP_SIZE, ctypes.c_long(0), ctypes.c_long(RESERVED))

    def add(self, execution: bytes, request: bytes) -> None:
        """Writes down a cell, given as JSON. `settle` is called when the database has it."""
        self._write(b'{"execution":%b,"request":%b}' % (execution, request))

    def add_ending(self, ending: Ending) -> None:
        """Writes down how a cell ended, before anybody is told. `settle` as above."""
        self._write(msgspec.json.encode(ending))

    def _write(self, entry: bytes) -> None:
        # After a full disk took only a part of a line, the next one is whole again.
        line = b"\n" + entry
        self._waiting += 1
        try:
            while line:
                written = os.write(self._fd, line)
                self._size += written
                line = line[written:]
        except OSError as e:
            log.error("the journal cannot be written", error=str(e))

    def settle(self) -> None:
        """The database has one more of those that were added."""
        self._waiting -= 1
        if self._waiting == 0 and self._size > EMPTY_AT:
            self.empty()
            self._reserve()

    def empty(self) -> None:
        """Everything in it is in the database, or nobody needs it any more."""
        os.ftruncate(self._fd, 0)
        self._size = 0

    def close(self) -> None:
        if self._fd < 0:
            return
        if self._waiting == 0:
            self._path.unlink(missing_ok=True)
        else:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, self._size)  # gives back what was reserved
        os.close(self._fd)
        self._fd = -1


def _read(path: Path) -> tuple[list[Entry], dict[str, Ending]]:
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        lines = []
    entries: list[Entry] = []
    endings: dict[str, Ending] = {}
    for line in filter(None, lines):
        try:
            if line.startswith(b"["):
                ending = _decode_ending(line)
                endings[ending.execution_id] = ending
            else:
                entries.append(_decode(line))
        except msgspec.DecodeError:
            log.warning("a line of the journal is not whole", line=line[:100])
    return entries, endings
