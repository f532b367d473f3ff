"""Processes on this host: recognised beyond doubt, waited for without polling, ended for good.

A process number is used again after its process is gone. So a process is remembered together
with the moment it started, and every signal goes through a descriptor that was checked against
both: a stranger with the same number is never waited for and never hurt.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct


class Identity(Struct, frozen=True):
    """One process, and no other one that will ever have its number."""

    pid: int
    started: int
    """In clock ticks since the machine was booted."""
    boot: str


class Stat(Struct, frozen=True):
    """What `/proc/<pid>/stat` says, as far as it matters here."""

    pid: int
    state: str
    parent: int
    session: int
    cpu_ticks: int
    threads: int
    started: int
    resident_pages: int

    @property
    def identity(self) -> Identity:
        return Identity(self.pid, self.started, boot_id())


@functools.cache
def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def first_to_go(process: Identity) -> None:
    """Has the kernel end this process before others when memory runs out, as far as that is allowed.

    For gVisor, whose first process is all of a sandbox: without one of the others it may not go on,
    nor end.
    """
    with contextlib.suppress(OSError), open(f"/proc/{process.pid}/oom_score_adj", "w") as file:
        if alive(process):
            file.write("1000")


def parse_stat(line: str) -> Stat:
    """Reads the line; the command's name in it may hold spaces and parentheses."""
    head, _, tail = line.rpartition(")")
    f = tail.split()
    return Stat(
        pid=int(head.split(" ", 1)[0]),
        state=f[0],
        parent=int(f[1]),
        session=int(f[3]),
        cpu_ticks=int(f[11]) + int(f[12]),
        threads=int(f[17]),
        started=int(f[19]),
        resident_pages=int(f[21]),
    )


def stat(pid: int) -> Stat | None:
    """None when there is no such process, or only what is left of it until it is reaped."""
    try:
        found = parse_stat(Path(f"/proc/{pid}/stat").read_text())
    except (OSError, ValueError, IndexError):
        return None
    return None if found.state in "ZX" else found


def identify(pid: int) -> Identity | None:
    found = stat(pid)
    return found.identity if found else None


def alive(process: Identity) -> bool:
    return identify(process.pid) == process


def running() -> Iterator[Stat]:
    """Every process this user can see."""
    for name in os.listdir("/proc"):
        if name.isdigit() and (found := stat(int(name))):
            yield found


def family(root: Identity) -> list[Stat]:
    """The process, its session and all descendants; nobody when the process is gone."""
    everyone = list(running())
    if not any(s.identity == root for s in everyone):
        return []
    members = {s.pid: s for s in everyone if root.pid in (s.pid, s.session)}
    grew = True
    while grew:
        children = [s for s in everyone if s.parent in members and s.pid not in members]
        members.update((s.pid, s) for s in children)
        grew = bool(children)
    return list(members.values())


def started_with(variable: str) -> list[Stat]:
    """All processes with this variable, written NAME=value, in their environment."""
    return [s for s in running() if _has(s.pid, os.fsencode(variable))]


def threads_of_user(uid: int) -> int:
    """As the kernel counts them: what has ended and was not reaped yet is one too."""
    found = [_status(int(name)) for name in os.listdir("/proc") if name.isdigit()]
    return sum(max(1, int(s.get("Threads", 1))) for s in found if _uid(s) == uid)


def _status(pid: int) -> dict[str, str]:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return {}
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


def _uid(status: dict[str, str]) -> int | None:
    # Not the owner of /proc/<pid>, which is root for a process that may not be traced.
    return int(status["Uid"].split()[0]) if "Uid" in status else None


def _has(pid: int, variable: bytes) -> bool:
    try:
        return variable in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False


@contextlib.contextmanager
def descriptor(process: Identity) -> Iterator[int | None]:
    """A pidfd of this very process; None when it is gone."""
    try:
        fd = os.pidfd_open(process.pid)
    except ProcessLookupError:
        yield None
        return
    try:
        yield fd if alive(process) else None
    finally:
        os.close(fd)


def send(process: Identity, number: signal.Signals) -> None:
    """Signals this very process, if it is still there."""
    with descriptor(process) as fd, contextlib.suppress(ProcessLookupError):
        if fd is not None:
            signal.pidfd_send_signal(fd, number)


async def gone(process: Identity) -> None:
    """Waits for the end of a process, whether it is a child of this one or not."""
    with descriptor(process) as fd:
        if fd is None:
            return
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        loop.add_reader(fd, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(fd)


def end(members: Callable[[], list[Identity]], seconds: float = 10.0) -> bool:
    """Kills all members and waits for their end, until there are none; False when some stay.

    Blocks, so it is called in a thread.
    """
    deadline = time.monotonic() + seconds
    while found := members():
        if time.monotonic() > deadline:
            return False
        with contextlib.ExitStack() as stack:
            poll = select.poll()
            waiting = 0
            for process in found:
                fd = stack.enter_context(descriptor(process))
                if fd is not None:
                    # It may end at any moment by itself, and be reaped by someone else.
                    with contextlib.suppress(ProcessLookupError):
                        signal.pidfd_send_signal(fd, signal.SIGKILL)
                    poll.register(fd, select.POLLIN)
                    waiting += 1
            while waiting:
                left = deadline - time.monotonic()
                ended = poll.poll(left * 1000) if left > 0 else []
                if not ended:
                    return False
                for fd, _ in ended:
                    poll.unregister(fd)
                waiting -= len(ended)
    return True
