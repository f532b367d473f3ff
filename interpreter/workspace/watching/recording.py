"""What is noted of a workspace while a cell runs: which names something happened to, and whether
they were there before. Directories that were made, moved or removed are noted with their old place.

Nothing else of the time before is kept, so a cell costs what it does and not what there is.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from interpreter.workspace.paths import LONGEST_PATH
from interpreter.workspace.watching.walk import Node

if TYPE_CHECKING:
    from interpreter.workspace.watching.tree import Tree

EXISTED, WRITTEN = 1, 2
GRANULARITY = 10_000_000
"""Nanoseconds by which a file system's clock may lag behind."""
MOST_NOTED = 400_000

Place = tuple[Node, str]
"""A directory's parent and its name there."""


class Recording:
    """Made when a cell begins."""

    def __init__(self, tree: Tree, url: str) -> None:
        self.tree = tree
        self.url = url
        """What stands before the path of a file in its URL."""
        self.whole = True
        """Whether nothing of it was missed."""
        self.by_time = False
        """Whether the time of a file's last change decided anything."""
        self.names: dict[Node, dict[str, int]] = {}
        """Directory → name → EXISTED when it was there before, WRITTEN when it was surely changed."""
        self.places: dict[Node, Place | None] = {}
        """Where a directory was that is somewhere else now; None for one that is new."""
        self.since = time.time_ns()
        self._noted = 0
        self._monotonic = time.monotonic_ns()

    @property
    def empty(self) -> bool:
        return not self._noted

    @property
    def noted(self) -> int:
        return self._noted

    def touch(self, node: Node, name: str, existed: bool, written: bool) -> None:
        names = self.names.setdefault(node, {})
        if name in names:
            names[name] |= WRITTEN * written
        else:
            names[name] = EXISTED * existed | WRITTEN * written
            self._add()

    def untouch(self, node: Node, name: str) -> None:
        """A name is gone; if it was not there before, nothing happened."""
        names = self.names.get(node, {})
        if name in names and not names[name] & EXISTED:
            del names[name]
            self._noted -= 1

    def move(self, node: Node, place: Place | None) -> None:
        """A directory is about to leave its place, or is new."""
        if node not in self.places:
            self.places[node] = place
            self._add()

    def forget(self, node: Node) -> None:
        """A directory is gone; if it was not there before, nothing happened."""
        if node in self.places and self.places[node] is None:
            del self.places[node]
            self._noted -= 1 + len(self.names.pop(node, {}))

    def _add(self) -> None:
        self._noted += 1
        if self._noted > MOST_NOTED:
            self.whole = False
            self.names.clear()
            self.places.clear()
            self._noted = 1

    def is_fresh(self, node: Node, name: str, changed_at: int) -> bool:
        """Whether a file that was last changed then was changed meanwhile."""
        self.by_time = True
        if changed_at >= self.since:
            return True
        known = self.tree.lately.get((node, name))
        return changed_at >= self.since - GRANULARITY and known != changed_at

    @property
    def clock_was_set_back(self) -> bool:
        passed = time.monotonic_ns() - self._monotonic
        return time.time_ns() - self.since < passed - GRANULARITY

    def place_before(self, node: Node) -> str | None:
        """The path that a directory had at the beginning, with a slash at its end; None if it was not
        there, or so deep that nobody can open it."""
        names: list[str] = []
        at: Node | None = node
        while at is not None and at is not self.tree.root:
            at, name = self.places.get(at, (at.parent, at.name)) or (None, "")
            names.append(name)
        return None if at is None else joined(names)


def joined(names: list[str]) -> str | None:
    """The path of a directory from its name and those above it, upwards; None if it is too long."""
    path = "".join(f"{name}/" for name in reversed(names))
    return path if len(os.fsencode(path)) <= LONGEST_PATH else None
