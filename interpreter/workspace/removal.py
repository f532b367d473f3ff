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
from collections.abc import Iterator
from pathlib import Path

from interpreter.workspace import paths

LONGEST_SECONDS = 60.0
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(parent: int, name: str, seconds: float | None = None) -> None:
    """Deletes the directory of this name. Raises OSError; what is left then is still in it, but its
    directories may be on top and have other names. It can be called again."""
    until = time.monotonic() + (LONGEST_SECONDS if seconds is None else seconds)
    top = os.open(name, _DIRECTORY, dir_fd=parent)
    try:
        while _empty(top, until):
            pass
    finally:
        os.close(top)
    os.rmdir(name, dir_fd=parent)


def _empty(top: int, until: float) -> bool:
    """Takes everything out that is there now, by one level; returns whether there was anything."""
    found = False
    for name in _names(top, until):
        found = True
        if not _unlink(top, name):
            _empty_one(top, name, until)
    return found


def _names(directory: int, until: float) -> Iterator[str]:
    """What is in a directory. A cell can make more faster than it is taken out."""
    with os.scandir(directory) as entries:
        for entry in entries:
            if time.monotonic() > until:
                raise OSError(errno.EBUSY, "it takes too long to empty it")
            yield entry.name


def _empty_one(top: int, name: str, until: float) -> None:
    try:
        directory = os.open(name, _DIRECTORY, dir_fd=top)
    except (FileNotFoundError, NotADirectoryError):
        return  # it is something else by now; the next round sees
    except OSError as e:
        if e.errno == errno.ELOOP:
            return
        raise
    try:
        for inner in _names(directory, until):
            if not _unlink(directory, inner):
                _move_up(directory, inner, top)
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


def tidy(workspace: Path, seconds: float) -> None:
    """Removes what a gateway that was killed left on top of a workspace, as far as there is time.
    Called before this one puts anything there itself. Raises OSError."""
    until = time.monotonic() + seconds
    top = os.open(workspace, _DIRECTORY)
    try:
        for name in [name for name in _names(top, until) if paths.is_temporary(name)]:
            if not _unlink(top, name):
                with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                    remove_tree(top, name, until - time.monotonic())
    finally:
        os.close(top)
