"""What is in a write-ahead log, as far as its headers tell.

SQLite takes a log for ended at the first frame whose checksum is wrong: right for what a crash left
half-written, but of a log that was damaged it silently leaves out what was committed behind that.
So the frames that there are get compared with those that SQLite takes.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import NamedTuple

MAGIC = 0x377F0682
HEADER = struct.Struct(">8I")
FRAME = struct.Struct(">6I")
MASK = 0xFFFFFFFF


class Log(NamedTuple):
    """The frames of a log, counted from 1."""

    readable: bool
    """Whether its header is whole; SQLite takes a log without one for empty."""
    frames: int
    commits: tuple[int, ...]
    """The frames that end a transaction."""


def read(path: Path) -> Log:
    """The log beside a database; an empty one when there is none."""
    try:
        with path.open("rb") as file:
            header = file.read(HEADER.size)
            if len(header) < HEADER.size:
                return Log(True, 0, ())
            magic, _, page, _, salt, salt2, *checksum = HEADER.unpack(header)
            if magic & ~1 != MAGIC or _checksum(header[:24], big=bool(magic & 1)) != checksum:
                return Log(not file.read(1), 0, ())
            commits, number = [], 0
            while len(frame := file.read(FRAME.size)) == FRAME.size:
                _, pages, *salts = FRAME.unpack(frame)[:4]
                if salts != [salt, salt2] or len(file.read(page)) < page:
                    break  # of an earlier round, or half-written
                number += 1
                if pages:
                    commits.append(number)
            return Log(True, number, tuple(commits))
    except FileNotFoundError:
        return Log(True, 0, ())


def _checksum(data: bytes, *, big: bool) -> list[int]:
    first = second = 0
    words = struct.unpack(f"{'>' if big else '<'}{len(data) // 4}I", data)
    for one, other in zip(words[::2], words[1::2], strict=True):
        first = (first + one + second) & MASK
        second = (second + other + first) & MASK
    return [first, second]


def taken(index: Path) -> int:
    """How many frames SQLite takes, from the index that it keeps while the database is open."""
    (frames,) = struct.unpack_from("=I", index.read_bytes()[:48], 16)
    return int(frames)


def left_out(log: Log, taken: int) -> int:
    """How many transactions were committed and are not taken.

    The last frame does not count: a process that is killed leaves at most that one half-written.
    """
    return sum(1 for number in log.commits if taken < number < log.frames)
