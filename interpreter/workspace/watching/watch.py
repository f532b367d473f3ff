"""Watching workspaces, from outside of their sandboxes, for what cells change in them.

Nobody listens while nothing runs: events wait in a queue of the kernel's, which is read without
waiting before a cell begins (what is in it is nobody's) and when it ends (what is in it is the cell's).
A cell that changes nothing costs two reads that find nothing. Little is worked off at once, anything
more in a thread. A queue that has run over costs one look through the workspace.

The kernel grants a user some 128 queues. Each workspace has its own as long as there are enough; then
some share one, and look through their files when one of the others lets it run over.
"""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import structlog

from interpreter.workspace.watching import inotify
from interpreter.workspace.watching.changes import NOTHING, Found
from interpreter.workspace.watching.recording import Recording
from interpreter.workspace.watching.tree import ALL_BYTES, Room, Tree
from interpreter.workspace.watching.work import (
    CHUNK,
    CatchUp,
    Close,
    End,
    Flood,
    Open,
    Outcomes,
    Step,
    Worker,
)

log = structlog.get_logger()

QUEUES = 64
THREADS = 4
CHUNKS = 4
"""More than so many at once are not read: looking is quicker."""
FEW_BYTES = 2048
FEW_NAMES = 16
"""What is worked off without a thread."""
HEAVY = inotify.IS_DIRECTORY | inotify.OVERFLOW

Answer = Found | None
"""What a cell has changed; None when that is not known for sure."""


