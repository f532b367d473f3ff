"""Control groups: the kernel's own limits on memory, processor time and number of processes.

They hold for a sandbox as a whole, whatever it starts, and count what it uses. They are there
only where the gateway may make groups: as root, or in a subtree that was delegated to it.
Linux has two versions of the interface; `cgroup_v1` and `cgroup_v2` are the two ways to write
the same limits, and nothing outside these modules can tell which one is in use.
"""

from __future__ import annotations

import contextlib
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import ClassVar, NamedTuple

from interpreter.models import Limits, Usage
from interpreter.runtimes import process
from interpreter.runtimes.process import Identity

PARENT = "interpreter"
"""All sandboxes' groups are made in a group of this name."""
MEGABYTE = 1024 * 1024


class Transferred(NamedTuple):
    """Bytes from and to block devices; None when nobody counts them."""

    read: int | None = None
    written: int | None = None


@dataclass(frozen=True)
class Gauges:
    """The files in which a group counts, and how they are read."""

    cpu: Path
    cpu_microseconds: Callable[[bytes], int]
    peak: Path | None
    """The highest use of memory so far."""
    peak_may_be_reset: bool
    """Whether nobody else loses by that; whether the kernel lets it happen is another matter."""
    io: Path | None
    transferred: Callable[[bytes], Transferred]


class Group(ABC):
    """The group of one sandbox: one directory in version 2, one per controller in version 1."""

    version: ClassVar[int]

    def __init__(self, directories: dict[str, Path]) -> None:
        self.directories = directories

    @abstractmethod
    def apply(self, limits: Limits) -> None:
        """Sets the limits. Raises OSError when more is in use already than they allow."""

    @abstractmethod
    def usage(self) -> Usage: ...

    @abstractmethod
    def gauges(self) -> Gauges: ...

    @abstractmethod
    def oom_kills(self) -> int:
        """How many processes the memory limit has killed so far."""

    @abstractmethod
    def freeze(self, frozen: bool) -> None:
        """Stops every process of the group, or lets them go on. Raises OSError."""

    @property
    @abstractmethod
    def frozen(self) -> bool: ...

    def members(self) -> list[Identity]:
        pids = {pid for d in self.directories.values() for pid in read_numbers(d / "cgroup.procs")}
        found = (process.identify(pid) for pid in pids)
        return [identity for identity in found if identity]

    def end(self) -> bool:
        """Kills everything in the group; a fork bomb does not outrun it, for it can no longer fork."""
        for directory in self.directories.values():
            with contextlib.suppress(OSError):
                write(directory / "pids.max", 0)
        return process.end(self.members)

    def remove(self) -> None:
        for directory in self.directories.values():
            _remove(directory)
            # The parent goes with the last sandbox.
            with contextlib.suppress(OSError):
                directory.parent.rmdir()


class Hierarchy(ABC):
    """The place where this gateway may make groups."""

    @abstractmethod
    def group(self, id: str) -> Group:
        """The group of a sandbox, which may not exist yet."""

    def create(self, id: str, limits: Limits) -> Group:
        group = self.group(id)
        try:
            for directory in group.directories.values():
                self._make(directory)
            group.apply(limits)
        except BaseException:
            group.remove()
            raise
        return group

    def _make(self, directory: Path) -> None:
        for _ in range(10):
            # Another sandbox, the last one until now, may be taking the parent with it.
            with contextlib.suppress(FileNotFoundError):
                return self.make(directory)
        raise FileNotFoundError(directory)

    def make(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)


def allowed(hierarchy: Hierarchy) -> bool:
    """Whether groups with limits can be made there, found out by making one."""
    try:
        hierarchy.create(f"trial-{os.getpid()}-{time.monotonic_ns()}", Limits()).remove()
    except OSError:
        return False
    return True


class Mount(NamedTuple):
    """A file system that is mounted, or the part of it below `root`."""

    point: Path
    root: str
    options: list[str]

    def place_of(self, path: str) -> Path | None:
        """Where a path of that file system is seen; None when it is not, or is all that is seen."""
        inside = PurePosixPath(path)
        if ".." in inside.parts or not inside.is_relative_to(self.root):
            return None
        below = inside.relative_to(self.root)
        return self.point / below if below.parts else None


def mounts(kind: str) -> list[Mount]:
    """Where file systems of this kind are mounted."""
    found = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        fstype, _, options = after.split(" ", 2)
        if fstype == kind:
            root, point = before.split(" ")[3:5]
            found.append(Mount(Path(point), root, options.split(",")))
    return found


def write(path: Path, value: object) -> None:
    # Not write_text: a control file takes its value in one write and refuses to be truncated.
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, str(value).encode())
    finally:
        os.close(fd)


def read_numbers(path: Path) -> list[int]:
    try:
        return [int(word) for word in path.read_text().split()]
    except OSError:
        return []


def read_number(path: Path) -> int:
    return int(path.read_text())


def read_table(path: Path) -> dict[str, int]:
    """Lines of a name and a number, such as `memory.stat`."""
    return {key: int(value) for key, value in (line.split() for line in path.read_text().splitlines())}


def _remove(directory: Path) -> None:
    """A group is busy for a moment after the end of its last process; longer is someone's fault."""
    deadline = time.monotonic() + 2
    while True:
        try:
            directory.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            if time.monotonic() > deadline:
                return
            time.sleep(0.002)
        else:
            return
