"""What the kernel has mounted or attached for a folder: a test that ends leaves none of it."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path


def mounts_of(folder: Path) -> list[str]:
    """Mount points in a folder."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [line.split()[4] for line in lines if line.split()[4].startswith(f"{folder.resolve()}/")]


def loop_devices_of(folder: Path) -> list[str]:
    """Loop devices with a file in a folder behind them, also one that is deleted."""
    found = []
    for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
        try:
            file = backing.read_text().strip()
        except OSError:  # it was detached just now
            continue
        if file.startswith(f"{folder.resolve()}/"):
            found.append(f"{backing.parts[3]}: {file}")
    return found


def soon(condition: Callable[[], bool], seconds: float = 60) -> bool:
    """Whether something comes true. The kernel detaches a device when its last user is gone."""
    deadline = time.monotonic() + seconds
    while not (so := condition()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return so


def mount(*words: str | Path) -> None:
    subprocess.run(["mount", *words], check=True)


def unmount(place: str | Path) -> None:
    subprocess.run(["umount", place], check=True)