class Watcher:
    """Watches workspaces. All its calls are made on the event loop."""

    def __init__(self, queues: int = QUEUES, most_bytes: int = ALL_BYTES) -> None:
        self._most_queues = queues
        self._queues: list[Queue] = []
        self._room = Room(inotify.most_watches() // 2, most_bytes)
        self._threads = ThreadPoolExecutor(THREADS, "changes")

    async def watch(self, path: Path) -> Watched | None:
        """None when it cannot be watched, or has too much in it; the log says why."""
        try:
            queue = self._queue()
        except OSError as e:
            log.warning("changes of files are not told", workspace=path.name, reason=e.strerror)
            return None
        watched = Watched(queue, queue.tree(path))
        try:
            await watched.open()
        except BaseException:
            await asyncio.shield(watched.close())
            raise
        if watched.given_up:
            await watched.close()
            return None
        return watched

    def _queue(self) -> Queue:
        """One of its own, or the one that the fewest share."""
        self._queues = [queue for queue in self._queues if queue.in_use]
        try:
            if len(self._queues) < self._most_queues:
                self._queues.append(Queue(self._room, self._threads))
                return self._queues[-1]
        except OSError:
            if not self._queues:
                raise
        return min(self._queues, key=lambda queue: queue.in_use)

    def close(self) -> None:
        self._threads.shutdown(wait=False)


class Watched:
    """One workspace while it is watched."""

    def __init__(self, queue: Queue, tree: Tree) -> None:
        self._queue = queue
        self._tree = tree
        self._closed = False

    @property
    def given_up(self) -> bool:
        return self._tree.given_up is not None

    async def open(self) -> None:
        await self._queue.do(Open(self._tree))

    def catch_up(self) -> asyncio.Future[None] | None:
        """Called before `begin`: takes in what happened since the last cell, and watches directories
        that are new. None when that is done, else what to wait for before it is called again."""
        return None if self._closed or self.given_up else self._queue.catch_up(self._tree)

    def begin(self, url: str) -> Recording | None:
        """Called right before a cell is sent to its kernel; None when its changes will not be known.

        `url` is what stands before the path of a file in its URL."""
        if self._closed or self.given_up:
            return None
        if not self._queue.at_rest or self._tree.missed:
            return None
        recording = Recording(self._tree, url)
        self._tree.recordings.append(recording)
        return recording

    def end(self, recording: Recording) -> Answer | asyncio.Future[Answer]:
        """Called when that cell has ended: what it changed, at once or in a moment."""
        return None if self._closed else self._queue.end(recording)

    async def close(self) -> None:
        """May be called twice."""
        if not self._closed:
            self._closed = True
            await self._queue.drop(self._tree)


class Queue:
    """One queue of events, and the workspaces whose events it has."""

    def __init__(self, room: Room, threads: ThreadPoolExecutor) -> None:
        self._worker = Worker(inotify.open_queue())
        self._room = room
        self._threads = threads
        self._loop = asyncio.get_running_loop()
        self._steps: list[Step] = []
        """What was not done yet."""
        self._work: asyncio.Future[Outcomes] | None = None
        """What is being done in a thread."""
        self._waiting: dict[Recording, asyncio.Future[Answer]] = {}
        self._rest: asyncio.Future[None] | None = None
        """Completes when nothing is being done and nothing is to be done."""

    @property
    def in_use(self) -> int:
        return len(self._worker.trees)

    @property
    def at_rest(self) -> bool:
        return self._work is None and not self._steps

    def tree(self, path: Path) -> Tree:
        tree = Tree(path, self._worker.queue, self._worker.nodes, self._room)
        self._worker.trees.add(tree)
        return tree

    async def drop(self, tree: Tree) -> None:
        self._worker.trees.discard(tree)
        last = not self.in_use
        await self.do(Close(tree, unwatch=not last))
        if last:
            queue, self._worker.queue = self._worker.queue, -1
            # The kernel takes its time to let go of many watches.
            await self._loop.run_in_executor(self._threads, os.close, queue)

    async def do(self, step: Step) -> None:
        """Returns when it is done."""
        self._steps.append(step)
        await asyncio.shield(self._start())

    def catch_up(self, tree: Tree) -> asyncio.Future[None] | None:
        self._read()
        if self.at_rest and not tree.missed:
            return None
        little = self._work is None and not tree.missed and self._is_little()
        self._steps.append(CatchUp(tree))
        if little:
            self._do_now()
            return None
        return self._start()

    def end(self, recording: Recording) -> Answer | asyncio.Future[Answer]:
        self._read()
        tree = recording.tree
        if self.at_rest and recording.empty and not tree.missed:
            tree.end(recording)
            return NOTHING if recording.whole and tree.given_up is None else None
        few = recording.noted <= FEW_NAMES and not recording.places and not tree.missed
        little = self._work is None and few and self._is_little()
        self._steps.append(End(recording))
        if little:
            return self._do_now()[recording]
        done = self._waiting[recording] = self._loop.create_future()
        self._start()
        return done

    def _read(self) -> None:
        for _ in range(CHUNKS):
            try:
                raw = os.read(self._worker.queue, CHUNK)
            except OSError:  # there is nothing
                return
            self._steps.append(raw)
            if len(raw) < CHUNK - inotify.LONGEST:
                return
        self._steps.append(Flood())

    def _is_little(self) -> bool:
        """A few files, and no directories."""
        raw = b"".join(step for step in self._steps if isinstance(step, bytes))
        if len(raw) > FEW_BYTES or any(not isinstance(step, bytes) for step in self._steps):
            return False
        return not any(mask & HEAVY for _, mask, _ in inotify.events(raw))

    def _do_now(self) -> Outcomes:
        steps, self._steps = self._steps, []
        return self._worker.do(steps)

    def _start(self) -> asyncio.Future[None]:
        """Has everything done in a thread."""
        if self._rest is None:
            self._rest = self._loop.create_future()
        if self._work is None:
            steps, self._steps = self._steps, []
            self._work = self._loop.run_in_executor(self._threads, self._worker.do, steps)
            self._work.add_done_callback(self._worked)
        return self._rest

    def _worked(self, work: asyncio.Future[Outcomes]) -> None:
        self._work = None
        try:
            outcomes = work.result()
        except Exception:
            log.exception("changes of files could not be found")
            outcomes = dict.fromkeys(self._waiting)
        for recording, answer in outcomes.items():
            if not (waiting := self._waiting.pop(recording)).done():
                waiting.set_result(answer)
        if self._steps:
            self._start()
        elif self._rest is not None:
            self._rest.set_result(None)
            self._rest = None
