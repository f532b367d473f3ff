"""Making sandboxes: a workspace, a container or process, the link, the first kernel. And fitting one
that stands ready to what was asked for."""

from __future__ import annotations

import asyncio
import secrets

import structlog
from msgspec.structs import asdict

from interpreter.config import Config
from interpreter.errors import InterpreterError, SandboxFailed
from interpreter.models import Limits
from interpreter.orchestrator import policy
from interpreter.orchestrator.live_sandbox import LiveSandbox
from interpreter.orchestrator.pool import WarmPool
from interpreter.runtimes.base import Runtime, Sandbox
from interpreter.workspace import InputFolders, Workspaces

log = structlog.get_logger()


def new_id() -> str:
    """For a sandbox, its workspace and its session."""
    return "s-" + secrets.token_hex(8)


class Launcher:
    """Makes sandboxes, for sessions and for the pools, and knows all there are."""

    def __init__(
        self, config: Config, runtime: Runtime, workspaces: Workspaces, inputs: InputFolders
    ) -> None:
        self.known: set[str] = set()
        """The ids of all sandboxes that there are or are being made."""
        self.launching = 0
        """Sandboxes that are being started because someone waits for one."""
        self.pools = {name: self._pool(name, config) for name in config.environments}
        self._config = config
        self._runtime = runtime
        self._workspaces = workspaces
        self._inputs = inputs
        self._slots = asyncio.Semaphore(config.max_creating)

    def _pool(self, environment: str, config: Config) -> WarmPool:
        least, most = policy.pool_size(config, environment)
        return WarmPool(
            environment,
            least,
            most,
            make=lambda: self._launch(new_id(), environment, config.limits, hurry=False),
            discard=self.discard,
            may_fill=lambda: self.launching == 0,
        )

    def fill_pools(self) -> None:
        for pool in self.pools.values():
            pool.fill()

    async def provide(
        self, environment: str, limits: Limits, id: str | None = None
    ) -> tuple[LiveSandbox, str | None]:
        """A sandbox that stood ready and fits, else a new one and why it is new. If it is new it has
        this id."""
        pool = self.pools[environment]
        live = await pool.take()
        if live is None:
            cold = "none was ready" if pool.maximum else "none is kept ready for this environment"
        else:
            live.rouse()
            try:
                misfit = await self.fit(live, limits)
            except BaseException:
                await asyncio.shield(self.discard(live))
                raise
            if misfit is None:
                return live, None
            cold = f"the one that was ready cannot have another {misfit}"
            pool.put_back(live)
        return await self.launch(id or new_id(), environment, limits), cold

    async def launch(
        self, id: str, environment: str, limits: Limits, workspace_id: str | None = None
    ) -> LiveSandbox:
        """A new sandbox for someone who waits, with a new workspace or one that there is."""
        self.launching += 1
        try:
            async with self._slots:
                return await self._launch(id, environment, limits, workspace_id, hurry=True)
        finally:
            self.launching -= 1
            self.fill_pools()

    async def _launch(
        self,
        id: str,
        environment: str,
        limits: Limits,
        workspace_id: str | None = None,
        *,
        hurry: bool,
    ) -> LiveSandbox:
        self.known.add(id)
        try:
            return await self._make(id, environment, limits, workspace_id, hurry)
        except BaseException:
            self.known.discard(id)
            raise

    async def _make(
        self, id: str, environment: str, limits: Limits, workspace_id: str | None, hurry: bool
    ) -> LiveSandbox:
        if workspace_id is None:
            workspace = await self._workspaces.create(id, limits.disk_mb)
        else:
            workspace = await self._workspaces.open(workspace_id)
        try:
            inputs = await self._inputs.create(id)
            sandbox = await self._runtime.start(id, environment, limits, workspace.path, inputs)
            live = self.live(sandbox, workspace_id or id, workspace.disk_enforced_by)
            try:
                await live.launch(hurry=hurry)
            except BaseException as e:
                await asyncio.shield(live.stop())
                if isinstance(e, TimeoutError | ConnectionError):
                    why = live.gone or str(e) or "it took too long"
                    raise SandboxFailed(f"The sandbox did not start: {why}.") from e
                raise
        except BaseException:
            await asyncio.shield(self._inputs.remove(id))
            if workspace_id is None:
                await asyncio.shield(self._workspaces.remove(id))
            raise
        return live

    def live(self, sandbox: Sandbox, workspace_id: str, disk_enforced_by: str) -> LiveSandbox:
        """A sandbox that runs, from now on known."""
        live = LiveSandbox(
            sandbox,
            workspace_id,
            disk_enforced_by,
            self._config,
            self._runtime,
            self._workspaces,
            self._inputs,
        )
        self.known.add(live.id)
        live.on_stopped = lambda: self.known.discard(live.id)
        return live

    async def fit(self, live: LiveSandbox, limits: Limits) -> str | None:
        """Gives a running sandbox other limits. If it cannot have them it stays as it was, and what
        is returned is the name of a limit that cannot be changed."""
        before = live.sandbox
        after = await self._runtime.limit(before, limits)
        if after is None:
            wanted, has = asdict(limits), asdict(before.limits)
            held_by_runtime = ("file_mb", "memory_mb", "processes", "cpus")
            return next(name for name in held_by_runtime if wanted[name] != has[name])
        same_disk = limits.disk_mb == before.limits.disk_mb
        if same_disk or await self._workspaces.grow(live.workspace_id, limits.disk_mb):
            live.sandbox = after
            return None
        await self._runtime.limit(after, before.limits)
        return "disk_mb"

    async def discard(self, live: LiveSandbox) -> None:
        """Ends a sandbox that nobody will use, with its workspace."""
        try:
            await live.stop()
        except InterpreterError as e:
            log.error("a spare sandbox could not be ended", sandbox=live.id, reason=e.message)
        await self._workspaces.remove(live.workspace_id)

    async def close(self) -> None:
        """Ends the sandboxes that nobody has taken."""
        await asyncio.gather(*(pool.close() for pool in self.pools.values()))
