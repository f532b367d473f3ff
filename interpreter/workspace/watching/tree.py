"""What is known of a workspace, kept true by the events that Linux tells.

Names are known, not contents. Events are old when they are read: what they speak of may have changed
again. So a directory that an event names is looked at as it is now, and told by its watch's number
from others; whatever happened to it since is told by events that are still to come. In the end what
is known is what is there.

A new directory is watched first and listed then, so that nothing is missed in between. When events
were lost, everything is listed again.

The sandbox makes what it wants of its workspace. What is kept of it is bounded, and so is the time
that a piece of work takes; a workspace that goes beyond is given up.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import threading
import time
from pathlib import Path

from interpreter.workspace.watching import inotify
from interpreter.workspace.watching.recording import GRANULARITY, Recording
from interpreter.workspace.watching.walk import DIRECTORY, NOT_THERE, Elsewhere, Node, Walk

LEFT_OUT = frozenset({"__pycache__", ".ipynb_checkpoints"})
"""Directories that nobody wants to hear of."""
MOST_BYTES = 24_000_000
"""Of names, and what it takes to keep them: some 200,000 of ordinary length."""
ALL_BYTES = 200_000_000
"""The same of all workspaces together."""
KEEPING, KEEPING_DIRECTORY = 50, 550
"""Bytes that a name takes besides itself."""
GRANT = 256 * 1024
"""Bytes that a workspace gets at a time."""
MOST_DIRECTORIES = 16_384
DEEPEST = 256
WORK_SECONDS = 10.0
PATIENCE = 3
"""How often what moves while it is looked at is looked at again."""


Times = dict[tuple[Node, str], int]
"""When files were last changed, by their file system's clock."""


class GivenUp(Exception):
    """A workspace cannot be watched any more; says why."""


class Room:
    """How much more may be watched, by all workspaces together: directories, and bytes of memory."""

    def __init__(self, directories: int, bytes: int) -> None:
        self._directories = directories
        self._bytes = bytes
        self._lock = threading.Lock()

    def take(self, *, directories: int = 0, bytes: int = 0) -> None:
        with self._lock:
            if directories > self._directories:
                raise GivenUp("all workspaces together have too many directories")
            if bytes > self._bytes:
                raise GivenUp("all workspaces together have too many files")
            self._directories -= directories
            self._bytes -= bytes

    def give_back(self, *, directories: int = 0, bytes: int = 0) -> None:
        with self._lock:
            self._directories += directories
            self._bytes += bytes


