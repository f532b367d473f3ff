"""What a cell changed: the names that were noted while it ran, held against what is there at its end.

It is a comparison of before and after, path by path. A file that was made and removed again is
nothing; one that was removed and made again is changed; one in a directory that was moved is deleted
there and created here. Only what is listed is looked at, and no contents are read.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote

from interpreter.models.executions import Change, FileChange
from interpreter.workspace.mime import mime_type
from interpreter.workspace.watching.recording import EXISTED, WRITTEN, Recording
from interpreter.workspace.watching.tree import Times
from interpreter.workspace.watching.walk import NOT_THERE, Elsewhere, Node, Walk

MOST_LISTED = 1000


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
    paths = _compare(recording)
    looked_at: Times = {}
    files: list[FileChange] = []
    left_out = 0
    for path in sorted(paths):
        there = paths[path]
        unsure = there.before and there.after is not None and not there.written
        if len(files) < MOST_LISTED or unsure:
            change = _look(recording, path, there, walk, looked_at)
            if change is None:
                continue
            if len(files) < MOST_LISTED:
                files.append(change)
                continue
        left_out += 1
    recording.tree.remember(looked_at)
    if recording.by_time and recording.clock_was_set_back:
        return None
    return Found(files, left_out)


def _compare(recording: Recording) -> dict[str, _Path]:
    paths: dict[str, _Path] = {}
    before_of: dict[Node, str | None] = {}
    for node in _concerned(recording):
        before, after = recording.place_before(node, before_of), _place(node, recording.tree.root)
        noted = recording.names.get(node, {})
        if before == after:
            if before is None:
                continue
            for name, flags in noted.items():
                path = paths.setdefault(before + name, _Path())
                path.before |= bool(flags & EXISTED)
                path.written |= bool(flags & WRITTEN)
                if name in node.files:
                    path.after = node, name
            continue
        if before is not None:
            for name in node.files | noted.keys():
                if noted.get(name, EXISTED) & EXISTED:
                    paths.setdefault(before + name, _Path()).before = True
        if after is not None:
            for name in node.files:
                path = paths.setdefault(after + name, _Path())
                path.after, path.written = (node, name), True
    return paths


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
    """The path of a directory, with a slash at its end; None if it is not there any more."""
    line = node.lineage()
    if line[-1] is not root:
        return None
    return "".join(f"{each.name}/" for each in reversed(line[:-1]))


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
