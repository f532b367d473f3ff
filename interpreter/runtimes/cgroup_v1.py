"""Control groups, version 1: a tree of groups for each controller."""

from __future__ import annotations

from pathlib import Path

from interpreter.models import Limits, Usage
from interpreter.runtimes.cgroup import (
    MEGABYTE,
    PARENT,
    Group,
    Hierarchy,
    allowed,
    mounts,
    read_number,
    read_table,
    write,
)

NEEDED = ("memory", "cpu", "pids", "cpuacct")
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
        memory = self.directories["memory"]
        cached = read_table(memory / "memory.stat").get("total_inactive_file", 0)
        return Usage(
            cpu_seconds=read_number(self.directories["cpuacct"] / "cpuacct.usage") / 1e9,
            memory_bytes=max(0, read_number(memory / "memory.usage_in_bytes") - cached),
            processes=read_number(self.directories["pids"] / "pids.current"),
        )

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
    trees = {name: path for name in NEEDED for path, options in mounted if name in options}
    hierarchy = HierarchyV1(trees)
    return hierarchy if len(trees) == len(NEEDED) and allowed(hierarchy) else None
