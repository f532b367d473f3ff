"""Knowing when processes have come to rest, so that one side's work is not in the other's time."""

from __future__ import annotations

import time

import psutil  # type: ignore[import-untyped]

STEP = 0.05
QUIET_STEPS = 6
NOISE = 0.011
"""Seconds of CPU that count as none: a tick of the clock that processes are billed by."""


def wait_for(pid: int) -> None:
    """Returns when a process and everything below it has done nothing for a while."""
    root = psutil.Process(pid)
    quiet, before = 0, _used(root)
    deadline = time.monotonic() + 60
    while quiet < QUIET_STEPS:
        if time.monotonic() > deadline:
            raise TimeoutError(f"process {pid} does not come to rest")
        time.sleep(STEP)
        now = _used(root)
        if abs(now - before) <= NOISE:
            quiet += 1
        else:
            quiet, before = 0, now


def _used(root: psutil.Process) -> float:
    total = 0.0
    for process in [root, *root.children(recursive=True)]:
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total
