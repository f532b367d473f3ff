"""Watching workspaces, from outside of their sandboxes, for what cells change in them.

Nobody listens while nothing runs: events wait in a queue of the kernel's, which is read without
waiting when a cell begins (what is in it is nobody's) and when it ends (what is in it is the cell's).
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

from interpreter.workspace import inotify
from interpreter.workspace.changes import NOTHING, Found
from interpreter.workspace.recording import Recording
from interpreter.workspace.tree import Room, Tree
from interpreter.workspace.work import (
    CHUNK,
    Begin,
    Close,
    End,
    Flood,
    LookThrough,
    Open,
    Outcomes,
    Step,
    Worker,
    begin,
    end,
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

    def __init__(self, queues: int = QUEUES) -> None:
        self._most_queues = queues
        self._queues: list[Queue] = []
        self._room = Room(inotify.most_watches() // 2)
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

    def begin(self, url: str) -> Recording | None:
        """Called right before a cell is sent to its kernel; None when its changes will not be known.

        `url` is what stands before the path of a file in its URL."""
        if self._closed or self.given_up:
            return None
        recording = Recording(self._tree, url)
        self._queue.begin(recording)
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
        self._rested = asyncio.Event()
        self._rested.set()

    @property
    def in_use(self) -> int:
        return len(self._worker.trees)

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
        self._start()
        while not self._rested.is_set():
            await self._rested.wait()

    def begin(self, recording: Recording) -> None:
        self._read()
        if self._steps or self._work is not None:
            self._steps.append(Begin(recording))
        else:
            begin(recording)

    def end(self, recording: Recording) -> Answer | asyncio.Future[Answer]:
        self._read()
        tree = recording.tree
        at_rest = self._work is None
        if at_rest and not self._steps and recording.empty and not tree.missed:
            end(recording)
            return NOTHING if recording.whole and tree.given_up is None else None
        little = at_rest and self._is_little(recording)
        self._steps.append(End(recording))
        if little:
            steps, self._steps = self._steps, []
            return self._worker.do(steps)[recording]
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

    def _is_little(self, recording: Recording) -> bool:
        """A few files, and no directories."""
        if recording.noted > FEW_NAMES or recording.places or recording.tree.missed:
            return False
        if any(not isinstance(step, bytes | Begin) for step in self._steps):
            return False
        raw = b"".join(step for step in self._steps if isinstance(step, bytes))
        if len(raw) > FEW_BYTES:
            return False
        return not any(mask & HEAVY for _, mask, _ in inotify.events(raw))

    def _start(self) -> None:
        if self._work is None and self._steps:
            steps, self._steps = self._steps, []
            self._rested.clear()
            self._work = self._loop.run_in_executor(self._threads, self._worker.do, steps)
            self._work.add_done_callback(self._worked)

    def _worked(self, work: asyncio.Future[Outcomes]) -> None:
        self._work = None
        for recording, answer in work.result().items():
            if not (waiting := self._waiting.pop(recording)).done():
                waiting.set_result(answer)
        # What others let run over is looked through while nothing runs there.
        begun = {step.tree for step in self._steps if isinstance(step, Begin)}
        for tree in self._worker.trees - begun:
            if tree.missed and not tree.recordings and tree.given_up is None:
                self._steps.append(LookThrough(tree))
        if any(not isinstance(step, bytes | Flood | Begin) for step in self._steps):
            self._start()
        else:
            self._rested.set()
