"""The processes of sandboxes, seen from the host; and everything else that one can leave behind."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator
from pathlib import Path

import psutil


def of_sandbox(id: str) -> Iterator[psutil.Process]:
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("INTERPRETER_SANDBOX") == id:
                yield process


def kernels_of(id: str) -> list[psutil.Process]:
    """The kernels of a sandbox: they are forked from its zygote, which leads a session."""
    found = []
    for process in of_sandbox(id):
        with contextlib.suppress(psutil.Error, ProcessLookupError):
            zygote = any("interpreter.sandbox.zygote" in word for word in process.cmdline())
            if zygote and os.getsid(process.pid) != process.pid == os.getpgid(process.pid):
                found.append(process)
    return found


def left_over(data: Path, sandboxes: Collection[str]) -> list[str]:
    """What there is of sandboxes that should all be gone."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            environ = process.environ()
            if environ.get("INTERPRETER_SANDBOX") in sandboxes or str(data) in environ.values():
                found.append(f"process {process.pid}: {' '.join(process.cmdline())[:150]}")
    for folder, _, _ in os.walk("/sys/fs/cgroup"):
        if os.path.basename(folder) in sandboxes:
            found.append(f"control group {folder}")
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        if (place := line.split()[4]).startswith(f"{data.resolve()}/"):
            found.append(f"mount {place}")
    for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
        with contextlib.suppress(OSError):
            if (file := backing.read_text().strip()).startswith(f"{data.resolve()}/"):
                found.append(f"loop device {backing.parts[3]}: {file}")
    found += [path.name for path in data.glob(".trial-*")]
    for name in ("run", "workspaces"):
        if (data / name).is_dir():
            found += [f"{name}/{path.name}" for path in (data / name).iterdir()]
    return found
