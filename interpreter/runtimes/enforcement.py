"""Who holds a sandbox to its limits: control groups where there are any, resource limits else.

A control group limits the sandbox as a whole. Resource limits are the fallback, and weaker:
memory is each process's address space, with room for what libraries reserve and never touch;
processors are the cores it may run on; and processes are counted per user, which for a sandbox
with a user namespace of its own is the sandbox, but for a plain process is everything that user
runs, and for root nothing at all. The size of a file is a resource limit either way.
"""

from __future__ import annotations

import contextlib
import math
import os
import random
import resource
import signal
from collections.abc import Iterator
from pathlib import Path

from interpreter.models import Limits, Usage
from interpreter.runtimes import cgroup_v1, cgroup_v2, process
from interpreter.runtimes.cgroup import MEGABYTE, Group, Hierarchy
from interpreter.runtimes.group_meter import GroupMeter
from interpreter.runtimes.handle import GroupHandle, Handle
from interpreter.runtimes.process import Stat

RESERVED_MB = 2048
"""Address space that Python and OpenBLAS reserve without using it."""
OPEN_FILES = 4096


def hierarchy() -> Hierarchy | None:
    """Where control groups can be made; None when the gateway may not."""
    return cgroup_v2.find() or cgroup_v1.find()


def describe(group: Group) -> GroupHandle:
    """What a handle keeps of a group."""
    directories = {name: str(path) for name, path in group.directories.items()}
    return GroupHandle(version=group.version, directories=directories)


def group_of(handle: GroupHandle | None) -> Group | None:
    """The group that a handle speaks of."""
    if handle is None:
        return None
    kind = cgroup_v2.GroupV2 if handle.version == 2 else cgroup_v1.GroupV1
    return kind({name: Path(path) for name, path in handle.directories.items()})


def rlimits(limits: Limits, grouped: bool, own_namespace: bool) -> dict[str, int | None]:
    """The resource limits that the kernel host sets on itself before anything else."""
    others = 0 if own_namespace else process.threads_of_user(os.geteuid())
    return {
        "as_bytes": None if grouped else (limits.memory_mb + RESERVED_MB) * MEGABYTE,
        "processes": None if grouped else limits.processes + others,
        "file_bytes": limits.file_mb * MEGABYTE,
        "open_files": open_files(),
    }


def open_files() -> int:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)


@contextlib.contextmanager
def on_few_cores(cpus: float) -> Iterator[None]:
    """What is started meanwhile, by this thread, runs on as many cores as the limit rounds up to."""
    before = os.sched_getaffinity(0)
    cores = random.sample(sorted(before), min(len(before), math.ceil(cpus)))
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def same(one: Limits, other: Limits) -> bool:
    """Whether a sandbox cannot tell the two apart; the rest is for the orchestrator to hold."""
    return (one.memory_mb, one.cpus, one.processes, one.file_mb) == (
        other.memory_mb,
        other.cpus,
        other.processes,
        other.file_mb,
    )


def usage(handle: Handle) -> Usage | None:
    """What a sandbox uses, as its group counts it; None when it is gone."""
    try:
        group = group_of(handle.group)
        return group.usage() if group else _summed(_family(handle))
    except OSError:
        return None


def meter(handle: Handle) -> GroupMeter | None:
    """None without a group: what processes used that have ended is known to nobody then."""
    group = group_of(handle.group)
    try:
        return GroupMeter(group.gauges()) if group else None
    except OSError:
        return None


def end(handle: Handle) -> bool:
    """Ends every process of a sandbox; False when some withstand."""
    group = group_of(handle.group)
    if group is None:
        return process.end(lambda: [s.identity for s in _family(handle)])
    with contextlib.suppress(OSError):
        group.freeze(False)  # the frozen do not even die
    # The keeper first: it might be about to join the group.
    keeper = handle.process
    return process.end(lambda: [keeper] if keeper and process.alive(keeper) else []) and group.end()


def freeze(handle: Handle, frozen: bool) -> None:
    """Stops every process of a sandbox, or lets them go on. Raises OSError."""
    if group := group_of(handle.group):
        group.freeze(frozen)
        return
    # Whoever was forked while the others were stopped is found the next time.
    stopped: set[process.Identity] = set()
    while new := {s.identity for s in _family(handle)} - stopped:
        for member in new:
            process.send(member, signal.SIGSTOP if frozen else signal.SIGCONT)
        stopped |= new


def frozen(handle: Handle) -> bool:
    if group := group_of(handle.group):
        return group.frozen
    members = _family(handle)
    return bool(members) and all(s.state == "T" for s in members)


def _family(handle: Handle) -> list[Stat]:
    """The processes of a sandbox, as far as they can be found without a group."""
    found = process.family(handle.process) if handle.process else []
    found += process.started_with(handle.marker)
    return list({s.pid: s for s in found}.values())


def _summed(members: list[Stat]) -> Usage | None:
    """Over the processes there are; what ended ones used is not known."""
    if not members:
        return None
    return Usage(
        cpu_seconds=sum(s.cpu_ticks for s in members) / os.sysconf("SC_CLK_TCK"),
        memory_bytes=sum(s.resident_pages for s in members) * os.sysconf("SC_PAGE_SIZE"),
        processes=sum(s.threads for s in members),
    )
