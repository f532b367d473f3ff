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
from interpreter.orchestrator.admission import Admission, OnWait
from interpreter.orchestrator.live_sandbox import LiveSandbox
from interpreter.orchestrator.pool import WarmPool
from interpreter.orchestrator.uses import Use
from interpreter.runtimes.base import Runtime, Sandbox
from interpreter.workspace import InputFolders, Storage
from interpreter.workspace.mount_over import mount_over

log = structlog.get_logger()


def new_id() -> str:
    """For a sandbox, its workspace and its session."""
    return "s-" + secrets.token_hex(8)


class Launcher:
    """Makes sandboxes, for sessions and for the pools, and knows all there are."""

    def __init__(
        self, config: Config, runtime: Runtime, workspaces: Storage, inputs: InputFolders
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
        self._line = Admission(config, config.max_creating, why="sandboxes are being started")

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

    @property
    def queued(self) -> int:
        """How many of those wait until fewer are started at once."""
        return self._line.queued

    def asked(self, environment: str) -> None:
        """Somebody wants a sandbox, and may have to wait for room first."""
        if (pool := self.pools.get(environment)) is not None:
            pool.asked()

    def fill_pools(self) -> None:
        for pool in self.pools.values():
            pool.fill()

    async def provide(
        self,
        environment: str,
        limits: Limits,
        on_wait: OnWait,
        id: str | None = None,
        use: Use | None = None,
    ) -> tuple[LiveSandbox, str | None]:
        """A sandbox that stood ready and fits, else a new one and why it is new. If it is new it has
        this id, and `on_wait` is told when others have to be started first."""
        pool = self.pools[environment]
        cold = await self._why_not_warm(environment, use)
        live = None
        if cold is None:
            live = await pool.take()
            cold = "none was ready" if pool.maximum else "none is kept ready for this environment"
        if live is not None:
            live.rouse()
            try:
                cold = await self._fit_out(live, limits, use)
            except BaseException:
                await asyncio.shield(self.discard(live))
                raise
            if cold is None:
                return live, None
            if live.covered:
                await self.discard(live)
            else:
                pool.put_back(live)
        return await self.launch(id or new_id(), environment, limits, on_wait, use=use), cold

    async def _why_not_warm(self, environment: str, use: Use | None) -> str | None:
        """Why no sandbox that stands ready can have a named workspace; None when it can."""
        if use is None:
            return None
        fixed = self._runtime.workspace_fixed(environment)
        if fixed is not None:
            return f"one that is ready cannot have another workspace: {fixed}"
        if (await use.open()).disk_enforced_by == "nothing":
            return "one that is ready cannot have another workspace: workspaces are plain directories"
        return None

    async def _fit_out(self, live: LiveSandbox, limits: Limits, use: Use | None) -> str | None:
        """Gives a sandbox that stood ready what was asked for; else returns why it cannot have it."""
        misfit = await self.fit(live, limits, with_disk=use is None)
        if misfit is not None:
            return f"the one that was ready cannot have another {misfit}"
        return None if use is None else await self._cover(live, use)

    async def _cover(self, live: LiveSandbox, use: Use) -> str | None:
        """Mounts a named workspace over the one of a sandbox that stood ready."""
        own, files = await self._workspaces.open(live.id), await use.open()
        live.covered = True
        await live.unwatch()
        mounting = asyncio.ensure_future(
            asyncio.to_thread(mount_over, files.path, own.path, read_only=use.read_only)
        )
        try:
            seen = await asyncio.shield(mounting)
            why = await live.move_in(seen, read_only=use.read_only)
        except asyncio.CancelledError:
            # The thread cannot be stopped half-way; what it mounts must not be left behind.
            await asyncio.wait({mounting})
            raise
        except (OSError, SandboxFailed) as e:
            why = f"a workspace could not be mounted over that of the one that was ready: {e}"
        if why is None:
            self._use(live, use)
            live.disk_enforced_by = files.disk_enforced_by
        return why

    def _use(self, live: LiveSandbox, use: Use) -> None:
        live.workspace_id = use.workspace_id
        use.session_id = use.session_id or live.id
        live.use = use

    async def launch(
        self,
        id: str,
        environment: str,
        limits: Limits,
        on_wait: OnWait,
        workspace_id: str | None = None,
        use: Use | None = None,
    ) -> LiveSandbox:
        """A new sandbox for someone who waits: with a new workspace, one that there is, or a use."""
        self.launching += 1
        try:
            turn = await self._line.admit(limits, on_wait)
            try:
                return await self._launch(id, environment, limits, workspace_id, use, hurry=True)
            finally:
                turn.release()
        finally:
            self.launching -= 1
            self.fill_pools()

    async def _launch(
        self,
        id: str,
        environment: str,
        limits: Limits,
        workspace_id: str | None = None,
        use: Use | None = None,
        *,
        hurry: bool,
    ) -> LiveSandbox:
        self.known.add(id)
        try:
            return await self._make(id, environment, limits, workspace_id, use, hurry)
        except BaseException:
            self.known.discard(id)
            raise

    async def _make(
        self,
        id: str,
        environment: str,
        limits: Limits,
        workspace_id: str | None,
        use: Use | None,
        hurry: bool,
    ) -> LiveSandbox:
        if use is not None:
            workspace = await use.open()
        elif workspace_id is not None:
            workspace = await self._workspaces.open(workspace_id)
        else:
            workspace = await self._workspaces.create(id, limits.disk_mb)
        try:
            inputs = await self._inputs.create(id)
            read_only = use is not None and use.read_only
            sandbox = await self._runtime.start(
                id, environment, limits, workspace.path, inputs, read_only
            )
            live = self.live(sandbox, workspace_id or id, workspace.disk_enforced_by)
            if use is not None:
                self._use(live, use)
            try:
                await live.launch(hurry=hurry)
            except BaseException as e:
                why = live.gone or str(e) or "it took too long"
                await asyncio.shield(live.stop())
                if isinstance(e, TimeoutError | ConnectionError):
                    raise SandboxFailed(f"The sandbox did not start: {why}.") from e
                raise
        except BaseException:
            await asyncio.shield(self._inputs.remove(id))
            if workspace_id is None and use is None:
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
        live.on_stopped = lambda: self._stopped(live)
        return live

    async def _stopped(self, live: LiveSandbox) -> None:
        """A sandbox is gone: what there was only for it goes, too."""
        try:
            if live.covered:
                await self._workspaces.remove(live.id)
        finally:
            self.known.discard(live.id)
            if live.use is not None:
                live.use.release()

    async def fit(self, live: LiveSandbox, limits: Limits, *, with_disk: bool = True) -> str | None:
        """Gives a running sandbox other limits. If it cannot have them it stays as it was, and what
        is returned is the name of a limit that cannot be changed. The disk of one with a named
        workspace is not its own."""
        before = live.sandbox
        after = await self._runtime.limit(before, limits)
        if after is None:
            wanted, has = asdict(limits), asdict(before.limits)
            held_by_runtime = ("file_mb", "memory_mb", "processes", "cpus")
            return next(name for name in held_by_runtime if wanted[name] != has[name])
        same_disk = not with_disk or limits.disk_mb == before.limits.disk_mb
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
        await self._workspaces.remove(live.id)

    async def close(self) -> None:
        """Ends the sandboxes that nobody has taken."""
        await asyncio.gather(*(pool.close() for pool in self.pools.values()))
