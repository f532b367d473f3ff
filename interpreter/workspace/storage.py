"""The contract between those who need workspaces and where these are kept.

A local directory keeps them now (`workspaces`). Something that keeps them on another machine would
fetch one in `open`, put it back in `rest`, and do the remaining things there; what is between the
two is a folder of this machine in any case, because a sandbox has it mounted.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from interpreter.models import Limits
from interpreter.workspace.tree import Tree
from interpreter.workspace.watching.watch import Watched

EnforcedBy = Literal["filesystem", "nothing"]


@dataclass(frozen=True)
class Workspace:
    """Where files are, and who holds them to their `disk_mb`."""

    path: Path
    disk_enforced_by: EnforcedBy


class Storage(ABC):
    """Keeps workspaces, each under an id that is never used again."""

    disk_enforced_by: EnforcedBy
    """What holds for workspaces made from now on."""
    not_enforced_because: str | None
    """Why that is nothing, for people; None when it is not."""
    here: bool
    """Whether the gateway can read the files of an open workspace."""

    @abstractmethod
    async def prepare(self) -> None:
        """Called once by the orchestrator at start, before anything else."""

    @abstractmethod
    def describe(self) -> str:
        """Called by `serve` to tell people, in one line, what holds sessions to their disk."""

    @abstractmethod
    async def create(self, id: str, megabytes: int) -> Workspace:
        """Called for every new sandbox, and when somebody wants a named workspace: an empty one that
        holds at most so much, open. Raises SandboxFailed."""

    @abstractmethod
    async def open(self, id: str) -> Workspace:
        """Called before one that was made earlier is used, by a sandbox or by the gateway; calling
        it again does no harm. Raises SandboxFailed."""

    @abstractmethod
    async def rest(self, id: str) -> int | None:
        """Called when nobody uses a named workspace any more, for the time being, and at start;
        returns the bytes of its files, or None when they are not known or it was at rest."""

    @abstractmethod
    async def tree(self, id: str, limits: Limits) -> Tree:
        """Called when somebody outside wants the files of one; to be closed. Raises FilesUnreachable."""

    @abstractmethod
    async def watch(self, id: str) -> Watched | None:
        """Called when a session has got a sandbox with one that is open: what cells change in it can be
        told from now on. None when that cannot be."""

    @abstractmethod
    async def used(self, id: str) -> int | None:
        """Called when an open one is looked at: the bytes of its files; None when unknown."""

    @abstractmethod
    async def grow(self, id: str, megabytes: int) -> bool:
        """Called to let one hold more, while a session uses it or while nobody does; False when it
        stays as it was."""

    @abstractmethod
    async def remove(self, id: str) -> int:
        """Called when its session, or it itself, is deleted; returns the bytes its files had.

        One that is not there is fine.
        """

    @abstractmethod
    async def sweep(self, known: Callable[[str], bool]) -> None:
        """Called at start and every few minutes: removes those that nobody knows."""

    @abstractmethod
    async def close(self, in_use: Set[str]) -> None:
        """Called when the gateway ends; sandboxes go on with those that are in use."""
