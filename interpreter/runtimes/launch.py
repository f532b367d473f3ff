"""Starting a sandbox, step by step.

Everything a step leaves on the host is written into the handle before the step is taken, and
the handle into the run directory before the process starts. So whatever happens half-way, this
gateway or the next one can remove what there is.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from interpreter.config import Environment
from interpreter.errors import SandboxFailed
from interpreter.models import Limits
from interpreter.runtimes import bubblewrap, enforcement, keeper, process, program
from interpreter.runtimes.cgroup import MEGABYTE, Hierarchy
from interpreter.runtimes.handle import Handle
from interpreter.runtimes.kernel_environment import KernelEnvironment
from interpreter.runtimes.program import Places
from interpreter.runtimes.run_directory import RunDirectory

LONGEST_SCRATCH = 60
"""Kernels put sockets into their scratch space, and a socket's path must be below 108 bytes."""


@dataclass(frozen=True)
class Launch:
    """All that is decided about a sandbox before it is started."""

    id: str
    data: Path
    payload: Path
    workspace: Path
    inputs: Path | None
    kernel: KernelEnvironment
    configured: Environment
    limits: Limits
    isolated: bool
    hierarchy: Hierarchy | None
    read_only: bool = False

    def start(self) -> tuple[subprocess.Popen[bytes], Handle]:
        """Starts it and returns at once: it can be connected to before it has come anywhere."""
        handle = Handle(run=str(self.data / "run" / self.id))
        try:
            handle.directory.create()
        except OSError as e:
            raise SandboxFailed(f"The sandbox has no directory to run in: {e}.") from e
        try:
            if not self.isolated:
                handle = replace(handle, scratch=_scratch(handle.directory.path))
            if self.hierarchy is not None:
                handle = replace(handle, group=enforcement.describe(self.hierarchy.group(self.id)))
            handle.directory.record(handle.to_json())
            child = self._spawn(handle)
        except (OSError, subprocess.SubprocessError) as e:
            clean(handle)
            raise SandboxFailed(f"The sandbox could not be started: {e}.") from e
        return child, replace(handle, process=process.identify(child.pid))

    def _spawn(self, handle: Handle) -> subprocess.Popen[bytes]:
        places = program.ISOLATED
        if handle.scratch is not None:
            places = Places(str(self.payload), handle.scratch, str(self.workspace))
        rlimits = enforcement.rlimits(self.limits, handle.group is not None, self.isolated)
        with handle.directory.listen() as listener, contextlib.ExitStack() as stack:
            fds = [listener.fileno()]
            command = program.command(self.kernel, self.configured, places, rlimits, fds[0])
            if self.isolated:
                isolating = self._isolated(command)
                fds.append(stack.enter_context(bubblewrap.mounts_descriptor(isolating)))
                command = isolating.with_mounts_on(fds[1])
            groups: list[Path] = []
            if self.hierarchy is not None:
                groups = list(self.hierarchy.create(self.id, self.limits).directories.values())
            else:
                stack.enter_context(enforcement.on_few_cores(self.limits.cpus))
            environ = program.environ(self.kernel, places, self.limits, handle.marker)
            run = handle.directory
            return keeper.start(run, command, environ, self.workspace, groups, self.limits, fds)

    def _isolated(self, command: list[str]) -> bubblewrap.Command:
        uid = bubblewrap.sandbox_uid(self.id, self.workspace)
        if uid is not None:
            bubblewrap.give(self.workspace, uid)
        own = (self.kernel.path,)
        view = bubblewrap.View(self.payload, self.workspace, own, self.data, self.inputs, self.read_only)
        return bubblewrap.command(view, uid, self.limits.memory_mb * MEGABYTE, command)


def clean(handle: Handle) -> None:
    """Removes what a sandbox has on the host besides its workspace, once its processes are gone."""
    if group := enforcement.group_of(handle.group):
        group.remove()
    if handle.scratch is not None:
        RunDirectory(Path(handle.scratch)).remove()
    handle.directory.remove()


def _scratch(run: Path) -> str:
    """Scratch space for a plain sandbox: in its run directory unless that is too deep."""
    if len(os.fsencode(run / "tmp")) > LONGEST_SCRATCH:
        path = Path(tempfile.mkdtemp(prefix="interpreter-", dir="/tmp"))
    else:
        path = run / "tmp"
        path.mkdir(mode=0o700)
    (path / "home").mkdir()
    return str(path)
