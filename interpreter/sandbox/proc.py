"""The processes of this sandbox, as /proc shows them.

Those are the descendants of the kernel host: it adopts every process whose parent has ended, so
none can leave its tree. What a process says of itself (its name, its command line) is up to it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import NamedTuple

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
COMMAND_BYTES = 400


class Process(NamedTuple):
    """A line of /proc/PID/stat, as far as it is of use."""

    pid: int
    name: str
    state: str
    parent: int
    group: int
    cpu_ticks: int
    started: int
    """In ticks since boot: with the pid it tells a process from a later one with the same pid."""
    resident: int
    limit: int
    """The soft limit of the resident set, which is where `marks` are."""

    @property
    def alive(self) -> bool:
        return self.state not in "ZX"

    @property
    def started_at(self) -> float:
        """Seconds since the epoch."""
        return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + self.started / TICKS


def read(pid: int) -> Process | None:
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            line = file.read(4096)
    except OSError:
        return None
    # The name may have spaces and parentheses in it.
    start, end = line.find(b"("), line.rfind(b")")
    fields = line[end + 2 :].split()
    if start < 0 or len(fields) < 23:
        return None
    return Process(
        pid=pid,
        name=line[start + 1 : end].decode(errors="replace"),
        state=fields[0].decode(),
        parent=int(fields[1]),
        group=int(fields[2]),
        cpu_ticks=int(fields[11]) + int(fields[12]),
        started=int(fields[19]),
        resident=int(fields[21]) * PAGE,
        limit=int(fields[22]),
    )


def descendants(root: int) -> list[Process]:
    """Every process below this one, parents before their children."""
    table: dict[int, Process] = {}
    try:
        entries = os.listdir("/proc")
    except OSError:  # a cell can take away the right to open files
        return []
    for entry in entries:
        if entry.isdecimal() and (process := read(int(entry))):
            table[process.pid] = process
    children: dict[int, list[Process]] = {}
    for process in table.values():
        if process.parent not in table and process.parent:
            # Its parent ended while this was looking: it has another one by now.
            again = read(process.pid)
            if again is None:
                continue
            process = again
        children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    waiting = children.get(root, [])
    while waiting:
        found += waiting
        waiting = [child for process in waiting for child in children.get(process.pid, [])]
    return found


def command_line(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cmdline", "rb", buffering=0) as file:
            line = file.read(COMMAND_BYTES)
    except OSError:
        return ""
    return line.rstrip(b"\0").replace(b"\0", b" ").decode(errors="replace")


def send_signal(process: Process, number: int) -> None:
    """Signals this process and never a later one that got its pid."""
    with contextlib.suppress(OSError):
        try:
            descriptor = os.pidfd_open(process.pid)
        except OSError:
            # gVisor has no such thing. Between looking and signalling is next to no time.
            if is_there(process):
                os.kill(process.pid, number)
            return
        try:
            if is_there(process):
                signal.pidfd_send_signal(descriptor, number)
        finally:
            os.close(descriptor)


def is_there(process: Process) -> bool:
    now = read(process.pid)
    return now is not None and now.started == process.started and now.alive
