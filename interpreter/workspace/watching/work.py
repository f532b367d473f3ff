"""What there is to do about watched workspaces, and the one who does it, step by step in order.

Steps are in the order in which things happened: what was read from the queue, a cell that ended. They
are done on the event loop when it is little, else in a thread; never by two at once.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import structlog

from interpreter.workspace.watching import inotify
from interpreter.workspace.watching.changes import Found, changes
from interpreter.workspace.watching.recording import Recording
from interpreter.workspace.watching.tree import GivenUp, Tree
from interpreter.workspace.watching.walk import Node, Walk

log = structlog.get_logger()

CHUNK = 64 * 1024
THROWN_AWAY = 128
"""Chunks of events that are thrown away at most before a workspace is looked through."""


@dataclass(frozen=True)
class Open:
    """A workspace is watched from now on."""

    tree: Tree


@dataclass(frozen=True)
class End:
    """A cell has ended."""

    recording: Recording

    @property
    def tree(self) -> Tree:
        return self.recording.tree


@dataclass(frozen=True)
class CatchUp:
    """A cell is about to begin."""

    tree: Tree


@dataclass(frozen=True)
class Close:
    """A workspace is not watched any more."""

    tree: Tree
    unwatch: bool


class Flood:
    """There are more events than are worth reading."""


Step = bytes | Flood | Open | End | CatchUp | Close
Outcomes = dict[Recording, Found | None]
Walks = Callable[[Tree], Walk]


class Worker:
    """Does the steps of one queue."""

    def __init__(self, queue: int) -> None:
        self.queue = queue
        self.nodes: dict[int, Node] = {}
        """All directories that are watched with this queue."""
        self.trees: set[Tree] = set()

    def do(self, steps: list[Step]) -> Outcomes:
        """Returns what the cells that ended have changed, None where it is not known."""
        outcomes: Outcomes = {step.recording: None for step in steps if isinstance(step, End)}
        with contextlib.ExitStack() as opened:
            walks: dict[Tree, Walk] = {}

            def walk(tree: Tree) -> Walk:
                if tree not in walks:
                    walks[tree] = opened.enter_context(Walk(tree.path))
                    tree.begin_work()
                return walks[tree]

            for step in steps:
                if isinstance(step, Flood):
                    self._missed()
                elif isinstance(step, bytes):
                    self._take(step, walk)
                else:
                    for tree in [tree for tree in self.trees if tree.unsettled]:
                        with self._giving_up(tree):
                            tree.settle(walk(tree))
                    with self._giving_up(step.tree):
                        self._do(step, walk, outcomes)
        return outcomes

    def _do(self, step: Open | End | CatchUp | Close, walk: Walks, outcomes: Outcomes) -> None:
        match step:
            case Open(tree):
                tree.open(walk(tree))
            case End(recording):
                outcomes[recording] = self._end(recording, walk)
            case CatchUp(tree):
                if tree.missed and tree.given_up is None:
                    self._look_through(tree, walk(tree))
            case Close(tree, unwatch):
                tree.close(unwatch=unwatch)

    def _take(self, raw: bytes, walk: Walks) -> None:
        for number, mask, name in inotify.events(raw):
            if mask & inotify.OVERFLOW:
                self._missed()
            elif (node := self.nodes.get(number)) is not None:
                try:
                    node.tree.take(node, mask, name, walk(node.tree))
                except Exception as e:
                    self._give_up(node.tree, e)

    def _end(self, recording: Recording, walk: Walks) -> Found | None:
        tree = recording.tree
        try:
            if tree.given_up is not None:
                return None
            if tree.missed:
                self._look_through(tree, walk(tree))
            return None if tree.missed else changes(recording, walk(tree))
        finally:
            tree.end(recording)

    def _look_through(self, tree: Tree, walk: Walk) -> None:
        # What is in the queue is older than what will be found.
        with contextlib.suppress(BlockingIOError):
            for _ in range(THROWN_AWAY):
                os.read(self.queue, CHUNK)
                self._missed()
        tree.look_through(walk)

    def _missed(self) -> None:
        for tree in list(self.trees):
            tree.missed = True

    @contextlib.contextmanager
    def _giving_up(self, tree: Tree) -> Iterator[None]:
        try:
            yield
        except Exception as e:
            self._give_up(tree, e)

    def _give_up(self, tree: Tree, error: Exception) -> None:
        """It is not watched any more, and what its cells change is not known."""
        tree.given_up = str(error) or type(error).__name__
        tree.close(unwatch=True)
        told = log.warning if isinstance(error, GivenUp) else log.exception
        told("changes of files are not told any more", workspace=tree.path.name, reason=tree.given_up)
