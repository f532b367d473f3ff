"""Cells that were sent to a kernel, or answered, and are not in the database yet.

The database takes a moment; a kernel does not wait for it, and neither does the answer to a short
cell. What a killed gateway must not forget in that moment is that the cell was sent, and what was
measured of it when it was answered: everything the kernel said of it is still in the sandbox,
unacknowledged, and is said again. So each cell is first written to a file, with one call that takes
some microseconds, and so is what was measured. The file needs no sync: the system has it when the call
returns, whatever becomes of the process.

When the file is long enough another is begun, and each is removed when the database has all that is in
it: also where there is no moment in which nothing waits. What an earlier gateway left stays until each
of its sessions has been told.

The disk space of the file is taken beforehand, so that cells which are sent before anybody has noticed
that the disk is full are written down all the same.
"""

from __future__ import annotations

import ctypes
import errno
import os
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import structlog

from interpreter.models import Execution, ExecutionUsage, FileChange

log = structlog.get_logger()

LONG_ENOUGH = 256 * 1024
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

    session_id: str
    execution_id: str
    started_at: datetime | None
    duration_ms: float | None
    usage: ExecutionUsage | None
    files: list[FileChange] | None
    files_left_out: int


class Left(NamedTuple):
    """What an earlier gateway wrote down of a session, oldest first."""

    entries: list[Entry]
    endings: dict[str, Ending]


_decode = msgspec.json.Decoder(Entry).decode
_decode_ending = msgspec.json.Decoder(Ending).decode


class File:
    """One file of the journal."""

    def __init__(self, path: Path) -> None:
        """Raises OSError also when there is no space for it."""
        self.path = path
        self.size = 0
        self.waiting = 0
        """How many of those in it the database does not have yet."""
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self.reserved = _reserve(self._fd)

    def write(self, entry: bytes) -> None:
        # After a full disk took only a part of a line, the next one is whole again.
        line = b"\n" + entry
        self.waiting += 1
        try:
            while line:
                written = os.write(self._fd, line)
                self.size += written
                line = line[written:]
        except OSError as e:
            log.error("the journal cannot be written", error=str(e))

    def close(self) -> None:
        """Nothing more is written to it."""
        if self._fd < 0:
            return
        if self.waiting == 0:
            self.path.unlink(missing_ok=True)
        else:
            os.ftruncate(self._fd, self.size)  # gives back what was reserved
        os.close(self._fd)
        self._fd = -1

    def settle(self) -> None:
        """The database has one more of those that were written to it."""
        self.waiting -= 1
        if self.waiting == 0 and self._fd < 0:
            self.path.unlink(missing_ok=True)


def _reserve(fd: int) -> bool:
    """Whether the space is there, or the file system cannot tell."""
    if _libc.fallocate(fd, KEEP_SIZE, ctypes.c_long(0), ctypes.c_long(RESERVED)) == 0:
        return True
    return ctypes.get_errno() not in (errno.ENOSPC, errno.EDQUOT)


class Journal:
    """Append-only files."""

    def __init__(self, path: Path) -> None:
        self.left: dict[str, Left] = {}
        """What an earlier gateway left, by session, until that is told of it."""
        self._path = path
        self._found = sorted(path.parent.glob(f"{path.name}*"), key=_number)
        for found in self._found:
            self._read(found)
        self._next = 1 + max(map(_number, self._found), default=-1)
        self._file = self._begin()
        self._forget_found()

    def _read(self, path: Path) -> None:
        for line in filter(None, path.read_bytes().splitlines()):
            try:
                if line.startswith(b"["):
                    ending = _decode_ending(line)
                    self._left(ending.session_id).endings[ending.execution_id] = ending
                else:
                    entry = _decode(line)
                    self._left(entry.execution.session_id).entries.append(entry)
            except msgspec.DecodeError:
                log.warning("a line of the journal is not whole", line=line[:100])

    def _left(self, session_id: str) -> Left:
        return self.left.setdefault(session_id, Left([], {}))

    def told(self, session_id: str) -> None:
        """The database has all that was left of a session, or there is no such session any more."""
        self.left.pop(session_id, None)
        self._forget_found()

    def _forget_found(self) -> None:
        if not self.left:
            for path in self._found:
                path.unlink(missing_ok=True)
            self._found = []

    def add(self, execution: bytes, request: bytes) -> File:
        """Writes down a cell, given as JSON; returns what is told to `settle` when the database has
        it."""
        return self._write(b'{"execution":%b,"request":%b}' % (execution, request))

    def add_ending(self, ending: Ending) -> File:
        """Writes down how a cell ended, before anybody is told. Returns as above."""
        return self._write(msgspec.json.encode(ending))

    def _write(self, entry: bytes) -> File:
        if self._file.size > LONG_ENOUGH:
            self._begin_another()
        self._file.write(entry)
        return self._file

    def _begin(self) -> File:
        number, self._next = self._next, self._next + 1
        return File(self._path.with_name(f"{self._path.name}-{number}") if number else self._path)

    def _begin_another(self) -> None:
        """Unless there is no space for it: this one has some of its own."""
        try:
            another = self._begin()
        except OSError as e:
            log.error("the journal cannot be continued in another file", error=str(e))
            return
        old, self._file = (self._file, another) if another.reserved else (another, self._file)
        old.close()

    def close(self) -> None:
        self._file.close()


def _number(path: Path) -> int:
    """Which file of the journal it is; the first has none in its name."""
    number = path.name.rpartition("-")[2]
    return int(number) if number.isdecimal() else 0
