"""Control groups, version 2: one tree for all controllers.

A group can pass controllers on only while it holds no process itself, so a gateway cannot make
groups inside its own. It takes the nearest group above it that it may write: any, as root; one
that was delegated, otherwise (systemd: `Delegate=yes` with `DelegateSubgroup=gateway`).
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

from interpreter.models import Limits, Usage
from interpreter.runtimes.cgroup import (
    MEGABYTE,
    PARENT,
    Gauges,
    Group,
    Hierarchy,
    Transferred,
    allowed,
    mounts,
    read_number,
    read_table,
    write,
)

NEEDED = ("memory", "cpu", "pids")
IO = "io"
"""Counts transfers, and is used where it may be."""
FREEZE_SECONDS = 5.0
PERIOD_US = 20_000
"""Short, so that a sandbox over its share of CPU pauses often and briefly, not seldom and long."""


class GroupV2(Group):
    version = 2

    @property
    def directory(self) -> Path:
        return self.directories["all"]

    def apply(self, limits: Limits) -> None:
        memory = limits.memory_mb * MEGABYTE
        # Version 2 would kill instead of refusing.
        if read_number(self.directory / "memory.current") > memory:
            raise OSError("more memory is in use than the new limit allows")
        write(self.directory / "memory.max", memory)
        # Missing where the kernel was built or started without swap accounting.
        with contextlib.suppress(FileNotFoundError):
            write(self.directory / "memory.swap.max", 0)
        write(self.directory / "cpu.max", f"{max(1000, int(limits.cpus * PERIOD_US))} {PERIOD_US}")
        write(self.directory / "pids.max", limits.processes)

    def usage(self) -> Usage:
        gauges = self.gauges()
        cached = read_table(self.directory / "memory.stat").get("inactive_file", 0)
        io = transferred(gauges.io.read_bytes()) if gauges.io else Transferred()
        return Usage(
            cpu_seconds=cpu_microseconds(gauges.cpu.read_bytes()) / 1e6,
            memory_bytes=max(0, read_number(self.directory / "memory.current") - cached),
            processes=read_number(self.directory / "pids.current"),
            memory_peak_bytes=read_number(gauges.peak) if gauges.peak else None,
            read_bytes=io.read,
            written_bytes=io.written,
        )

    def gauges(self) -> Gauges:
        peak, io = self.directory / "memory.peak", self.directory / "io.stat"
        return Gauges(
            cpu=self.directory / "cpu.stat",
            cpu_microseconds=cpu_microseconds,
            peak=peak if peak.exists() else None,
            peak_may_be_reset=True,  # who opened the file has a mark of their own
            io=io if io.exists() else None,
            transferred=transferred,
        )

    def freeze(self, frozen: bool) -> None:
        write(self.directory / "cgroup.freeze", int(frozen))
        deadline = time.monotonic() + FREEZE_SECONDS
        while frozen and not self.frozen:
            if time.monotonic() > deadline:
                write(self.directory / "cgroup.freeze", 0)
                raise OSError("some processes could not be frozen")
            time.sleep(0.001)

    @property
    def frozen(self) -> bool:
        try:
            return read_table(self.directory / "cgroup.events").get("frozen") == 1
        except OSError:
            return False

    def oom_kills(self) -> int:
        return read_table(self.directory / "memory.events").get("oom_kill", 0)


class HierarchyV2(Hierarchy):
    def __init__(self, above: Path) -> None:
        self.above = above

    def group(self, id: str) -> Group:
        return GroupV2({"all": self.above / PARENT / id})

    def make(self, directory: Path) -> None:
        directory.parent.mkdir(exist_ok=True)
        for passing_on in (self.above, directory.parent):
            enabled = (passing_on / "cgroup.subtree_control").read_text().split()
            for controller in NEEDED:
                if controller not in enabled:
                    write(passing_on / "cgroup.subtree_control", f"+{controller}")
            if IO not in enabled:
                with contextlib.suppress(OSError):
                    write(passing_on / "cgroup.subtree_control", f"+{IO}")
        directory.mkdir(exist_ok=True)


def candidates(mount: Path, own: str) -> list[Path]:
    """The gateway's own group and those above it, the nearest first."""
    group = mount / own.lstrip("/")
    return [group, *(p for p in group.parents if p == mount or mount in p.parents)]


def find() -> Hierarchy | None:
    """The nearest group in which limits can be set, if there is one."""
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    own = next((line[3:] for line in lines if line.startswith("0::")), None)
    if own is None:
        return None
    for mount in mounts("cgroup2"):
        for above in candidates(mount.point, own):
            # Moving a process needs this of the group above both its old and its new place.
            movable = os.access(above / "cgroup.procs", os.W_OK)
            if movable and allowed(hierarchy := HierarchyV2(above)):
                return hierarchy
    return None


def of_process(path: str) -> Group | None:
    """The group at this path; None when it is not to be seen or does not count all that is needed."""
    places = (mount.place_of(path) for mount in mounts("cgroup2"))
    for place in filter(None, places):
        if all((place / name).exists() for name in ("memory.current", "pids.current")):
            return GroupV2({"all": place})
    return None


def cpu_microseconds(stat: bytes) -> int:
    """`usage_usec N`, which is the first line."""
    return int(stat.split(None, 2)[1])


def transferred(io_stat: bytes) -> Transferred:
    """Lines such as `8:0 rbytes=4096 wbytes=0 …`, one for each device."""
    sums = {b"rbytes": 0, b"wbytes": 0}
    for word in io_stat.split():
        name, _, value = word.partition(b"=")
        if name in sums:
            sums[name] += int(value)
    return Transferred(sums[b"rbytes"], sums[b"wbytes"])