class Tree:
    """One workspace. `nodes` has the directories of everyone who has the same queue, by number."""

    def __init__(self, path: Path, queue: int, nodes: dict[int, Node], room: Room) -> None:
        self.path = path
        self.root: Node | None = None
        self.recordings: list[Recording] = []
        """Of the cells that run."""
        self.missed = False
        """Whether events were lost since it was last looked through."""
        self.lately: Times = {}
        """When files were changed that a cell changed a moment ago."""
        self.given_up: str | None = None
        self.own: set[Node] = set()
        self._queue = queue
        self._nodes = nodes
        self._room = room
        self._bytes = self._granted = 0
        self._adrift: dict[Node, None] = {}
        """Directories that left their place; whether they come to another is still to be seen."""
        self._doubtful: dict[tuple[Node, str], None] = {}
        """Names that were moved away. Two that were exchanged are still there."""
        self._unsure: dict[Node, None] = {}
        """Directories that could not be reached."""
        self._deadline = 0.0

    @property
    def unsettled(self) -> bool:
        return bool(self._adrift or self._doubtful or self._unsure)

    def begin_work(self) -> None:
        self._deadline = time.monotonic() + WORK_SECONDS

    def end(self, recording: Recording) -> None:
        if recording in self.recordings:
            self.recordings.remove(recording)

    # -- what it is told

    def open(self, walk: Walk) -> None:
        """Begins to watch it, with all that is in it."""
        fd = walk.root()
        node = self._adopt(fd, None, "")
        self.root = node
        walk.keep(node, fd)
        self._look_through(node, walk)
        self.settle(walk)

    def take(self, node: Node, mask: int, name: str, walk: Walk) -> None:
        """Something happened to a name in a directory."""
        if mask & inotify.IS_DIRECTORY:
            self._take_directory(node, mask, name, walk)
            return
        if mask & inotify.IGNORED:
            if node is self.root:
                raise GivenUp("it is not where it was")
            return
        known = name in node.files
        if mask & (inotify.DELETE | inotify.MOVED_FROM):
            self._remove(node, name)
            if mask & inotify.MOVED_FROM:
                self._doubtful[node, name] = None
        elif mask & (inotify.CREATE | inotify.MOVED_TO):
            self._touch(node, name, known and not mask & inotify.CREATE)
            self._add(node, name)
        elif known:
            self._touch(node, name, True, written=bool(mask & inotify.MODIFY))

    def _take_directory(self, node: Node, mask: int, name: str, walk: Walk) -> None:
        if name in LEFT_OUT:
            return
        if mask & (inotify.CREATE | inotify.MOVED_TO):
            child, new = self._place(node, name, walk)
            if child is not None and new:
                self._look_through(child, walk)
        elif mask & (inotify.DELETE | inotify.MOVED_FROM):
            if (left := node.children.get(name)) is not None:
                self._detach(left)
            if mask & inotify.MOVED_FROM:
                self._doubtful[node, name] = None

    def settle(self, walk: Walk) -> None:
        """All events of a time were taken: what they left open is looked at."""
        for _ in range(PATIENCE):
            if not self._doubtful and not self._unsure:
                break
            doubtful, self._doubtful = self._doubtful, {}
            for node, name in doubtful:
                self._look_at(node, name, walk)
            unsure, self._unsure = self._unsure, {}
            for node in unsure:
                if node in self.own and node not in self._adrift:
                    self._look_through(node, walk, again=True)
        else:
            # Somebody goes on moving things about. It is all looked through when that has ended.
            self._doubtful.clear()
            self._unsure.clear()
            self.missed = True
        while self._adrift:
            self._drop(self._adrift.popitem()[0])

    def look_through(self, walk: Walk) -> None:
        """Events were lost: names are compared with what is there, and times with the cells' own."""
        assert self.root is not None
        self.missed = False
        self._doubtful.clear()
        self._unsure.clear()
        for recording in self.recordings:
            recording.by_time = True
        self._look_through(self.root, walk, again=True)
        self.settle(walk)

    def remember(self, changed_at: Times) -> None:
        """These changes are a cell's; they are not those of the next one that begins."""
        moment = time.time_ns() - 2 * GRANULARITY
        times = {**self.lately, **changed_at}
        self.lately = {file: at for file, at in times.items() if at >= moment}

    def close(self, *, unwatch: bool) -> None:
        """Forgets everything. What is left of the watches goes with the queue, unless it stays."""
        for node in self.own:
            if self._nodes.get(node.number) is node:
                del self._nodes[node.number]
                if unwatch:
                    inotify.unwatch(self._queue, node.number)
        self._room.give_back(directories=len(self.own), bytes=self._granted)
        self._bytes = self._granted = 0
        for known in (self.own, self._adrift, self._doubtful, self._unsure):
            known.clear()
        self.lately.clear()
        self.recordings.clear()
        self.root = None

    # -- looking

    def _look_at(self, node: Node, name: str, walk: Walk) -> None:
        try:
            found = os.stat(name, dir_fd=walk.open(node), follow_symlinks=False)
        except Elsewhere:
            return  # the directory is gone or elsewhere, and that is told by other events
        except OSError as e:
            if e.errno in NOT_THERE:
                return
            raise
        if stat.S_ISDIR(found.st_mode):
            self._take_directory(node, inotify.CREATE, name, walk)
        elif name not in node.files:
            self._touch(node, name, False)
            self._add(node, name)

    def _look_through(self, first: Node, walk: Walk, *, again: bool = False) -> None:
        """Lists a directory that is new, and what is new below it; `again`, all that is below it."""
        waiting = [first]
        while waiting:
            waiting += self._list(waiting.pop(), walk, again)

    def _list(self, node: Node, walk: Walk, again: bool) -> list[Node]:
        try:
            entries = os.scandir(walk.open(node))
        except Elsewhere:
            self._unsure[node] = None
            return []
        self._check_time()
        files, directories, further = set(), set(), []
        oldest = min((recording.since for recording in self.recordings), default=None)
        with entries:
            for entry in entries:
                name = entry.name
                if not entry.is_dir(follow_symlinks=False):
                    files.add(name)
                    if name not in node.files:
                        self._touch(node, name, False)
                        self._add(node, name)
                    elif again and oldest is not None:
                        self._look_at_time(node, entry, oldest - GRANULARITY)
                    if not len(files) % 1000:
                        self._check_time()
                elif name not in LEFT_OUT:
                    directories.add(name)
                    child, new = self._place(node, name, walk)
                    if child is not None and (new or again):
                        further.append(child)
        for name in node.files - files:
            self._remove(node, name)
        for name in node.children.keys() - directories:
            self._detach(node.children[name])
        return further

    def _look_at_time(self, node: Node, entry: os.DirEntry[str], since: int) -> None:
        try:
            changed_at = entry.stat(follow_symlinks=False).st_ctime_ns
        except OSError:
            return  # it is gone again
        if changed_at < since:
            return
        for recording in self.recordings:
            if recording.is_fresh(node, entry.name, changed_at):
                recording.touch(node, entry.name, existed=True, written=True)

    def _check_time(self) -> None:
        if time.monotonic() > self._deadline:
            raise GivenUp(f"it took longer than {WORK_SECONDS:g} s to look through it")

    # -- directories

    def _place(self, parent: Node, name: str, walk: Walk) -> tuple[Node | None, bool]:
        """Looks at what is in a directory's place: the directory that is there now, and whether it was
        not known before."""
        try:
            fd = os.open(name, DIRECTORY, dir_fd=walk.open(parent))
        except Elsewhere:
            self._unsure[parent] = None
            return None, False
        except PermissionError:
            raise GivenUp("a directory in it may not be read") from None
        except OSError as e:
            if e.errno in NOT_THERE:
                return None, False  # which is told by an event that is still to come
            raise
        try:
            known = self._nodes.get(self._watch(fd))
            if known is None or known.tree is not self:
                child = self._adopt(fd, parent, name)
            else:
                child = known
                self._move(known, parent, name)
        except BaseException:
            os.close(fd)
            raise
        walk.keep(child, fd)
        return child, child is not known

    def _watch(self, fd: int) -> int:
        try:
            return inotify.watch(self._queue, fd)
        except PermissionError:
            raise GivenUp("a directory in it may not be read") from None
        except OSError as e:
            if e.errno == errno.ENOSPC:
                raise GivenUp("fs.inotify.max_user_watches is used up") from None
            raise

    def _adopt(self, fd: int, parent: Node | None, name: str) -> Node:
        """Takes in a directory that was not known."""
        if len(self.own) >= MOST_DIRECTORIES:
            raise GivenUp(f"it has more than {MOST_DIRECTORIES:,} directories")
        if parent is not None and len(parent.lineage()) > DEEPEST:
            raise GivenUp(f"it is deeper than {DEEPEST} directories")
        self._check_time()
        node = Node(self, self._watch(fd), os.fstat(fd).st_ino, name)
        self._room.take(directories=1)
        self.own.add(node)
        self._keep(KEEPING_DIRECTORY + sys.getsizeof(name))
        self._nodes[node.number] = node
        for recording in self.recordings:
            recording.move(node, None)
        if parent is not None:
            self._attach(node, parent, name)
        return node

    def _move(self, node: Node, parent: Node, name: str) -> None:
        if node.parent is parent and node.name == name:
            return
        line = parent.lineage()
        if node in line:
            self.missed = True  # it was moved while it was looked at
            return
        if len(line) > DEEPEST:
            raise GivenUp(f"it is deeper than {DEEPEST} directories")
        if node.parent is not None:
            self._detach(node)
        self._attach(node, parent, name)

    def _attach(self, node: Node, parent: Node, name: str) -> None:
        if (before := parent.children.get(name)) is not None:
            self._detach(before)
        self._adrift.pop(node, None)
        self._keep(sys.getsizeof(name) - sys.getsizeof(node.name))
        node.parent, node.name = parent, name
        parent.children[name] = node

    def _detach(self, node: Node) -> None:
        assert node.parent is not None
        for recording in self.recordings:
            recording.move(node, (node.parent, node.name))
        del node.parent.children[node.name]
        node.parent = None
        self._adrift[node] = None

    def _drop(self, node: Node) -> None:
        """A directory is gone, with all that was in it."""
        gone = [node]
        while gone:
            node = gone.pop()
            gone += node.children.values()
            for name in list(node.files):
                self._remove(node, name)
            for recording in self.recordings:
                recording.forget(node)
            node.files.clear()
            if self._nodes.get(node.number) is node:
                del self._nodes[node.number]
                inotify.unwatch(self._queue, node.number)
            self.own.discard(node)
            self._room.give_back(directories=1)
            self._keep(-KEEPING_DIRECTORY - sys.getsizeof(node.name))

    # -- names

    def _add(self, node: Node, name: str) -> None:
        if name not in node.files:
            node.files.add(name)
            self._keep(KEEPING + sys.getsizeof(name))

    def _remove(self, node: Node, name: str) -> None:
        known = name in node.files
        self._touch(node, name, known)
        if known:
            node.files.discard(name)
            self._keep(-KEEPING - sys.getsizeof(name))
        for recording in self.recordings:
            recording.untouch(node, name)

    def _keep(self, more: int) -> None:
        """So many bytes of memory are taken, or free again."""
        self._bytes += more
        if self._bytes > MOST_BYTES:
            raise GivenUp("it has too many files")
        while self._bytes > self._granted:
            self._room.take(bytes=GRANT)
            self._granted += GRANT
        while self._granted - self._bytes > 2 * GRANT:
            self._granted -= GRANT
            self._room.give_back(bytes=GRANT)

    def _touch(self, node: Node, name: str, existed: bool, *, written: bool = True) -> None:
        for recording in self.recordings:
            recording.touch(node, name, existed, written)
