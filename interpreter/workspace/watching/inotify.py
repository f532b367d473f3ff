"""Linux tells what happens in directories: its calls, and its events as they are read from a queue.

A queue is a descriptor that never blocks. It holds a bounded number of events; when it is full, the
rest is left out and one event, OVERFLOW, says so.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterator
from functools import cache
from pathlib import Path

MODIFY = 0x00000002
CLOSE_WRITE = 0x00000008
MOVED_FROM = 0x00000040
MOVED_TO = 0x00000080
CREATE = 0x00000100
DELETE = 0x00000200
OVERFLOW = 0x00004000
IGNORED = 0x00008000
IS_DIRECTORY = 0x40000000

_ONLY_DIRECTORIES, _NOT_UNLINKED = 0x01000000, 0x04000000
_WANTED = (
    *(MODIFY, CLOSE_WRITE, MOVED_FROM, MOVED_TO, CREATE, DELETE),
    *(_ONLY_DIRECTORIES, _NOT_UNLINKED),
)
_MASK = sum(_WANTED)
_SETTINGS = Path("/proc/sys/fs/inotify")
_HEAD = struct.Struct("iIII")
LONGEST = _HEAD.size + 256
"""Bytes that one event can take."""


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _call(name: str, *arguments: int | bytes) -> int:
    try:
        function = getattr(_libc(), name)
    except AttributeError:
        raise OSError(errno.ENOSYS, "this system has no inotify") from None
    result = int(function(*arguments))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def open_queue() -> int:
    """EMFILE when the user has as many as the machine allows."""
    return _call("inotify_init1", os.O_NONBLOCK | os.O_CLOEXEC)


def watch(queue: int, directory: int) -> int:
    """Has what happens in an open directory told; the number that its events will have.

    A directory that is watched already keeps its number: it tells which directory it is.
    """
    # The descriptor is the directory, whatever its path leads to by now.
    return _call("inotify_add_watch", queue, b"/proc/self/fd/%d" % directory, _MASK)


def unwatch(queue: int, number: int) -> None:
    try:
        _call("inotify_rm_watch", queue, number)
    except OSError as e:
        if e.errno != errno.EINVAL:  # the directory is gone, and its watch with it
            raise


def events(raw: bytes) -> Iterator[tuple[int, int, str]]:
    """The number of the directory, what happened, and the name that it happened to."""
    at, unpack, head = 0, _HEAD.unpack_from, _HEAD.size
    while at < len(raw):
        number, mask, _, length = unpack(raw, at)
        at += head
        name = os.fsdecode(raw[at : at + length].rstrip(b"\0")) if length else ""
        at += length
        yield number, mask, name


def most_watches() -> int:
    """How many directories one user can have watched; 0 when that is not known."""
    try:
        return int((_SETTINGS / "max_user_watches").read_text())
    except (OSError, ValueError):
        return 0
