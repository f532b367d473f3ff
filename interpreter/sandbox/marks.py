"""Which cell a process belongs to: a number that Linux itself hands on to every child.

The soft limit of the resident set (RLIMIT_RSS) has had no effect for twenty years, yet each
process has one, a child starts with that of its parent, and nothing that hides a process (another
group, another session, a new program, an empty environment, a dead parent) changes it. So it
carries a mark: before a cell is passed to a kernel, the kernel process is given the cell's number,
and whatever the cell starts has it too. gVisor keeps this limit as Linux does.

A process can change its own mark. It then counts as nobody's, or as another cell's of the same
sandbox; no other sandbox looks at it.
"""

from __future__ import annotations

import contextlib
import resource
import secrets
from typing import NamedTuple

NUMBER_BITS = 32
KEPT = 1024
"""Cells that are remembered; older ones only while a process of theirs is there."""


class Owner(NamedTuple):
    """A kernel, and the execution of it, if it was one, that a number stands for."""

    kernel: str
    execution: str | None


class Marks:
    """The numbers of this sandbox. They are never used twice."""

    def __init__(self) -> None:
        # Sandboxes without isolation see each other's processes: none takes another's for its own.
        # The value is huge, because some programs do read this limit and would use less memory.
        self._base = (1 << 61) | secrets.randbits(61 - NUMBER_BITS) << NUMBER_BITS
        self._last = 0
        self._owners: dict[int, Owner] = {}
        _, self._hard = resource.getrlimit(resource.RLIMIT_RSS)
        self.usable = self._hard == resource.RLIM_INFINITY

    def new(self, kernel: str, execution: str | None = None) -> int:
        self._last += 1
        self._owners[self._last] = Owner(kernel, execution)
        return self._last

    def put(self, pid: int, number: int) -> None:
        """Marks a process, and so all that it starts from now on."""
        # A kernel that forbade itself to have its mark changed is only hiding its own children.
        with contextlib.suppress(OSError, ValueError):
            resource.prlimit(pid, resource.RLIMIT_RSS, (self._base | number, self._hard))

    def read(self, limit: int) -> int | None:
        """The number in a process's soft limit, if it is one that was given out here."""
        number = limit & ((1 << NUMBER_BITS) - 1)
        return number if limit == self._base | number and number in self._owners else None

    def owner(self, number: int | None) -> Owner | None:
        return None if number is None else self._owners.get(number)

    def numbers_of(self, executions: set[str]) -> set[int]:
        return {n for n, owner in self._owners.items() if owner.execution in executions}

    @property
    def full(self) -> bool:
        return len(self._owners) > 2 * KEPT

    def forget(self, worn: set[int]) -> None:
        """Drops old numbers that no process has."""
        oldest = self._last - KEPT
        self._owners = {n: o for n, o in self._owners.items() if n > oldest or n in worn}
