"""Directories of a workspace as they are known, and how one is opened without leaving it.

A directory is a node with a parent and a name; its path is never stored, so it stays right when one
above it is moved. It is opened from the root down, one name at a time and following no link, and
every step is checked: what is there has to be the directory that is meant. The sandbox can swap
directories meanwhile; then the walk fails, and leads nowhere else.
"""

from __future__ import annotations

import errno
import os
from collections import OrderedDict
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from interpreter.workspace.watching.tree import Tree

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
NOT_THERE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ESTALE}
KEPT_OPEN = 32


class Elsewhere(Exception):
    """A directory is not where it was when it was last looked at."""


class Node:
    """A directory."""

    __slots__ = ("children", "files", "inode", "name", "number", "parent", "tree")

    def __init__(self, tree: Tree, number: int, inode: int, name: str) -> None:
        self.tree = tree
        self.number = number
        """What its events come with."""
        self.inode = inode
        self.parent: Node | None = None
        """None for a root, and for what is not in its tree any more."""
        self.name = name
        self.children: dict[str, Node] = {}
        self.files: set[str] = set()
        """The names in it that are no directories."""

    def lineage(self) -> list[Node]:
        """From itself up to where its chain of parents ends."""
        line, at = [self], self.parent
        while at is not None:
            line.append(at)
            at = at.parent
        return line


class Walk:
    """Opens directories, and keeps a few open for those below them. It is for one piece of work."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._open: OrderedDict[Node, int] = OrderedDict()

    def __enter__(self) -> Walk:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        for fd in self._open.values():
            os.close(fd)
        self._open.clear()

    def root(self) -> int:
        """The workspace itself; to be closed or handed to `keep`."""
        return os.open(self._path, DIRECTORY)

    def open(self, node: Node) -> int:
        """A descriptor that is good until some more were asked for. Raises Elsewhere."""
        root = node.tree.root
        if (fd := self._open.get(node)) is not None:
            self._open.move_to_end(node)
            return fd
        line = node.lineage()
        if line[-1] is not root:
            raise Elsewhere
        known = next((i for i, each in enumerate(line) if each in self._open), len(line))
        fd = self._open[line[known]] if known < len(line) else -1
        for each in reversed(line[:known]):
            fd = self._step(each, fd)
        return fd

    def _step(self, node: Node, above: int) -> int:
        try:
            fd = self.root() if node.parent is None else os.open(node.name, DIRECTORY, dir_fd=above)
        except OSError as e:
            if e.errno in NOT_THERE:
                raise Elsewhere from None
            raise
        if os.fstat(fd).st_ino != node.inode:
            os.close(fd)
            raise Elsewhere
        return self.keep(node, fd)

    def keep(self, node: Node, fd: int) -> int:
        """Takes over a descriptor of a directory."""
        if (before := self._open.pop(node, None)) is not None:
            os.close(before)
        self._open[node] = fd
        if len(self._open) > KEPT_OPEN:
            os.close(self._open.popitem(last=False)[1])
        return fd
