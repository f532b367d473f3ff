"""Deleting a directory with everything in it, however deep it is and whoever changes it meanwhile.

The tree is made flat on the way: directories that are found in a directory are moved up to the top
one, so that a few descriptors are enough for any depth. No link is ever followed: everything is named
by one name in a directory that is held open.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time

from interpreter.workspace import paths

LONGEST_SECONDS = 600.0
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(parent: int, name: str) -> None:
    """Deletes the directory of this name. Raises OSError; what is left then is where it was."""
    until = time.monotonic() + LONGEST_SECONDS
    top = os.open(name, _DIRECTORY, dir_fd=parent)
    try:
        while _empty(top):
            if time.monotonic() > until:
                raise OSError(errno.EBUSY, "it is filled faster than it can be emptied")
    finally:
        os.close(top)
    os.rmdir(name, dir_fd=parent)


def _empty(top: int) -> bool:
    """Takes everything out that is there now, by one level; returns whether there was anything."""
    found = False
    with os.scandir(top) as entries:
        for entry in entries:
            found = True
            if not _unlink(top, entry.name):
                _empty_one(top, entry.name)
    return found


def _empty_one(top: int, name: str) -> None:
    try:
        directory = os.open(name, _DIRECTORY, dir_fd=top)
    except (FileNotFoundError, NotADirectoryError):
        return  # it is something else by now; the next round sees
    except OSError as e:
        if e.errno == errno.ELOOP:
            return
        raise
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                if not _unlink(directory, entry.name):
                    _move_up(directory, entry.name, top)
    finally:
        os.close(directory)
    try:
        os.rmdir(name, dir_fd=top)
    except OSError as e:
        if e.errno not in (errno.ENOTEMPTY, errno.ENOENT, errno.ENOTDIR):
            raise


def _move_up(directory: int, name: str, top: int) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.rename(name, paths.temporary(), src_dir_fd=directory, dst_dir_fd=top)


def _unlink(directory: int, name: str) -> bool:
    """Whether it is gone; not if it is a directory."""
    try:
        os.unlink(name, dir_fd=directory)
    except FileNotFoundError:
        pass
    except OSError as e:
        if e.errno != errno.EISDIR:
            raise
        return False
    return True
