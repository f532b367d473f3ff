"""The processes of a session, as the API speaks of them."""

from __future__ import annotations

import enum
from datetime import datetime

from msgspec import Struct


class ProcessState(enum.Enum):
    """What a process does now."""

    running = "running"
    sleeping = "sleeping"
    waiting = "waiting"
    """For a disk or the like; it takes no signals meanwhile."""
    stopped = "stopped"
    zombie = "zombie"
    """It has ended, and its parent has not asked how."""
    other = "other"


class Process(Struct, frozen=True, kw_only=True):
    """A process of a session. Its name and command line are what it says of itself."""

    pid: int
    """As code in the session sees it."""
    parent: int
    name: str
    command: str
    """The beginning of its command line."""
    state: ProcessState
    cpu_seconds: float
    memory_bytes: int
    started_at: datetime
    execution_id: str | None
    """The execution that started it, directly or not; null when that is not known."""
    orphan: bool
    """Whether that execution has ended, and the process has not."""
    kernel: str | None
    """The kernel that it belongs to."""
    is_kernel: bool
    """Whether it is that kernel itself."""


class ProcessList(Struct, frozen=True, kw_only=True):
    """The processes of a session, in order of their pids."""

    processes: list[Process]
    more: bool = False
    """Whether there are more than are told here."""


class ProcessesEnded(Struct, frozen=True, kw_only=True):
    """Processes that were ended, as they were before."""

    ended: list[Process]
    left: list[int] = []
    """Pids of those that did not even end when they were killed."""
    more: bool = False
    """Whether more were ended than are told here."""
