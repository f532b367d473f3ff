"""The contract between those who want a sandbox and the places where one can run.

A runtime starts a sandbox and hands back one byte stream into it. Everything else (kernels,
messages, signals, exits) travels on that stream and is the same for every runtime. What a
runtime remembers of a sandbox is a JSON value in `Sandbox.handle`: the store keeps it, and a
gateway that starts again finds its sandboxes with it.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from interpreter.models import ExecutionUsage, Limits, Usage

Progress = Callable[[str], None]
"""Is told, in a sentence, what a long piece of work is doing."""


@dataclass(frozen=True)
class Sandbox:
    """A running sandbox."""

    id: str
    environment: str
    limits: Limits
    """What it was started with."""
    isolation: str
    limits_enforced_by: str
    handle: dict[str, Any]
    """What the runtime needs to find it again. JSON; opaque to everyone else."""


@dataclass(frozen=True)
class Capacity:
    """What the machine that sandboxes run on has."""

    memory_mb: int
    cpus: int


Found = Literal["running", "paused"]
INPUTS = "/data/input"
"""Where a sandbox sees the files that it is given to read."""


class FilesElsewhere(ABC):
    """Workspaces that a runtime keeps where the gateway does not see them, by session."""

    why: str
    """Why they are not here, for people."""

    @abstractmethod
    async def remove(self, id: str) -> None:
        """Called when a session is deleted; one that is not there is fine."""

    @abstractmethod
    async def ids(self) -> set[str]:
        """Called at start: whose there are."""


class Meter(ABC):
    """Measures what a sandbox uses while a cell runs. Quick enough for the event loop."""

    @abstractmethod
    def begin(self) -> None:
        """Called right before a cell is sent to its kernel."""

    @abstractmethod
    def end(self) -> ExecutionUsage | None:
        """Called when that cell has ended; None when it cannot be told."""

    @abstractmethod
    def close(self) -> None:
        """Called when the session ends or the gateway stops; may be called twice."""


class Runtime(ABC):
    """A place where sandboxes run."""

    name: str
    isolation: str
    """The isolation that sandboxes started now get: 'bubblewrap', 'none', …"""
    capacity: Capacity
    """Known once it is prepared."""
    files_elsewhere: FilesElsewhere | None = None
    """Set by `prepare` where sandboxes cannot have a folder of this machine as their workspace."""
    no_inputs_because: str | None = None
    """Set by `prepare` where sandboxes cannot have a folder that they only read: why."""

    @abstractmethod
    def describe(self) -> str:
        """Called by `serve` to tell people, in one line, how isolated sessions are."""

    @abstractmethod
    async def prepare(self, progress: Progress) -> None:
        """Called once by `serve` before anything else: makes what sandboxes need.

        Raises ConfigurationError when it cannot work here.
        """

    @abstractmethod
    async def start(
        self,
        id: str,
        environment: str,
        limits: Limits,
        workspace: Path,
        inputs: Path | None = None,
        read_only: bool = False,
    ) -> Sandbox:
        """Called by the orchestrator: a new sandbox whose only writable host path is `workspace`,
        or that has none when that is `read_only`.

        It sees the folder `inputs` at `INPUTS`, read-only, and also what is put there later.
        Returns as soon as the sandbox can be connected to; raises SandboxFailed.
        """

    @abstractmethod
    def owner_of(self, workspace_id: str) -> int | None:
        """Called when a named workspace is made: the user of this machine that its files belong to;
        None when that is the gateway's own."""

    @abstractmethod
    def workspace_fixed(self, environment: str) -> str | None:
        """Called before another workspace is mounted over that of a sandbox that stands ready: why
        that would not be seen inside; None when it is."""

    @abstractmethod
    async def connect(
        self, sandbox: Sandbox, protocol: Callable[[], asyncio.BaseProtocol]
    ) -> asyncio.Transport:
        """Called by the orchestrator for a new sandbox and for one that was found again."""

    @abstractmethod
    async def find(self, sandbox: Sandbox) -> Found | None:
        """Called by the orchestrator after a restart: is this sandbox still there, and awake?

        Raises SandboxFailed when that cannot be told now.
        """

    @abstractmethod
    async def pause(self, sandbox: Sandbox) -> None:
        """Called to freeze every process of a sandbox: it uses no CPU until `resume`.

        Raises SandboxFailed.
        """

    @abstractmethod
    async def resume(self, sandbox: Sandbox) -> None:
        """Called to let a frozen sandbox go on. Raises SandboxFailed."""

    @abstractmethod
    async def ended(self, sandbox: Sandbox) -> str:
        """Called by the orchestrator: waits until the sandbox is gone and says why."""

    @abstractmethod
    async def usage(self, sandbox: Sandbox) -> Usage | None:
        """Called when a session is read; None when it cannot be told."""

    @abstractmethod
    async def meter(self, sandbox: Sandbox) -> Meter | None:
        """Called once a kernel runs in a new sandbox, and for one that was found again.

        None where cells cannot be measured.
        """

    @abstractmethod
    async def out_of_memory(self, sandbox: Sandbox) -> int:
        """Called when a kernel has died: how many processes the memory limit has killed so far."""

    @abstractmethod
    async def limit(self, sandbox: Sandbox, limits: Limits) -> Sandbox | None:
        """Called at hand-over of a spare, and when a session is to have others: applies other limits, or
        None when that takes a new one. Raises SandboxFailed when that cannot be told now."""

    @abstractmethod
    async def sweep(self, known: Set[str]) -> Set[str]:
        """Called by the orchestrator at start and every few minutes: ends and removes sandboxes that
        nobody knows of, and returns which of the known ones are there. `known` may grow meanwhile,
        and has a sandbox before it is made.

        Only those that this data directory's gateway started, never anyone else's.
        """

    @abstractmethod
    async def stop(self, sandbox: Sandbox) -> None:
        """Called to end a sandbox. Nothing of it is left on the host but its workspace."""

    @abstractmethod
    async def close(self) -> None:
        """Called by `serve` when it stops, or when `prepare` failed; sandboxes go on."""


def used_of_limit(usage: Usage | None, limits: Limits) -> str:
    """How much memory was used against which limit, for those who tell that it ran out."""
    if usage is None or usage.memory_peak_bytes is None:
        return f"the limit is {limits.memory_mb:,} MB"
    return f"{usage.memory_peak_bytes >> 20:,} MB used of the limit of {limits.memory_mb:,} MB"
