"""Looking through a whole tree: one directory open at a time, no link followed, no recursion.

A sandbox can make a tree too deep for descriptors, for paths or for Python's stack, and change it
while somebody walks. What cannot be reached by a path is left out; what is exchanged for a link
meanwhile is, too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from interpreter.errors import FileRefused, TooManyFiles
from interpreter.models.files import FileType
from interpreter.workspace import beneath, paths
from interpreter.workspace.about import file_type

MOST_ENTRIES = 100_000
"""In one archive or copy: what has to be remembered of each is memory of the gateway."""
TRAIL = 16


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


class _Trail:
    """The directories above the one that is looked into, as far as they are open: without them every
    step into the depth would begin at the top again."""

    def __init__(self, top: int) -> None:
        self._top = top
        self._open: list[tuple[_Place, int]] = []

    def enter(self, place: _Place) -> int:
        """A descriptor to list a directory; the trail keeps it. Raises OSError."""
        while self._open and self._open[-1][0] is not place.above:
            os.close(self._open.pop()[1])
        if self._open:
            directory = open_directory(self._open[-1][1], place.name)
        else:
            directory = open_directory(self._top, place.path())
        self._open.append((place, directory))
        if len(self._open) > TRAIL:
            os.close(self._open.pop(0)[1])
        return directory

    def close(self) -> None:
        while self._open:
            os.close(self._open.pop()[1])


def walk(top: int) -> Iterator[Found]:
    """Everything beneath a directory, each directory before what is in it. Raises TooManyFiles, and
    FileRefused for a directory that the gateway may not read."""
    pending = [_Place(None, "")]
    trail = _Trail(top)
    count = 0
    try:
        while pending:
            place = pending.pop()
            path = place.path()
            try:
                directory = trail.enter(place)
            except PermissionError as e:
                raise refused(path) from e
            except OSError:
                continue  # it is gone, or something else by now
            for name, about in _entries(directory):
                count += 1
                if count > MOST_ENTRIES:
                    raise TooManyFiles(f"There are more than {MOST_ENTRIES:,} files in this tree.")
                found = Found(paths.joined(path, name), about)
                if len(os.fsencode(found.path)) > paths.LONGEST_PATH:
                    continue
                if found.type is FileType.directory:
                    pending.append(_Place(place, name))
                yield found
    finally:
        trail.close()


def _entries(directory: int) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(directory) as entries:
        for entry in entries:
            if not paths.is_temporary(entry.name):
                try:
                    yield entry.name, entry.stat(follow_symlinks=False)
                except PermissionError as e:
                    raise refused(entry.name) from e
                except OSError:
                    continue  # it is gone by now


def refused(path: str) -> FileRefused:
    return FileRefused(f"The gateway may not read '{paths.shown(paths.readable(path)) or '.'}'.")


def check_size(top: int) -> None:
    """Raises what `walk` does before anybody is sent the beginning of what cannot be completed."""
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
