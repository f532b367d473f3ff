"""A running sandbox: the link into it, its first kernel, and the watch over its end.

It stands ready in a pool until a session takes it, belongs to that session from then on, and is
never used again. It outlives the gateway; the next one attaches to it.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial

from interpreter.config import Config
from interpreter.errors import InputsUnavailable, SandboxFailed
from interpreter.kernel.connection import START_SECONDS, Exit, KernelConnection, Owner
from interpreter.kernel.messages import KernelMessage
from interpreter.link.connection import Link
from interpreter.link.wire import Wire
from interpreter.orchestrator.reconnect import keep_connected
from interpreter.orchestrator.tasks import Tasks
from interpreter.orchestrator.uses import Use
from interpreter.runtimes.base import Meter, Runtime, Sandbox, used_of_limit
from interpreter.workspace import InputFolders, Storage, Watched

LAST_WORDS_SECONDS = 1.0
DEFAULT = "default"
"""The context that every session has."""


class Silent(SandboxFailed):
    """A sandbox was connected to, and said nothing."""


class LiveSandbox:
    """What a session, or a pool, has of a sandbox that runs."""

    def __init__(
        self,
        sandbox: Sandbox,
        workspace_id: str,
        disk_enforced_by: str,
        config: Config,
        runtime: Runtime,
        workspaces: Storage,
        inputs: InputFolders,
    ) -> None:
        self.sandbox = sandbox
        self.workspace_id = workspace_id
        self.disk_enforced_by = disk_enforced_by
        self.covered = False
        """Whether a named workspace is mounted over the one that it was made with."""
        self.use: Use | None = None
        """Its use of a named workspace, which ends when it has ended."""
        self.first_kernel: KernelConnection | None = None
        """The kernel that stands ready in it until a session takes it."""
        self.gone: str | None = None
        """Why it is of no use any more; None while it is."""
        self.on_end: Callable[[str], None] = lambda reason: None
        """Told, once, that it is of no use any more and why."""
        self.on_stopped: Callable[[], Awaitable[None]] = _nothing
        """Told when it was ended by us and need not be known any more."""
        self.describing = asyncio.Lock()
        """Held while a file is described: one at a time."""
        self._config = config
        self._runtime = runtime
        self._inputs = inputs
        self._workspaces = workspaces
        self._watched: Watched | None = None
        self._meter: Meter | None = None
        """Made while it stands ready, for the first who asks."""
        self._link: Link | None = None
        self._numbers: dict[str, int] = {}
        """Context → the number of its newest kernel."""
        self._starting: set[KernelConnection] = set()
        self._oom_kills = 0
        self._left = False
        self._tasks = Tasks(f"sandbox {sandbox.id}")

    @property
    def id(self) -> str:
        return self.sandbox.id

    @property
    def link(self) -> Link:
        assert self._link is not None, "it is not connected"
        return self._link

    @property
    def connected(self) -> bool:
        return self._link is not None

    # -- its life

    async def launch(self, *, hurry: bool) -> None:
        """Connects to a new sandbox and starts its first kernel; in a hurry, without the imports
        that kernels are to have done."""
        self.watch()
        await self.connect(received=0)
        async with asyncio.timeout(START_SECONDS):
            kernel = await self.start_kernel(DEFAULT, Unheard(self.link), {}, hurry=hurry)
            self.first_kernel = kernel
            if not hurry:
                if self._is_ours:
                    await kernel.rehearse()
                # What its session will need, so that nobody has to wait for it then.
                self._meter = await self.meter()
                await self.watched()

    def rouse(self) -> None:
        """Somebody is about to use the kernel that stands ready."""
        if self.first_kernel is not None and self._is_ours:
            self.first_kernel.rouse()

    @property
    def _is_ours(self) -> bool:
        """Whether its kernels are those of ours, for Python."""
        environment = self._config.environments[self.sandbox.environment]
        return environment.argv is None and environment.kernel is None

    async def outfit(self, variables: dict[str, str]) -> None:
        """Has its first kernel know a session's variables: another is forked if it has to be."""
        stood_ready = self.first_kernel
        if stood_ready is not None and not variables:
            return
        self.first_kernel = None
        starting = self.start_kernel(DEFAULT, Unheard(self.link), variables)
        if stood_ready is None:
            self.first_kernel = await starting
        else:
            # Both to the end: what comes of the old one is not for the session.
            self.first_kernel, _ = await asyncio.gather(starting, stood_ready.kill())

    async def move_in(self, seen: tuple[int, int], *, read_only: bool) -> str | None:
        """Has its kernel enter the workspace that was just mounted over its own, which is to be seen
        inside as this device and number; returns what is wrong with it, if anything is."""
        answer = await self.link.command("workspace")
        if (answer.get("device"), answer.get("inode")) != seen:
            return "the workspace was not seen inside of the one that was ready"
        if not answer.get("usable") or not (read_only or answer.get("writable")):
            return "the workspace could not be used inside of the one that was ready"
        kernel = self.first_kernel
        if kernel is None:
            return None
        if self._is_ours:
            await kernel.enter(str(answer.get("place")))
        else:
            # Nobody knows how to tell it where to go: another is started, there.
            self.first_kernel = None
            await kernel.kill()
        return None

    async def connect(self, received: int) -> None:
        """Opens the link; messages up to the number `received` are not sent again."""
        wire = Wire(opens=True, received=received, max_message=self._config.max_message_bytes)
        link = Link(wire, self._on_link_gone)
        connect = partial(self._runtime.connect, self.sandbox, lambda: link)
        await connect()
        self._link = link
        try:
            async with asyncio.timeout(START_SECONDS):
                await link.connected()
            self._oom_kills = await self._runtime.out_of_memory(self.sandbox)
        except BaseException as e:
            # Nothing was taken up by it, and the next try makes another.
            self._link = None
            link.close()
            if isinstance(e, TimeoutError):
                why = f"it said nothing for {START_SECONDS:g} s"
                raise Silent(f"The sandbox does not answer: {why}.") from e
            if isinstance(e, ConnectionError):
                raise SandboxFailed(f"The sandbox does not answer: {e}.") from e
            raise
        self._tasks.spawn(keep_connected(link, connect, self.id))
        for info in wire.streams.values():
            context, _, number = str(info.get("kernel")).rpartition(".")
            if number.isdecimal() and len(number) < 10:
                self._numbers[context] = max(int(number), self._numbers.get(context, 0))

    def watch(self) -> None:
        """Begins to wait for its end."""

        async def wait() -> None:
            reason = await self._runtime.ended(self.sandbox)
            if self._link is not None:
                # What it said before its end is still to be read.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LAST_WORDS_SECONDS):
                        await self._link.lost()
            self._end(f"the sandbox ended: {reason}")

        self._tasks.spawn(wait())

    async def pause(self) -> None:
        self._freeze(True)
        try:
            await self._runtime.pause(self.sandbox)
        except BaseException:
            self._freeze(False)
            raise

    async def resume(self) -> None:
        await self._runtime.resume(self.sandbox)
        self._freeze(False)

    def _freeze(self, frozen: bool) -> None:
        if self._link is not None:
            self._link.frozen = frozen

    async def leave(self) -> None:
        """The gateway stops; the sandbox goes on, and the next gateway takes it up."""
        self._left = True
        self._tasks.cancel()
        if self._link is not None:
            self._link.close()
        if self._meter is not None:
            self._meter.close()
        if self._watched is not None:
            await self._watched.close()

    async def stop(self) -> None:
        """Ends it, and everything that runs in it; its workspace stays."""
        self.gone = self.gone or "it was stopped"
        await self.leave()
        try:
            await self._runtime.stop(self.sandbox)
            await self._inputs.remove(self.id)
        finally:
            # What could not be ended is a stray from now on, and swept away later.
            await self.on_stopped()

    # -- kernels

    async def start_kernel(
        self, context: str, owner: Owner, variables: dict[str, str], *, hurry: bool = True
    ) -> KernelConnection:
        number = self._numbers[context] = self._numbers.get(context, 0) + 1
        kernel = KernelConnection(self.link, f"{context}.{number}", owner)
        self._starting.add(kernel)
        try:
            async with asyncio.timeout(START_SECONDS):
                await kernel.start(variables, hurry=hurry)
        except TimeoutError:
            raise SandboxFailed(f"A kernel did not answer within {START_SECONDS:g} s.") from None
        finally:
            self._starting.discard(kernel)
        return kernel

    def adopt_kernel(self, context: str, owner: Owner) -> KernelConnection | None:
        """The kernel that an earlier gateway started for a context, if it is still there."""
        kernel = KernelConnection(self.link, f"{context}.{self._numbers.get(context, 0)}", owner)
        return kernel if kernel.adopt() else None

    async def kill_all_but(self, contexts: Collection[str]) -> None:
        """Ends the kernels of contexts that nobody knows of, and those that were already replaced."""
        kept = {f"{context}.{self._numbers.get(context, 0)}" for context in contexts}
        there = {str(i["kernel"]) for i in self.link.wire.streams.values() if "kernel" in i}
        for kernel in there - kept:
            await self.link.command("signal", kernel=kernel, signal=int(signal.SIGKILL))

    async def see(self, inputs: Mapping[str, str]) -> None:
        """Has it see these versions of datasets, and no others. Raises InputsUnavailable."""
        try:
            await self._inputs.settle(self.id, inputs)
        except FileNotFoundError:
            raise InputsUnavailable(
                "This session's sandbox was started without a folder for inputs.",
                "Stop the session and start it again.",
            ) from None

    async def meter(self) -> Meter | None:
        """One that nobody else has; to be closed."""
        ready, self._meter = self._meter, None
        return ready or await self._runtime.meter(self.sandbox)

    async def watched(self) -> Watched | None:
        """Its workspace, watched for what cells change in it; None where that cannot be."""
        if self._watched is None and not self._left:
            self._watched = await self._workspaces.watch(self.workspace_id)
            if self._left and self._watched is not None:
                await self._watched.close()
        return self._watched

    async def unwatch(self) -> None:
        """Its workspace is about to be another one."""
        watched, self._watched = self._watched, None
        if watched is not None:
            await watched.close()

    async def why(self, exit: Exit) -> str:
        """Why a kernel ended, in words."""
        kills = await self._runtime.out_of_memory(self.sandbox)
        before, self._oom_kills = self._oom_kills, kills
        # A child of its may have been killed for memory long before.
        if kills <= before or not exit.killed:
            return exit.describe()
        usage = await self._runtime.usage(self.sandbox)
        return f"the kernel ran out of memory: {used_of_limit(usage, self.sandbox.limits)}"

    # -- its end

    def _on_link_gone(self, reason: str) -> None:
        """A connection ended. It is made again, unless the sandbox itself is the problem."""
        if self._link is not None and self._link.broken:
            self._end(reason)

    def _end(self, reason: str) -> None:
        if self.gone is None and not self._left:
            self.gone = reason
            if self._link is not None:
                self._link.close()
            for kernel in self._starting:
                kernel.lost(reason)
            self.on_end(reason)


async def _nothing() -> None:
    pass


class Unheard:
    """The owner of a kernel that stands ready: nobody listens yet to what it says."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def on_message(self, message: KernelMessage, number: int) -> None:
        self._link.handled(number)

    def on_oversized(self, parts: list[bytes], size: int, number: int) -> None:
        self._link.handled(number)

    def on_malformed(self, channel: str, problem: str, number: int) -> None:
        self._link.handled(number)

    def on_exit(self, kernel: str, exit: Exit, number: int) -> None:
        self._link.handled(number)

    def on_passed(self, number: int) -> None:
        self._link.handled(number)
