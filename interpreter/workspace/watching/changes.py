"""What a cell changed: the names that were noted while it ran, held against what is there at its end.

It is a comparison of before and after, path by path. A file that was made and removed again is
nothing; one that was removed and made again is changed; one in a directory that was moved is deleted
there and created here. Only what is listed is looked at, and no contents are read.

Paths are written out here and nowhere else. A few bytes of a sandbox's make long ones, so they are
counted; and what is too long for anybody to open is not told of.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote

from interpreter.models.executions import Change, FileChange
from interpreter.workspace.mime import mime_type
from interpreter.workspace.paths import LONGEST_PATH
from interpreter.workspace.watching.recording import EXISTED, WRITTEN, Recording, joined
from interpreter.workspace.watching.tree import Times
from interpreter.workspace.watching.walk import NOT_THERE, Elsewhere, Node, Walk

MOST_LISTED = 1000
MOST_LISTED_CHARACTERS = 1_000_000
"""Of the paths and URLs that are listed."""
MOST_BYTES = 64_000_000
"""Of all paths that are compared: some 500,000 of ordinary length."""


@dataclass(frozen=True)
class Found:
    """The changes of one cell, ordered by path, and how many more there are."""

    files: list[FileChange]
    left_out: int = 0


NOTHING = Found([])


class _Path:
    """What was at a path before, and what is there now."""

    __slots__ = ("after", "before", "written")

    def __init__(self) -> None:
        self.before = False
        self.after: tuple[Node, str] | None = None
        self.written = False


def changes(recording: Recording, walk: Walk) -> Found | None:
    """None when it is not known for sure."""
    if not recording.whole or recording.tree.root is None:
        return None
    try:
        paths = _compare(recording)
    except _TooMuch:
        return None
    looked_at: Times = {}
    files: list[FileChange] = []
    characters = left_out = 0
    for path in sorted(paths):
        there = paths[path]
        unsure = there.before and there.after is not None and not there.written
        if not left_out or unsure:
            change = _look(recording, path, there, walk, looked_at)
            if change is None:
                continue
            characters += len(change.path) + len(change.url or "")
            fits = len(files) < MOST_LISTED and characters <= MOST_LISTED_CHARACTERS
            if fits and not left_out:
                files.append(change)
                continue
        left_out += 1
    recording.tree.remember(looked_at)
    if recording.by_time and recording.clock_was_set_back:
        return None
    return Found(files, left_out)


class _TooMuch(Exception):
    """The paths take more memory than a cell is worth."""


class _Paths(dict[str, _Path]):
    """What is known of paths. Raises _TooMuch."""

    def __init__(self) -> None:
        self._bytes = 0

    def at(self, place: str, name: str) -> _Path:
        path = place + name
        if len(os.fsencode(path)) > LONGEST_PATH:
            return _Path()
        if (known := self.get(path)) is None:
            self._bytes += sys.getsizeof(path)
            if self._bytes > MOST_BYTES:
                raise _TooMuch
            known = self[path] = _Path()
        return known


def _compare(recording: Recording) -> _Paths:
    paths = _Paths()
    for node in _concerned(recording):
        before, after = recording.place_before(node), _place(node, recording.tree.root)
        _compare_one(node, before, after, recording.names.get(node, {}), paths)
    return paths


def _compare_one(
    node: Node, before: str | None, after: str | None, noted: dict[str, int], paths: _Paths
) -> None:
    if before == after:
        if before is None:
            return
        for name, flags in noted.items():
            path = paths.at(before, name)
            path.before |= bool(flags & EXISTED)
            path.written |= bool(flags & WRITTEN)
            if name in node.files:
                path.after = node, name
        return
    if before is not None:
        for name in node.files | noted.keys():
            if noted.get(name, EXISTED) & EXISTED:
                paths.at(before, name).before = True
    if after is not None:
        for name in node.files:
            path = paths.at(after, name)
            path.after, path.written = (node, name), True


def _concerned(recording: Recording) -> Iterator[Node]:
    """The directories with noted names, and all whose path is another than before."""
    seen: set[Node] = set()
    waiting = list(recording.places)
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            waiting += node.children.values()
            yield node
    for node in recording.names:
        if node not in seen:
            yield node


def _place(node: Node, root: Node | None) -> str | None:
    """The path of a directory, with a slash at its end; None if it is not there any more, or so deep
    that nobody can open it."""
    line = node.lineage()
    return joined([each.name for each in line[:-1]]) if line[-1] is root else None


def _look(
    recording: Recording, path: str, there: _Path, walk: Walk, looked_at: Times
) -> FileChange | None:
    change: Change = "changed" if there.before else "created"
    try:
        found = None if there.after is None else _stat(*there.after, walk)
    except Elsewhere:
        return _change(recording, path, change, None)  # its directory is just being moved
    if found is None or there.after is None:
        return _change(recording, path, "deleted", None) if there.before else None
    node, name = there.after
    if not there.written and not recording.is_fresh(node, name, found.st_ctime_ns):
        return None  # it was opened for writing, and nothing was written
    looked_at[node, name] = found.st_ctime_ns
    return _change(recording, path, change, found)


def _stat(node: Node, name: str, walk: Walk) -> os.stat_result | None:
    try:
        found = os.stat(name, dir_fd=walk.open(node), follow_symlinks=False)
    except OSError as e:
        if e.errno in NOT_THERE:
            return None
        raise
    return None if stat.S_ISDIR(found.st_mode) else found


def _change(recording: Recording, path: str, change: Change, found: os.stat_result | None) -> FileChange:
    raw = os.fsencode(path)
    # A link, a pipe or a socket has a name, and nothing that could be fetched.
    is_file = found is not None and stat.S_ISREG(found.st_mode)
    return FileChange(
        path=raw.decode("utf-8", "backslashreplace"),
        change=change,
        size=found.st_size if found is not None and is_file else None,
        mime_type=mime_type(path.rpartition("/")[2]),
        url=recording.url + quote(raw) if is_file else None,
    )
