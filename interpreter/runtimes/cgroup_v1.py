"""Control groups, version 1: a tree of groups for each controller."""

from __future__ import annotations

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

NEEDED = ("memory", "cpu", "pids", "cpuacct")
IO, FREEZER = "blkio", "freezer"
IO_BYTES = "blkio.throttle.io_service_bytes_recursive"
FREEZE_SECONDS = 5.0
PERIOD_US = 20_000
"""Short, so that a sandbox over its share of CPU pauses often and briefly, not seldom and long."""


class GroupV1(Group):
    version = 1

    def apply(self, limits: Limits) -> None:
        memory = limits.memory_mb * MEGABYTE
        limit = self.directories["memory"] / "memory.limit_in_bytes"
        with_swap = self.directories["memory"] / "memory.memsw.limit_in_bytes"
        order = [with_swap, limit] if memory > read_number(limit) else [limit, with_swap]
        # Memory with swap may never be less than memory, which decides the order.
        for path in order:
            if path.exists():
                write(path, memory)
        write(self.directories["cpu"] / "cpu.cfs_period_us", PERIOD_US)
        write(self.directories["cpu"] / "cpu.cfs_quota_us", max(1000, int(limits.cpus * PERIOD_US)))
        write(self.directories["pids"] / "pids.max", limits.processes)

    def usage(self) -> Usage:
        memory, gauges = self.directories["memory"], self.gauges()
        cached = read_table(memory / "memory.stat").get("total_inactive_file", 0)
        # With swap, as the limit counts, if that is counted: then the other mark is for cells.
        peak = memory / "memory.memsw.max_usage_in_bytes"
        peak = peak if peak.exists() else memory / "memory.max_usage_in_bytes"
        io = transferred(gauges.io.read_bytes()) if gauges.io else Transferred()
        return Usage(
            cpu_seconds=cpu_microseconds(gauges.cpu.read_bytes()) / 1e6,
            memory_bytes=max(0, read_number(memory / "memory.usage_in_bytes") - cached),
            processes=read_number(self.directories["pids"] / "pids.current"),
            memory_peak_bytes=read_number(peak),
            read_bytes=io.read,
            written_bytes=io.written,
        )

    def gauges(self) -> Gauges:
        memory = self.directories["memory"]
        return Gauges(
            cpu=self.directories["cpuacct"] / "cpuacct.usage",
            cpu_microseconds=cpu_microseconds,
            peak=memory / "memory.max_usage_in_bytes",
            # The peak of the session must not be lost by that.
            peak_may_be_reset=(memory / "memory.memsw.max_usage_in_bytes").exists(),
            io=self.directories[IO] / IO_BYTES if IO in self.directories else None,
            transferred=transferred,
        )

    def freeze(self, frozen: bool) -> None:
        if FREEZER not in self.directories:
            raise OSError("this machine has no freezer")
        state = self.directories[FREEZER] / "freezer.state"
        write(state, "FROZEN" if frozen else "THAWED")
        # It takes a moment, and as long as it is not over, asking again hurries it.
        deadline = time.monotonic() + FREEZE_SECONDS
        while frozen and state.read_text().strip() != "FROZEN":
            if time.monotonic() > deadline:
                write(state, "THAWED")
                raise OSError("some processes could not be frozen")
            write(state, "FROZEN")
            time.sleep(0.001)

    @property
    def frozen(self) -> bool:
        try:
            return (self.directories[FREEZER] / "freezer.state").read_text().strip() != "THAWED"
        except (KeyError, OSError):
            return False

    def oom_kills(self) -> int:
        return read_table(self.directories["memory"] / "memory.oom_control").get("oom_kill", 0)


class HierarchyV1(Hierarchy):
    def __init__(self, trees: dict[str, Path]) -> None:
        self.trees = trees

    def group(self, id: str) -> Group:
        return GroupV1({name: tree / PARENT / id for name, tree in self.trees.items()})


def find() -> Hierarchy | None:
    """The trees of all needed controllers, if the gateway may make groups in them."""
    mounted = mounts("cgroup")
    trees = {name: m.point for name in NEEDED for m in mounted if name in m.options}
    if len(trees) < len(NEEDED):
        return None
    freezers = {name: m.point for name in (FREEZER,) for m in mounted if name in m.options}
    io = {name: m.point for name in (IO,) for m in mounted if name in m.options and counts(m.point)}
    for wanted in ({**trees, **freezers, **io}, {**trees, **freezers}, trees):
        if allowed(hierarchy := HierarchyV1(wanted)):
            return hierarchy
    return None


def of_process(paths: dict[str, str]) -> Group | None:
    """The groups at these paths, by controller; None when one of those needed is not to be seen."""
    found: dict[str, Path] = {}
    for mount in mounts("cgroup"):
        for name in {*NEEDED, IO, FREEZER} & set(mount.options) & set(paths):
            place = mount.place_of(paths[name])
            if place is not None and place.is_dir() and (name != IO or counts(mount.point)):
                found[name] = place
    return GroupV1(found) if all(name in found for name in NEEDED) else None


def counts(directory: Path) -> bool:
    """Whether bytes from and to block devices are counted there, if there were any.

    Since Linux 6.10 they are only where transfers are throttled. Then devices are named.
    """
    try:
        return any(len(line.split()) == 3 for line in (directory / IO_BYTES).read_text().splitlines())
    except OSError:
        return False


def cpu_microseconds(usage: bytes) -> int:
    return int(usage) // 1000


def transferred(io_bytes: bytes) -> Transferred:
    """Lines such as `8:0 Write 4096`. What the host writes later, of its own accord, is not counted."""
    sums = {b"Read": 0, b"Write": 0}
    for line in io_bytes.splitlines():
        words = line.split()
        if len(words) == 3 and words[1] in sums:
            sums[words[1]] += int(words[2])
    return Transferred(sums[b"Read"], sums[b"Write"])
