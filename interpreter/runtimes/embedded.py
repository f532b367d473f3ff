"""The embedded runtime: sandboxes are processes on the gateway's own machine.

It needs nothing but Python. Where bubblewrap can be used a sandbox is isolated; elsewhere it is
a plain process with limits, and `isolation` says 'none'. The processes of a plain sandbox are
found by its control group, or else as descendants of its keeper, which is the best that can be
done and no match for code that means to get away.

Nothing here blocks the event loop: files, forks and the wait for a killed process are the work
of threads, and the end of a sandbox is an event.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Set
from pathlib import Path

from msgspec.structs import replace

from interpreter.config import Config
from interpreter.errors import ConfigurationError, SandboxFailed, UnknownEnvironment
from interpreter.models import Limits, Usage
from interpreter.runtimes import bubblewrap, enforcement, keeper, payload, process
from interpreter.runtimes.base import Capacity, Found, Meter, Progress, Runtime, Sandbox, used_of_limit
from interpreter.runtimes.cgroup import Hierarchy
from interpreter.runtimes.handle import Handle
from interpreter.runtimes.kernel_environment import KernelEnvironment, ensure
from interpreter.runtimes.launch import Launch, clean
from interpreter.runtimes.run_directory import RunDirectory


class EmbeddedRuntime(Runtime):
    """Sandboxes as processes; `prepare` finds out how well they can be isolated and limited."""

    name = "embedded"

    def __init__(self, config: Config, payload_sources: dict[str, Path] = payload.SOURCES) -> None:
        self.isolation = "none"
        self.not_isolated_because: str | None = None
        """Why `isolation` is 'none', for people; None when it is not."""
        self.not_docker_because: str | None = None
        """Why this runtime was chosen over Docker; None when it was asked for."""
        self._config = config
        self._sources = payload_sources
        self._data = config.data_path.resolve()
        self._payload = self._data
        self._kernels: dict[str, KernelEnvironment] = {}
        self._hierarchy: Hierarchy | None = None
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    def describe(self) -> str:
        limits = "cgroups" if self._hierarchy else "rlimits"
        if self.isolation == "none":
            return f"NOT ISOLATED: plain processes of this user ({self.not_isolated_because})"
        docker = f" (not Docker: {self.not_docker_because})" if self.not_docker_because else ""
        return (
            "isolated by bubblewrap: own processes, own files, no network; "
            f"memory, CPU and processes limited by {limits}{docker}"
        )

    async def prepare(self, progress: Progress) -> None:
        await asyncio.to_thread(self._prepare)
        if self.isolation == "none":
            self.no_inputs_because = "they are not isolated, and have no /data/input of their own"
        folder = self._config.kernels_path.resolve()
        for name, environment in self._config.environments.items():
            if environment.transport == "tcp" and self.isolation == "none":
                raise ConfigurationError(
                    f"The environment '{name}' uses TCP, and sessions have no loopback of their own.",
                    "Install bubblewrap, or leave the environment out.",
                )
            self._kernels[name] = await ensure(folder, name, environment, progress)

    def _prepare(self) -> None:
        self._data.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._payload = payload.write(self._data, self._sources)
        self._hierarchy = enforcement.hierarchy()
        self.capacity = Capacity(
            memory_mb=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20,
            cpus=len(os.sched_getaffinity(0)),
        )
        if self._config.isolation == "none":
            self.not_isolated_because = "isolation is switched off in the settings"
            return
        with tempfile.TemporaryDirectory(dir=self._data, prefix=".trial-") as workspace:
            view = bubblewrap.View(self._payload, Path(workspace), (), self._data)
            reason = bubblewrap.usable(view)
        if reason is None:
            self.isolation = "bubblewrap"
        elif self._config.isolation == "bubblewrap":
            raise ConfigurationError(
                f"Sessions cannot be isolated: {reason}.",
                "Install it with 'apt install bubblewrap', or accept isolation = 'none'.",
            )
        self.not_isolated_because = reason

    async def start(
        self,
        id: str,
        environment: str,
        limits: Limits,
        workspace: Path,
        inputs: Path | None = None,
        read_only: bool = False,
    ) -> Sandbox:
        if environment not in self._kernels:
            raise UnknownEnvironment(f"There is no environment '{environment}'.")
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", id):
            raise SandboxFailed(f"'{id}' cannot be the id of a sandbox.")
        if read_only and self.isolation == "none":
            raise SandboxFailed(
                "A workspace cannot be read-only here: sessions are not isolated.",
                "Install bubblewrap, or use the workspace without workspace_read_only.",
            )
        launch = Launch(
            id=id,
            data=self._data,
            payload=self._payload,
            workspace=workspace.absolute(),
            inputs=inputs,
            kernel=self._kernels[environment],
            configured=self._config.environments[environment],
            limits=limits,
            isolated=self.isolation == "bubblewrap",
            hierarchy=self._hierarchy,
            read_only=read_only,
        )
        starting = asyncio.ensure_future(asyncio.to_thread(self._start, launch))
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            # The thread cannot be stopped half-way; what it starts must not be left behind.
            with contextlib.suppress(SandboxFailed):
                await self.stop(await starting)
            raise

    def _start(self, launch: Launch) -> Sandbox:
        child, handle = launch.start()
        self._children[launch.id] = child
        return Sandbox(
            id=launch.id,
            environment=launch.kernel.name,
            limits=launch.limits,
            isolation="bubblewrap" if launch.isolated else "none",
            limits_enforced_by="cgroup" if launch.hierarchy else "rlimits",
            handle=handle.to_json(),
        )

    def owner_of(self, workspace_id: str) -> int | None:
        own = self.isolation == "bubblewrap" and bubblewrap.has_uids()
        return bubblewrap.uid_for(workspace_id) if own else None

    def workspace_fixed(self, environment: str) -> str | None:
        return None if self.isolation == "bubblewrap" else "sessions are not isolated"

    async def connect(
        self, sandbox: Sandbox, protocol: Callable[[], asyncio.BaseProtocol]
    ) -> asyncio.Transport:
        try:
            connection = Handle.of(sandbox.handle).directory.connect()
        except OSError as e:
            raise SandboxFailed(f"The sandbox cannot be reached: {e}.") from e
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_unix_connection(protocol, sock=connection)
        return transport

    async def find(self, sandbox: Sandbox) -> Found | None:
        handle = Handle.of(sandbox.handle)
        if handle.process is None or not process.alive(handle.process) or not handle.directory.has_link:
            return None
        return "paused" if await asyncio.to_thread(enforcement.frozen, handle) else "running"

    async def pause(self, sandbox: Sandbox) -> None:
        await self._freeze(sandbox, frozen=True)

    async def resume(self, sandbox: Sandbox) -> None:
        await self._freeze(sandbox, frozen=False)

    async def _freeze(self, sandbox: Sandbox, *, frozen: bool) -> None:
        try:
            await asyncio.to_thread(enforcement.freeze, Handle.of(sandbox.handle), frozen)
        except OSError as e:
            what = "paused" if frozen else "resumed"
            raise SandboxFailed(f"The sandbox could not be {what}: {e}.") from e

    async def ended(self, sandbox: Sandbox) -> str:
        handle = Handle.of(sandbox.handle)
        if handle.process is not None:
            await process.gone(handle.process)
        return await asyncio.to_thread(self._why, sandbox, handle.directory)

    def _why(self, sandbox: Sandbox, run: RunDirectory) -> str:
        child = self._children.get(sandbox.id)
        code = child.poll() if child else None
        if not run.path.exists():
            return "stopped"
        recorded = run.exit_code()
        code = code if recorded is None else recorded
        out_of_memory = None
        if self._oom_kills(sandbox):
            usage = enforcement.usage(Handle.of(sandbox.handle))
            out_of_memory = used_of_limit(usage, sandbox.limits)
        return keeper.reason(code, run.log_tail(), out_of_memory)

    async def usage(self, sandbox: Sandbox) -> Usage | None:
        return await asyncio.to_thread(enforcement.usage, Handle.of(sandbox.handle))

    async def meter(self, sandbox: Sandbox) -> Meter | None:
        # Not in a thread: the files are the kernel's and open at once, and a caller that is
        # cancelled meanwhile would leave them open.
        return enforcement.meter(Handle.of(sandbox.handle))

    async def out_of_memory(self, sandbox: Sandbox) -> int:
        return await asyncio.to_thread(self._oom_kills, sandbox)

    def _oom_kills(self, sandbox: Sandbox) -> int:
        group = enforcement.group_of(Handle.of(sandbox.handle).group)
        with contextlib.suppress(OSError):
            return group.oom_kills() if group else 0
        return 0

    async def limit(self, sandbox: Sandbox, limits: Limits) -> Sandbox | None:
        group = enforcement.group_of(Handle.of(sandbox.handle).group)
        if not enforcement.same(sandbox.limits, limits):
            # The size of a file is in the hands of processes that run already.
            if group is None or limits.file_mb != sandbox.limits.file_mb:
                return None
            try:
                await asyncio.to_thread(group.apply, limits)
            except OSError:
                return None
        return dataclasses.replace(sandbox, limits=limits)

    async def stop(self, sandbox: Sandbox) -> None:
        await asyncio.to_thread(self._stop, sandbox.id, Handle.of(sandbox.handle))

    def _stop(self, id: str, handle: Handle) -> None:
        if not enforcement.end(handle):
            raise SandboxFailed(f"Some processes of sandbox {id} could not be ended.")
        child = self._children.get(id)
        if child is not None and child.poll() is not None:
            del self._children[id]
        clean(handle)

    async def sweep(self, known: Set[str]) -> Set[str]:
        return await asyncio.to_thread(self._sweep, known)

    def _sweep(self, known: Set[str]) -> Set[str]:
        for path in self._data.glob(".trial-*"):
            shutil.rmtree(path, ignore_errors=True)  # a gateway was killed while it tried
        runs, there = self._data / "run", set()
        for path in runs.iterdir() if runs.is_dir() else ():
            run = RunDirectory(path)
            if path.name in known:
                if (found := run.process()) is None or process.alive(found):
                    there.add(path.name)
                continue
            recorded = run.recorded()
            handle = Handle.of(recorded) if recorded else Handle(run=str(path))
            self._stop(path.name, replace(handle, process=run.process()))
        return there

    async def close(self) -> None:
        """There is nothing to let go of."""
