"""Looking through a whole tree: one directory open at a time, no link followed, no recursion.

A sandbox can make a tree too deep for descriptors, for paths or for Python's stack, and change it
while somebody walks. What cannot be reached by a path is left out; what is exchanged for a link
meanwhile is, too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from interpreter.errors import TooManyFiles
from interpreter.models.files import FileType
from interpreter.workspace import beneath, paths
from interpreter.workspace.about import file_type

MOST_ENTRIES = 100_000
"""In one archive or copy: what has to be remembered of each is memory of the gateway."""


class Found(NamedTuple):
    path: str
    """From where the walk began; with lone surrogates where a name is not UTF-8."""
    about: os.stat_result

    @property
    def type(self) -> FileType:
        return file_type(self.about.st_mode)


class _Place(NamedTuple):
    """A directory that is still to be looked into. Whole paths would take far more memory."""

    above: _Place | None
    name: str

    def path(self) -> str:
        names = []
        place: _Place | None = self
        while place is not None and place.name:
            names.append(place.name)
            place = place.above
        return "/".join(reversed(names))


def walk(top: int) -> Iterator[Found]:
    """Everything beneath a directory, each directory before what is in it. Raises TooManyFiles."""
    pending = [_Place(None, "")]
    count = 0
    while pending:
        place = pending.pop()
        path = place.path()
        try:
            directory = open_directory(top, path)
        except OSError:
            continue  # it is gone, or something else by now
        try:
            with os.scandir(directory) as entries:
                for entry in entries:
                    if paths.is_temporary(entry.name):
                        continue
                    try:
                        about = entry.stat(follow_symlinks=False)
                    except OSError:
                        continue
                    count += 1
                    if count > MOST_ENTRIES:
                        raise TooManyFiles(f"There are more than {MOST_ENTRIES:,} files in this tree.")
                    found = Found(paths.joined(path, entry.name), about)
                    if found.type is FileType.directory:
                        if len(os.fsencode(found.path)) > paths.LONGEST_PATH:
                            continue
                        pending.append(_Place(place, entry.name))
                    yield found
        finally:
            os.close(directory)


def check_size(top: int) -> None:
    """Raises TooManyFiles before anybody is sent the beginning of what cannot be completed."""
    for _ in walk(top):
        pass


def open_directory(top: int, path: str) -> int:
    """To list, without following any link. Raises OSError."""
    found = beneath.find(top, path, follow_last=False, links=False, directory=True)
    try:
        return beneath.listable(found)
    finally:
        os.close(found)


def open_file(top: int, path: str) -> int:
    """To read; raises OSError, also if it is not a regular file."""
    found = beneath.find(top, path, follow_last=False, links=False)
    try:
        if file_type(os.fstat(found).st_mode) is not FileType.file:
            raise OSError("it is not a file any more")
        return beneath.readable(found)
    finally:
        os.close(found)
