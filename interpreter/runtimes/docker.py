"""The Docker runtime: each session is a container without a network interface.

A container has a read-only root, no capability, one user, limits, and two ways out that it cannot
change: its workspace, and the link. The link is a socket that the gateway made and handed over to
the kernel host once, so there is nothing in the container that could be replaced by something
else; or it is the container's stdin and stdout where engine and gateway share no machine. There the
workspace is a volume of the engine. What works is found out by trying, once for each environment,
with all of its options: what an engine lacks is an error at start.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import secrets
import signal
from collections.abc import Callable, Set
from functools import partial
from pathlib import Path
from typing import Any

from docker.errors import DockerException

from interpreter.config import Config
from interpreter.errors import ConfigurationError, SandboxFailed, UnknownEnvironment
from interpreter.models import Limits, Usage
from interpreter.runtimes import (
    attach,
    bubblewrap,
    container,
    enforcement,
    fitting,
    images,
    keeper,
    options,
    payload,
    program,
)
from interpreter.runtimes import process as processes
from interpreter.runtimes.base import Capacity, Found, Meter, Progress, Runtime, Sandbox, used_of_limit
from interpreter.runtimes.build_steps import Step
from interpreter.runtimes.cgroup import Group
from interpreter.runtimes.changer import Changer
from interpreter.runtimes.chores import LATE_SECONDS, Chores
from interpreter.runtimes.container import Blueprint
from interpreter.runtimes.container_handle import ContainerHandle
from interpreter.runtimes.containers import Containers, Refused
from interpreter.runtimes.engine import Engine, endpoint, explain
from interpreter.runtimes.fitting import Fitted
from interpreter.runtimes.group_meter import GroupMeter
from interpreter.runtimes.membership import group_of_process
from interpreter.runtimes.run_directory import RunDirectory
from interpreter.runtimes.trial import WAYS, Trial, Way
from interpreter.runtimes.trial import remove as remove_trial
from interpreter.runtimes.volumes import Volumes

UID = 1000
ENGINE_RETRY = 1.0
STOP_SECONDS = 10.0
CLOSE_SECONDS = 5.0
AT_ONCE = 2.0
WHILE_AWAY = (
    "while the Docker engine was restarted or out of reach "
    "(an engine with live-restore keeps its containers when it is restarted)"
)


class DockerRuntime(Runtime):
    """Sandboxes as containers of one engine; `prepare` finds out what that engine can do."""

    name = "docker"
    isolation = "docker"

    def __init__(self, config: Config) -> None:
        self._config = config
        self._data = config.data_path.resolve()
        self._payload = self._data
        self._engine: Engine | None = None
        self._images: dict[str, Fitted] = {}
        self._gvisor: set[str] = set()
        """Environments whose containers gVisor runs."""
        self._ways: dict[str, Way] = {}
        """Environment → how its containers are reached, and where their workspaces are."""
        self._chores = Chores()
        self._owner = ""
        self._user, self._outer_uid = f"{UID}:{UID}", UID
        self._attached: dict[str, attach.Attachment] = {}

    # -- before the first sandbox

    def describe(self) -> str:
        where = self.engine.endpoint.host
        return (
            "isolated by Docker: each session is a container of its own, without a network interface "
            f"(engine {self._version} at {where})"
        )

    @property
    def engine(self) -> Engine:
        assert self._engine is not None, "prepare was not called"
        return self._engine

    async def prepare(self, progress: Progress) -> None:
        engine = self._engine = await Engine.open(endpoint())
        await asyncio.to_thread(self._prepare)
        self._containers = Containers(engine, self._owner)
        timeout = self._config.engine_timeout
        self._frozen = Changer(self._containers.freeze, self._chores, timeout)
        self._limits = Changer(self._containers.limit, self._chores, timeout)
        volumes = Volumes(engine, self._owner, self._chores)
        info = await engine.call(engine.api.info)
        self._version = info.get("ServerVersion", "")
        self.capacity = Capacity(memory_mb=info["MemTotal"] >> 20, cpus=info["NCPU"])
        self._choose_user(info)
        for name, environment in self._config.environments.items():
            options.check(name, environment, self._config.allowed_mounts, info)
        for name, environment in self._config.environments.items():
            if options.is_gvisor(environment, info):
                self._gvisor.add(name)
            image = environment.image or await self._own_image(name, progress)
            progress(f"preparing the image {image}")
            self._images[name] = await fitting.fit(engine, image, self._payload, self._owner)
            self._command(name, self._config.limits, "")  # its kernel is there
            progress(f"trying a container of the environment {name}")
            self._ways[name] = await self._try_out(name, volumes)
        if any(way.in_volume for way in self._ways.values()):
            self.files_elsewhere = volumes
            self.no_inputs_because = volumes.why
        await fitting.forget_others(engine, self._owner, self._images.values())

    async def _own_image(self, name: str, progress: Progress) -> str:
        """The image of an environment that names none: ours of that name, built if it is missing."""
        image = f"interpreter/{name}"
        if name in images.names() and not await self.engine.call(images.has, self.engine.api, image):
            loop = asyncio.get_running_loop()

            def report(step: Step) -> None:
                doing = f"building the image {image}, step {step.number}: {step.doing}"
                loop.call_soon_threadsafe(progress, doing)

            await self.engine.call(images.build, self.engine.api, name, "auto", report)
        return image

    def _prepare(self) -> None:
        self._data.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._payload = payload.write(self._data)
        file = self._data / "owner"
        if not file.exists():
            file.write_text(secrets.token_hex(6))
        self._owner = file.read_text().strip()

    def _choose_user(self, info: dict[str, Any]) -> None:
        """Who the sandbox's user is, inside and on the host."""
        if os.geteuid() != 0:
            # Only root can give a workspace to somebody else.
            self._user, self._outer_uid = f"{os.geteuid()}:{os.getegid()}", os.geteuid()
        else:
            self._outer_uid = UID + options.first_mapped(info)

    async def _try_out(self, name: str, volumes: Volumes) -> Way:
        """How containers of an environment are reached, and where their workspaces are."""
        limits, python = self._config.limits, self._images[name].report.python

        def blueprint(
            id: str, workspace: Path, run: Path | None, command: list[str], way: Way
        ) -> Blueprint:
            return self._blueprint(id, name, limits, workspace, run, [python, *command], {}, way)

        trial = Trial(self._containers, volumes, self._data, self._outer_uid, blueprint)
        problem = ""
        for way in WAYS:
            if self._config.link not in ("auto", way.link):
                continue
            if any(other.in_volume != way.in_volume for other in self._ways.values()):
                continue  # the engine sees the gateway's files, or it does not
            problem = await trial.run(way) or ""
            if not problem:
                return way
        raise ConfigurationError(
            f"The environment '{name}' cannot be run here: {problem}.",
            "Look at the environment's settings, and at what the engine can do.",
        )

    # -- sandboxes

    async def start(
        self,
        id: str,
        environment: str,
        limits: Limits,
        workspace: Path,
        inputs: Path | None = None,
        read_only: bool = False,
    ) -> Sandbox:
        if environment not in self._images:
            raise UnknownEnvironment(f"There is no environment '{environment}'.")
        run, way = RunDirectory(self._data / "run" / id), self._ways[environment]
        handle = ContainerHandle(
            container=container.name_of(self._owner, id),
            run=str(run.path),
            link=way.link,
            key=secrets.token_hex(32) if way.link == "attach" else "",
        )
        launch = self._launch(handle, id, environment, limits, workspace, inputs, read_only)
        starting = asyncio.create_task(launch)
        try:
            done, _ = await asyncio.wait({starting}, timeout=self._config.engine_timeout)
            if not done:
                raise TimeoutError("the engine does not answer")
            handle = starting.result()
        except BaseException as e:
            # A caller that gives up must not leave a container behind, nor wait for what hangs.
            seconds, undo = STOP_SECONDS if starting.done() else 0, partial(self._undo, starting, handle)
            await self._chores.see_to(f"the container of {id}", undo, seconds)
            if not isinstance(e, DockerException | OSError):
                raise
            reason = explain(e) or "it took too long"
            raise SandboxFailed(f"The container could not be started: {reason}.") from e
        runtime = self._config.environments[environment].oci_runtime
        return Sandbox(
            id=id,
            environment=environment,
            limits=limits,
            isolation=f"docker+{runtime}" if runtime else "docker",
            limits_enforced_by="cgroup",
            handle=handle.to_json(),
        )

    async def _launch(
        self,
        handle: ContainerHandle,
        id: str,
        environment: str,
        limits: Limits,
        workspace: Path,
        inputs: Path | None,
        read_only: bool,
    ) -> ContainerHandle:
        await asyncio.to_thread(handle.directory.create)
        if self.files_elsewhere is None:
            await asyncio.to_thread(bubblewrap.give, workspace, self._outer_uid)
        made = await self._start(handle, id, environment, limits, workspace, inputs, read_only)
        process = await self._process(made)
        if process is not None and environment in self._gvisor:
            processes.first_to_go(process)
        return dataclasses.replace(handle, container=made, process=process)

    async def _undo(self, starting: asyncio.Task[ContainerHandle], handle: ContainerHandle) -> None:
        """Removes what a start made that is not wanted any more."""
        starting.cancel()
        await asyncio.wait({starting})  # what the engine was asked for, it has done or refused then
        await self._end(handle)
        problem = None if starting.cancelled() else starting.exception()
        if isinstance(problem, OSError) and not isinstance(problem, DockerException):
            # An engine that hung may yet do what it was asked for by someone who is gone.
            await asyncio.sleep(LATE_SECONDS)
            await self._end(handle)

    async def _start(
        self,
        handle: ContainerHandle,
        id: str,
        environment: str,
        limits: Limits,
        workspace: Path,
        inputs: Path | None,
        read_only: bool,
    ) -> str:
        command, way = self._command(environment, limits, handle.link), self._ways[environment]
        planned = partial(self._blueprint, id, environment, limits, workspace)
        seen = str(inputs) if inputs else None
        if handle.link == "attach":
            variables = {program.KEY_VARIABLE: handle.key}
            blueprint = planned(None, command, variables, way, read_only)
            made = await self._containers.create(dataclasses.replace(blueprint, inputs=seen))
            await self._containers.start(made)
            return made
        run = handle.directory
        with run.hand_over() as listener, run.listen() as handed:
            blueprint = planned(run.shared, command, {}, way, read_only)
            made = await self._containers.create(dataclasses.replace(blueprint, inputs=seen))
            code = await self._containers.start_and_hand_over(made, listener, handed)
        if code is not None:
            why = keeper.reason(code, _readable(await self._containers.last_words(made)), None)
            raise SandboxFailed(f"The container ended at once: {why}")
        return made

    def _command(self, environment: str, limits: Limits, link: str) -> list[str]:
        configured, fitted = self._config.environments[environment], self._images[environment]
        preload = configured.preload or fitted.preload
        return program.in_container(environment, configured, fitted.report, preload, limits, link)

    async def _process(self, made: str) -> processes.Identity | None:
        """The container's first process, if it is on this machine."""
        found = await self._containers.inspect(made)
        if found is None:
            return None
        process = processes.identify(found["State"]["Pid"])
        # On another machine, or in a virtual one, the number is that of somebody else.
        with contextlib.suppress(OSError):
            if process and made in Path(f"/proc/{process.pid}/cgroup").read_text():
                return process
        return None

    def _blueprint(
        self,
        id: str,
        environment: str,
        limits: Limits,
        workspace: Path,
        run: Path | None,
        command: list[str],
        variables: dict[str, str],
        way: Way,
        read_only: bool = False,
    ) -> Blueprint:
        return Blueprint(
            id=id,
            owner=self._owner,
            image=self._images[environment].image,
            command=command,
            environ={**container.environ(id, limits), **variables},
            user=f"{UID}:{UID}" if way.in_volume else self._user,
            limits=limits,
            configured=self._config.environments[environment],
            workspace=str(workspace.absolute()),
            run=str(run) if run else None,
            in_volume=way.in_volume,
            read_only=read_only,
            # A plain folder is of a file system whose mounts are nobody's business.
            follows=way.follows and os.path.ismount(workspace),
        )

    def owner_of(self, workspace_id: str) -> int | None:
        return self._outer_uid if os.geteuid() == 0 else None

    def workspace_fixed(self, environment: str) -> str | None:
        if environment in self._gvisor:
            return "gVisor does not see what is mounted later"
        return None if self._ways[environment].follows else "the engine does not see mounts made later"

    async def connect(
        self, sandbox: Sandbox, protocol: Callable[[], asyncio.BaseProtocol]
    ) -> asyncio.Transport:
        handle = ContainerHandle.of(sandbox.handle)
        try:
            if handle.link == "attach":
                link = protocol()
                assert isinstance(link, asyncio.Protocol)
                key = bytes.fromhex(handle.key)
                transport, attached = await attach.attach(self.engine, handle.container, key, link)
                self._attached[sandbox.id] = attached
                return transport
            connection = handle.directory.connect()
            loop = asyncio.get_running_loop()
            reached, _ = await loop.create_unix_connection(protocol, sock=connection)
            return reached
        except OSError as e:
            raise SandboxFailed(f"The container cannot be reached: {e}.") from e

    async def find(self, sandbox: Sandbox) -> Found | None:
        try:
            async with asyncio.timeout(self._config.engine_timeout):
                state = await self._containers.state(ContainerHandle.of(sandbox.handle).container)
        except OSError as e:
            why = explain(e) or "it took too long"
            raise SandboxFailed(f"The engine does not say whether the container runs: {why}.") from e
        if state is None or not state.get("Running"):
            return None
        return "paused" if state.get("Paused") else "running"

    async def pause(self, sandbox: Sandbox) -> None:
        made = ContainerHandle.of(sandbox.handle).container
        await self._frozen.set(made, True, False, "The container could not be paused")

    async def resume(self, sandbox: Sandbox) -> None:
        made = ContainerHandle.of(sandbox.handle).container
        await self._frozen.set(made, False, True, "The container could not be resumed")

    async def ended(self, sandbox: Sandbox) -> str:
        handle = ContainerHandle.of(sandbox.handle)
        loop = asyncio.get_running_loop()
        away = False
        while True:
            asked = loop.time()
            try:
                code = await attach.exit_code(self.engine, handle.container)
                break
            except OSError:
                # The engine is restarted, or the way to it is interrupted: the container may go on.
                away = True
                await asyncio.sleep(ENGINE_RETRY)
        if code is None:
            return "its container is gone"
        out_of_memory = None
        if await self.out_of_memory(sandbox):
            out_of_memory = used_of_limit(await self.usage(sandbox), sandbox.limits)
            if code and sandbox.environment in self._gvisor:
                # Where the memory's end hit another of its processes, gVisor ends by itself.
                code = 128 + signal.SIGKILL
        attached = self._attached.get(sandbox.id)
        words = attached.stderr if attached else await self._containers.last_words(handle.container)
        reason = keeper.reason(code, _readable(words), out_of_memory)
        if away and loop.time() - asked < AT_ONCE:
            return f"{reason} {WHILE_AWAY}"
        return reason

    # -- figures and limits

    def _group(self, sandbox: Sandbox) -> Group | None:
        """The control group that the engine made for a container, if it is on this machine."""
        first = ContainerHandle.of(sandbox.handle).process
        return group_of_process(first.pid) if first and processes.alive(first) else None

    async def usage(self, sandbox: Sandbox) -> Usage | None:
        group = self._group(sandbox)
        with contextlib.suppress(OSError):
            if group is not None:
                return await asyncio.to_thread(group.usage)
        return await self._containers.usage(ContainerHandle.of(sandbox.handle).container)

    async def meter(self, sandbox: Sandbox) -> Meter | None:
        group = self._group(sandbox)
        try:
            return GroupMeter(group.gauges()) if group else None
        except OSError:
            return None

    async def out_of_memory(self, sandbox: Sandbox) -> int:
        group = self._group(sandbox)
        with contextlib.suppress(OSError):
            if group is not None:
                return await asyncio.to_thread(group.oom_kills)
        return await self._containers.out_of_memory(ContainerHandle.of(sandbox.handle).container)

    async def limit(self, sandbox: Sandbox, limits: Limits) -> Sandbox | None:
        if not enforcement.same(sandbox.limits, limits):
            # The size of a file is in the hands of processes that run already.
            if limits.file_mb != sandbox.limits.file_mb:
                return None
            made, failure = (
                ContainerHandle.of(sandbox.handle).container,
                "The limits could not be changed",
            )
            try:
                await self._limits.set(made, limits, sandbox.limits, failure)
            except Refused:
                return None
        return dataclasses.replace(sandbox, limits=limits)

    # -- the end

    async def stop(self, sandbox: Sandbox) -> None:
        self._attached.pop(sandbox.id, None)
        handle = ContainerHandle.of(sandbox.handle)
        self._frozen.forget(handle.container)
        self._limits.forget(handle.container)
        what = f"the container of {sandbox.id}"
        await self._chores.see_to(what, partial(self._end, handle), STOP_SECONDS)

    async def _end(self, handle: ContainerHandle) -> None:
        await self._containers.remove(handle.container)
        await asyncio.to_thread(handle.directory.remove)

    async def sweep(self, known: Set[str]) -> Set[str]:
        owned = await self._containers.owned()
        for made, sandbox in owned:
            if sandbox not in known:
                what = f"the container of {sandbox}"
                await self._chores.see_to(what, partial(self._containers.remove, made), STOP_SECONDS)
        await asyncio.to_thread(self._sweep_directories, known)
        return {sandbox for _, sandbox in owned if sandbox in known}

    def _sweep_directories(self, known: Set[str]) -> None:
        runs = self._data / "run"
        for path in runs.iterdir() if runs.is_dir() else ():
            if path.name not in known:
                RunDirectory(path).remove()
        for path in self._data.glob(".trial-*"):
            remove_trial(path)

    async def close(self) -> None:
        await self._chores.close(CLOSE_SECONDS)
        if self._engine is not None:
            await self._engine.close()


def _readable(words: bytes) -> str:
    """The last lines of what a hostile process said, without what a terminal would obey."""
    lines = words[-2000:].decode(errors="replace").splitlines()
    clean = ["".join(c for c in line if c.isprintable()) for line in lines]
    return "\n".join([line for line in clean if line.strip()][-5:])
