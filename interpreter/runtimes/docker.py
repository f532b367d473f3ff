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
import json
import os
import secrets
import shutil
import socket
import tempfile
from collections.abc import Callable, Set
from pathlib import Path
from typing import Any

from docker.errors import APIError, DockerException, NotFound

from interpreter.config import Config
from interpreter.errors import ConfigurationError, SandboxFailed, UnknownEnvironment
from interpreter.models import Limits, Usage
from interpreter.runtimes import attach, bubblewrap, container, enforcement, fitting, payload
from interpreter.runtimes.base import Progress, Runtime, Sandbox
from interpreter.runtimes.cgroup import MEGABYTE
from interpreter.runtimes.container import Blueprint
from interpreter.runtimes.container_handle import ContainerHandle
from interpreter.runtimes.engine import Engine, endpoint, explain
from interpreter.runtimes.fitting import Fitted
from interpreter.runtimes.run_directory import RunDirectory
from interpreter.sandbox.doors import KEY
from interpreter.sandbox.knock import UNREACHABLE

UID = 1000
START_SECONDS = 60
ENGINE_RETRY = 1.0
STOCK_KERNEL = ["-m", "ipykernel_launcher", "-f", "{connection_file}"]


class DockerRuntime(Runtime):
    """Sandboxes as containers of one engine; `prepare` finds out what that engine can do."""

    name = "docker"

    def __init__(self, config: Config) -> None:
        self.isolation = "docker"
        self._config = config
        self._data = config.data_path.resolve()
        self._payload = self._data
        self._images: dict[str, Fitted] = {}
        self._links: dict[str, str] = {}
        """Environment → 'socket' or 'attach'."""
        self._owner = ""
        self._shares_files = True
        self._user, self._outer_uid = f"{UID}:{UID}", UID
        self._stderr: dict[str, attach.Attachment] = {}

    # -- before the first sandbox

    def describe(self) -> str:
        return (
            "isolated by Docker: each session is a container of its own, without a network interface; "
            f"engine {self._engine.api.version()['Version']} at {self._engine.endpoint.host}"
        )

    async def prepare(self, progress: Progress) -> None:
        container.check_mounts(self._config.environments, self._config.allowed_mounts)
        self._engine = await Engine.open(endpoint())
        await asyncio.to_thread(self._prepare)
        info = await self._engine.call(self._engine.api.info)
        self._choose_user(info)
        for name, environment in self._config.environments.items():
            self._check_options(name, info)
            image = environment.image or f"interpreter/{name}"
            progress(f"preparing the image {image}")
            self._images[name] = await fitting.fit(self._engine, image, self._payload)
            await self._try_out(name, progress)

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
        elif _remaps_users(info):
            # The engine names its data after the first of the users it maps to.
            first = Path(info.get("DockerRootDir", "")).name.partition(".")[0]
            self._outer_uid = UID + (int(first) if first.isdecimal() else 0)

    def _check_options(self, name: str, info: dict[str, Any]) -> None:
        configured = self._config.environments[name]
        runtimes = info.get("Runtimes", {})
        if configured.oci_runtime and configured.oci_runtime not in runtimes:
            raise ConfigurationError(
                f"The environment '{name}' wants the OCI runtime '{configured.oci_runtime}', "
                f"and the engine has {', '.join(sorted(runtimes))}.",
                "Add it to the engine's daemon.json, or leave oci_runtime out.",
            )
        if configured.userns and not _remaps_users(info):
            raise ConfigurationError(
                f"The environment '{name}' wants users remapped, and the engine does not do that.",
                'Start the engine with "userns-remap", or leave userns out.',
            )

    async def _try_out(self, name: str, progress: Progress) -> None:
        """Runs one container of an environment with all its options, to see that and how it works."""
        progress(f"trying a container of the environment {name}")
        wanted = self._config.link
        for link in ("socket", "attach") if wanted == "auto" else (wanted,):
            problem = await self._trial(name, link)
            if problem is None:
                self._links[name] = link
                return
        hint = "Look at the environment's settings, and at what the engine can do."
        raise ConfigurationError(f"The environment '{name}' cannot be run here: {problem}", hint)

    async def _trial(self, name: str, link: str) -> str | None:
        """None if a sandbox can be made and reached this way, else why not."""
        id = f"trial-{secrets.token_hex(4)}"
        folder = Path(await asyncio.to_thread(tempfile.mkdtemp, dir=self._data, prefix=".trial-"))
        run = RunDirectory(folder / "run")
        workspace = folder / "workspace"
        try:
            await asyncio.to_thread(workspace.mkdir)
            await asyncio.to_thread(bubblewrap.give, workspace, self._outer_uid)
            await asyncio.to_thread(run.create)
            python = self._images[name].report.python
            knock = ["-m", "interpreter.sandbox.knock", f"{container.RUN}/start"]
            command = [python, "-P", *(knock if link == "socket" else ["-c", "pass"])]
            with run.hand_over() as listener, run.listen() as handed:
                limits = self._config.limits
                shared = run.shared if link == "socket" else None
                made = await self._create(id, name, limits, workspace, shared, command, {})
                exited = asyncio.create_task(attach.exit_code(self._engine, made))
                handing = asyncio.create_task(_hand_over(listener, handed))
                try:
                    async with asyncio.timeout(START_SECONDS):
                        await self._engine.call(self._engine.api.start, made)
                        code = await exited
                finally:
                    for task in (exited, handing):
                        task.cancel()
                    await asyncio.gather(exited, handing, return_exceptions=True)
                    await self._remove(made)
            if code == 0:
                return None
            if code == UNREACHABLE:
                return "the gateway's socket cannot be reached from a container"
            return f"its Python ended with code {code}"
        except (DockerException, OSError, TimeoutError) as e:
            return explain(e) or "it took too long"
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    # -- sandboxes

    async def start(self, id: str, environment: str, limits: Limits, workspace: Path) -> Sandbox:
        if environment not in self._images:
            raise UnknownEnvironment(f"There is no environment '{environment}'.")
        link = self._links[environment]
        run = RunDirectory(self._data / "run" / id)
        handle = ContainerHandle(name=self._name(id), run=str(run.path), link=link)
        starting = asyncio.ensure_future(self._start(handle, id, environment, limits, workspace))
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            await self._end(handle)
            raise
        except (DockerException, OSError, TimeoutError) as e:
            await self._end(handle)
            raise SandboxFailed(f"The container could not be started: {explain(e)}") from e
        except SandboxFailed:
            await self._end(handle)
            raise

    async def _start(
        self, handle: ContainerHandle, id: str, environment: str, limits: Limits, workspace: Path
    ) -> Sandbox:
        run = handle.directory
        await asyncio.to_thread(run.create)
        await asyncio.to_thread(bubblewrap.give, workspace, self._outer_uid)
        key = secrets.token_hex(32)
        command, variables = self._command(environment, limits, handle.link)
        if handle.link == "attach":
            variables[KEY] = key
            handle = dataclasses.replace(handle, key=key)
            made = await self._create(id, environment, limits, workspace, None, command, variables)
            await self._engine.call(self._engine.api.start, made)
        else:
            with run.hand_over() as listener, run.listen() as handed:
                made = await self._create(
                    id, environment, limits, workspace, run.shared, command, variables
                )
                await self._start_and_hand_over(made, listener, handed)
        state = (await self._engine.call(self._engine.api.inspect_container, made))["State"]
        pid = state["Pid"] if self._engine.endpoint.local else None
        return Sandbox(
            id=id,
            environment=environment,
            limits=limits,
            isolation=self._isolation(environment),
            limits_enforced_by="cgroup",
            handle=dataclasses.replace(handle, container=made, pid=pid or None).to_json(),
        )

    async def _start_and_hand_over(
        self, made: str, listener: socket.socket, handed: socket.socket
    ) -> None:
        handing = asyncio.create_task(_hand_over(listener, handed))
        exited = None
        try:
            await self._engine.call(self._engine.api.start, made)
            exited = asyncio.create_task(attach.exit_code(self._engine, made))
            async with asyncio.timeout(START_SECONDS):
                await asyncio.wait({handing, exited}, return_when="FIRST_COMPLETED")
            if not handing.done():
                raise SandboxFailed(f"The container ended at once: {await self._last_words(made)}")
            await handing
        finally:
            tasks = [task for task in (handing, exited) if task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _create(
        self,
        id: str,
        environment: str,
        limits: Limits,
        workspace: Path,
        run: Path | None,
        command: list[str],
        variables: dict[str, str],
    ) -> str:
        blueprint = Blueprint(
            id=id,
            owner=self._owner,
            image=self._images[environment].image,
            command=command,
            environ={**container.environ(id, limits), **variables},
            user=self._user,
            limits=limits,
            configured=self._config.environments[environment],
            workspace=str(workspace.absolute()),
            workspace_is_volume=False,
            run=str(run) if run else None,
        )
        api = self._engine.api
        made = await self._engine.call(lambda: api.create_container(**blueprint.to_engine(api)))
        return str(made["Id"])

    def _command(self, environment: str, limits: Limits, link: str) -> tuple[list[str], dict[str, str]]:
        """What runs in the container, and with which variables of its own."""
        report = self._images[environment].report
        configured = self._config.environments[environment]
        argv, env = configured.argv, {}
        if configured.kernel is not None:
            spec = report.kernelspecs.get(configured.kernel)
            if spec is None:
                known = ", ".join(sorted(report.kernelspecs)) or "none"
                raise ConfigurationError(
                    f"The image has no kernel '{configured.kernel}'. There are: {known}."
                )
            argv, env = spec.argv, spec.env
        elif argv is None and not (report.ipykernel or "").startswith("7."):
            # Our own way of starting ipykernel reaches into its parts, and those of 7 only.
            argv = [report.python, *STOCK_KERNEL]
        told = {
            "start_socket": f"{container.RUN}/start" if link == "socket" else None,
            "scratch": "/tmp",
            "workspace": "/workspace",
            "preload": configured.preload,
            "argv": argv,
            "env": env,
            "transport": configured.transport,
            "matplotlib_cache": report.matplotlib_cache,
            "rlimits": {"file_bytes": limits.file_mb * MEGABYTE},
        }
        return [report.python, "-P", "-m", "interpreter.sandbox", json.dumps(told)], {}

    async def connect(
        self, sandbox: Sandbox, protocol: Callable[[], asyncio.BaseProtocol]
    ) -> asyncio.Transport:
        handle = ContainerHandle.of(sandbox.handle)
        try:
            if handle.link == "attach":
                link = protocol()
                assert isinstance(link, asyncio.Protocol)
                key = bytes.fromhex(handle.key)
                transport, attachment = await attach.attach(self._engine, handle.container, key, link)
                self._stderr[sandbox.id] = attachment
                return transport
            loop = asyncio.get_running_loop()
            connection = handle.directory.connect()
            reached, _ = await loop.create_unix_connection(protocol, sock=connection)
            return reached
        except OSError as e:
            raise SandboxFailed(f"The container cannot be reached: {e}.") from e

    async def find(self, sandbox: Sandbox) -> bool:
        handle = ContainerHandle.of(sandbox.handle)
        try:
            found = await self._engine.call(self._engine.api.inspect_container, handle.container)
        except NotFound:
            return False
        return bool(found["State"]["Running"])

    async def ended(self, sandbox: Sandbox) -> str:
        handle = ContainerHandle.of(sandbox.handle)
        while True:
            try:
                code = await attach.exit_code(self._engine, handle.container)
                break
            except OSError:
                # The engine is restarted, or the way to it is interrupted: the container may go on.
                await asyncio.sleep(ENGINE_RETRY)
        if code is None:
            return "stopped"
        kills = await self.out_of_memory(sandbox)
        words = await self._last_words(handle.container, sandbox)
        return container.reason(code, words, kills, sandbox.limits)

    async def _last_words(self, made: str, sandbox: Sandbox | None = None) -> str:
        """The last lines that the kernel host wrote to stderr."""
        said = b""
        attachment = self._stderr.get(sandbox.id) if sandbox else None
        if attachment is not None:
            said = attachment.stderr
        else:
            with contextlib.suppress(DockerException):
                logs = self._engine.api.logs
                said = await self._engine.call(logs, made, stdout=False, stderr=True, tail=5)
        lines = said[-2000:].decode(errors="replace").splitlines()
        clean = ["".join(c for c in line if c.isprintable()) for line in lines]
        return "\n".join(line for line in clean if line.strip())

    async def usage(self, sandbox: Sandbox) -> Usage | None:
        handle = ContainerHandle.of(sandbox.handle)
        try:
            stats = await self._engine.call(
                self._engine.api.stats, handle.container, stream=False, one_shot=True
            )
        except DockerException:
            return None
        return container.usage(stats)

    async def out_of_memory(self, sandbox: Sandbox) -> int:
        return 0

    async def limit(self, sandbox: Sandbox, limits: Limits) -> Sandbox | None:
        if not enforcement.same(sandbox.limits, limits):
            # The size of a file is in the hands of processes that run already.
            if limits.file_mb != sandbox.limits.file_mb:
                return None
            handle = ContainerHandle.of(sandbox.handle)
            try:
                await self._engine.call(_update, self._engine.api, handle.container, limits)
            except DockerException:
                return None
        return dataclasses.replace(sandbox, limits=limits)

    async def stop(self, sandbox: Sandbox) -> None:
        self._stderr.pop(sandbox.id, None)
        await self._end(ContainerHandle.of(sandbox.handle))

    async def _end(self, handle: ContainerHandle) -> None:
        await self._remove(handle.container or handle.name)
        await asyncio.to_thread(handle.directory.remove)

    async def _remove(self, made: str) -> None:
        """Ends a container and removes it; one that is not there is fine."""
        try:
            await self._engine.call(self._engine.api.remove_container, made, force=True, v=True)
        except NotFound:
            pass
        except APIError as e:
            if e.status_code != 409:  # someone else is removing it already
                raise SandboxFailed(f"A container could not be removed: {explain(e)}") from e

    async def sweep(self, known: Set[str]) -> None:
        filters = {"label": f"{container.OWNER}={self._owner}"}
        found = await self._engine.call(self._engine.api.containers, all=True, filters=filters)
        for one in found:
            if one["Labels"].get(container.SANDBOX) not in known:
                await self._remove(one["Id"])
        await asyncio.to_thread(self._sweep_directories, known)

    def _sweep_directories(self, known: Set[str]) -> None:
        runs = self._data / "run"
        for path in runs.iterdir() if runs.is_dir() else ():
            if path.name not in known:
                RunDirectory(path).remove()
        for path in self._data.glob(".trial-*"):
            shutil.rmtree(path, ignore_errors=True)

    async def close(self) -> None:
        await self._engine.close()

    def _name(self, id: str) -> str:
        return f"interpreter-{self._owner}-{id}"

    def _isolation(self, environment: str) -> str:
        runtime = self._config.environments[environment].oci_runtime
        return f"docker+{runtime}" if runtime else "docker"


async def _hand_over(listener: socket.socket, handed: socket.socket) -> None:
    """Gives the link's socket to the first that comes: cells do not run yet, so it is the host."""
    connection, _ = await asyncio.get_running_loop().sock_accept(listener)
    with connection:
        socket.send_fds(connection, [b"\n"], [handed.fileno()])


def _remaps_users(info: dict[str, Any]) -> bool:
    return any("name=userns" in option for option in info.get("SecurityOptions") or ())


def _update(api: Any, made: str, limits: Limits) -> None:
    """The SDK's own method knows nothing of a limit on processes."""
    wanted = container.limits_for_engine(limits)
    body = {
        "Memory": wanted["mem_limit"],
        "MemorySwap": wanted["memswap_limit"],
        "CpuPeriod": wanted["cpu_period"],
        "CpuQuota": wanted["cpu_quota"],
        "PidsLimit": wanted["pids_limit"],
    }
    answer = api._post_json(api._url("/containers/{0}/update", made), data=body)
    api._raise_for_status(answer)
