"""Cells that were sent to a kernel and are not in the database yet.

The database takes a moment; a kernel does not wait for it, and neither does the answer to a short
cell. What a killed gateway must not forget in that moment is that the cell was sent: everything the
kernel said of it is still in the sandbox, unacknowledged, and is said again. So each cell is first
written to a file, with one call that takes some microseconds. The file needs no sync: the system has
it when the call returns, whatever becomes of the process. It is emptied when the database has caught
up.

Its disk space is taken beforehand, so that cells which are sent before anybody has noticed that the
disk is full are written down all the same.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from pathlib import Path
from typing import Any

import msgspec
import structlog

from interpreter.models import Execution

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


_decode = msgspec.json.Decoder(Entry).decode


class Journal:
    """An append-only file. `entries` are those of an earlier gateway."""

    def __init__(self, path: Path) -> None:
        self.entries = _read(path)
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
        # After a full disk took only a part of a line, the next one is whole again.
        line = b'\n{"execution":%b,"request":%b}' % (execution, request)
        self._waiting += 1
        try:
            while line:
                written = os.write(self._fd, line)
                self._size += written
                line = line[written:]
        except OSError as e:
            log.error("the journal cannot be written", error=str(e))

    def settle(self) -> None:
        """The database has one more of the cells that were added."""
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


def _read(path: Path) -> list[Entry]:
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return []
    entries = []
    for line in filter(None, lines):
        try:
            entries.append(_decode(line))
        except msgspec.DecodeError:
            log.warning("a line of the journal is not whole", line=line[:100])
    return entries
