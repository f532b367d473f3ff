"""The Docker runtime: each session is a container without a network interface.

A container has a read-only root, no capability, one user, limits, and two ways out that it cannot
change: its workspace, and the link. The link is a socket that the gateway made and handed over to
the kernel host once, so there is nothing in the container that could be replaced by something
else; or it is the container's stdin and stdout where engine and gateway share no machine. Which of
them works is found out by trying, once for each environment, with all of its options: what an
engine lacks is an error at start.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import secrets
import shutil
from collections.abc import Callable, Set
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
    payload,
    program,
)
from interpreter.runtimes import process as processes
from interpreter.runtimes.base import Meter, Progress, Runtime, Sandbox, used_of_limit
from interpreter.runtimes.build_steps import Step
from interpreter.runtimes.cgroup import Group
from interpreter.runtimes.container import Blueprint
from interpreter.runtimes.container_handle import ContainerHandle
from interpreter.runtimes.containers import Containers
from interpreter.runtimes.engine import Engine, endpoint, explain
from interpreter.runtimes.fitting import Fitted
from interpreter.runtimes.group_meter import GroupMeter
from interpreter.runtimes.membership import group_of_process
from interpreter.runtimes.run_directory import RunDirectory
from interpreter.runtimes.trial import Trial

UID = 1000
ENGINE_RETRY = 1.0


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
        self._links: dict[str, str] = {}
        """Environment → 'socket' or 'attach'."""
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
        container.check_mounts(self._config.environments, self._config.allowed_mounts)
        engine = self._engine = await Engine.open(endpoint())
        await asyncio.to_thread(self._prepare)
        self._containers = Containers(engine, self._owner)
        info = await engine.call(engine.api.info)
        self._version = info.get("ServerVersion", "")
        self._choose_user(info)
        for name, environment in self._config.environments.items():
            container.check_options(name, environment, info)
            image = environment.image or await self._own_image(name, progress)
            progress(f"preparing the image {image}")
            self._images[name] = await fitting.fit(engine, image, self._payload)
            self._command(name, self._config.limits, "")  # its kernel is there
            progress(f"trying a container of the environment {name}")
            self._links[name] = await self._try_out(name)

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
        elif container.remaps_users(info):
            # The engine names its data after the first of the users it maps to.
            first = Path(info.get("DockerRootDir", "")).name.partition(".")[0]
            self._outer_uid = UID + (int(first) if first.isdecimal() else 0)

    async def _try_out(self, name: str) -> str:
        """How the link gets into containers of an environment."""
        limits, python = self._config.limits, self._images[name].report.python

        def blueprint(id: str, workspace: Path, run: Path | None, command: list[str]) -> Blueprint:
            return self._blueprint(id, name, limits, workspace, run, [python, *command], {})

        trial = Trial(self._containers, self._data, self._outer_uid, blueprint)
        problem = ""
        for link in ("socket", "attach") if self._config.link == "auto" else (self._config.link,):
            problem = await trial.run(link) or ""
            if not problem:
                return link
        raise ConfigurationError(
            f"The environment '{name}' cannot be run here: {problem}.",
            "Look at the environment's settings, and at what the engine can do.",
        )

    # -- sandboxes

    async def start(self, id: str, environment: str, limits: Limits, workspace: Path) -> Sandbox:
        if environment not in self._images:
            raise UnknownEnvironment(f"There is no environment '{environment}'.")
        run = RunDirectory(self._data / "run" / id)
        handle = ContainerHandle(
            container=container.name_of(self._owner, id),
            run=str(run.path),
            link=self._links[environment],
            key=secrets.token_hex(32) if self._links[environment] == "attach" else "",
        )
        try:
            await asyncio.to_thread(run.create)
            await asyncio.to_thread(bubblewrap.give, workspace, self._outer_uid)
            made = await self._start(handle, id, environment, limits, workspace)
        except (DockerException, OSError, TimeoutError) as e:
            await self._end(handle)
            reason = explain(e) or "it took too long"
            raise SandboxFailed(f"The container could not be started: {reason}") from e
        except BaseException:
            # Shielded: a caller that gives up must not leave a container behind.
            await asyncio.shield(self._end(handle))
            raise
        handle = dataclasses.replace(handle, container=made, process=await self._process(made))
        runtime = self._config.environments[environment].oci_runtime
        return Sandbox(
            id=id,
            environment=environment,
            limits=limits,
            isolation=f"docker+{runtime}" if runtime else "docker",
            limits_enforced_by="cgroup",
            handle=handle.to_json(),
        )

    async def _start(
        self, handle: ContainerHandle, id: str, environment: str, limits: Limits, workspace: Path
    ) -> str:
        command = self._command(environment, limits, handle.link)
        if handle.link == "attach":
            blueprint = self._blueprint(
                id, environment, limits, workspace, None, command, {program.KEY_VARIABLE: handle.key}
            )
            made = await self._containers.create(blueprint)
            await self._containers.start(made)
            return made
        run = handle.directory
        with run.hand_over() as listener, run.listen() as handed:
            blueprint = self._blueprint(id, environment, limits, workspace, run.shared, command, {})
            made = await self._containers.create(blueprint)
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
        """The container's first process, if the engine is on this machine."""
        found = await self._containers.inspect(made)
        if found is None or not self.engine.endpoint.local:
            return None
        return processes.identify(found["State"]["Pid"])

    def _blueprint(
        self,
        id: str,
        environment: str,
        limits: Limits,
        workspace: Path,
        run: Path | None,
        command: list[str],
        variables: dict[str, str],
    ) -> Blueprint:
        return Blueprint(
            id=id,
            owner=self._owner,
            image=self._images[environment].image,
            command=command,
            environ={**container.environ(id, limits), **variables},
            user=self._user,
            limits=limits,
            configured=self._config.environments[environment],
            workspace=str(workspace.absolute()),
            run=str(run) if run else None,
        )

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

    async def find(self, sandbox: Sandbox) -> bool:
        found = await self._containers.inspect(ContainerHandle.of(sandbox.handle).container)
        return found is not None and bool(found["State"]["Running"])

    async def ended(self, sandbox: Sandbox) -> str:
        handle = ContainerHandle.of(sandbox.handle)
        while True:
            try:
                code = await attach.exit_code(self.engine, handle.container)
                break
            except OSError:
                # The engine is restarted, or the way to it is interrupted: the container may go on.
                await asyncio.sleep(ENGINE_RETRY)
        if code is None:
            return "stopped"
        out_of_memory = None
        if await self.out_of_memory(sandbox):
            out_of_memory = used_of_limit(await self.usage(sandbox), sandbox.limits)
        attached = self._attached.get(sandbox.id)
        words = attached.stderr if attached else await self._containers.last_words(handle.container)
        return keeper.reason(code, _readable(words), out_of_memory)

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
            if not await self._containers.limit(ContainerHandle.of(sandbox.handle).container, limits):
                return None
        return dataclasses.replace(sandbox, limits=limits)

    # -- the end

    async def stop(self, sandbox: Sandbox) -> None:
        self._attached.pop(sandbox.id, None)
        await self._end(ContainerHandle.of(sandbox.handle))

    async def _end(self, handle: ContainerHandle) -> None:
        await self._containers.remove(handle.container)
        await asyncio.to_thread(handle.directory.remove)

    async def sweep(self, known: Set[str]) -> None:
        for made, sandbox in await self._containers.owned():
            if sandbox not in known:
                await self._containers.remove(made)
        await asyncio.to_thread(self._sweep_directories, known)

    def _sweep_directories(self, known: Set[str]) -> None:
        runs = self._data / "run"
        for path in runs.iterdir() if runs.is_dir() else ():
            if path.name not in known:
                RunDirectory(path).remove()
        for path in self._data.glob(".trial-*"):
            shutil.rmtree(path, ignore_errors=True)

    async def close(self) -> None:
        if self._engine is not None:
            await self._engine.close()


def _readable(words: bytes) -> str:
    """The last lines of what a hostile process said, without what a terminal would obey."""
    lines = words[-2000:].decode(errors="replace").splitlines()
    clean = ["".join(c for c in line if c.isprintable()) for line in lines]
    return "\n".join([line for line in clean if line.strip()][-5:])
