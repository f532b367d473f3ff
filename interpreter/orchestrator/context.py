"""One context of a session: a kernel, and the cells that run in it.

A context survives its kernel: when the kernel dies, the running cell ends as `lost` with the
reason, and a new kernel is forked from the sandbox's zygote.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from interpreter.config import Config
from interpreter.errors import SandboxFailed
from interpreter.kernel.connection import Exit, KernelConnection
from interpreter.models import Context as ContextModel
from interpreter.models import ExecutionStatus, Limits
from interpreter.orchestrator.cell import Cell
from interpreter.orchestrator.cells import Cells
from interpreter.orchestrator.events import EventLog
from interpreter.orchestrator.history import History
from interpreter.orchestrator.kernel_listener import KernelListener
from interpreter.orchestrator.live_sandbox import LiveSandbox
from interpreter.orchestrator.taps import Taps
from interpreter.orchestrator.tasks import Tasks

RESTARTS = 2
"""How often a kernel that does not start is tried again before the session fails."""


class Context:
    """A kernel of a session, whichever it is at the moment."""

    def __init__(
        self,
        name: str,
        session_id: str,
        config: Config,
        limits: Limits,
        events: EventLog,
        history: History,
        variables: dict[str, str],
        *,
        late_results: bool,
        others: Callable[[], Iterable[Cells]],
        on_activity: Callable[[], None],
        on_restart: Callable[[str], None],
        on_failure: Callable[[str], None],
        taps: Taps,
        created_at: datetime | None = None,
    ) -> None:
        self.name = name
        self.created_at = created_at or datetime.now(UTC)
        self.cells = Cells(
            config,
            limits,
            events,
            history,
            late_results=late_results,
            on_activity=on_activity,
            others=others,
        )
        self.listener = KernelListener(
            session_id, name, self.cells, config.max_message_bytes, self._on_exit, taps
        )
        self._taps = taps
        self._variables = variables
        self._on_restart, self._on_failure = on_restart, on_failure
        self._live: LiveSandbox | None = None
        self._kernel: KernelConnection | None = None
        self._changing = asyncio.Lock()
        self._there = asyncio.Event()
        """Whether its kernel can be talked to: not while it is being replaced."""
        self._tasks = Tasks(f"context {name} of {session_id}")

    @property
    def changing(self) -> bool:
        """Whether its kernel is being replaced."""
        return self._changing.locked()

    @property
    def busy(self) -> bool:
        return self.cells.busy or self._changing.locked()

    def model(self) -> ContextModel:
        return ContextModel(name=self.name, busy=self.busy, created_at=self.created_at)

    # -- the kernel comes and goes

    async def begin(self, live: LiveSandbox, ready: KernelConnection | None = None) -> None:
        """Takes the kernel that stands ready in a sandbox, or starts one."""
        await self._measure(live)
        if ready is None:
            ready = await live.start_kernel(self.name, self.listener, self._variables)
        self._kernel = ready
        self._there.set()
        self.cells.attach(ready)

    async def take_up(self, live: LiveSandbox, unfinished: list[Cell]) -> None:
        """Takes over the kernel and the cells that an earlier gateway left."""
        await self._measure(live)
        kernel = live.adopt_kernel(self.name, self.listener)
        if kernel is None:
            self.cells.abandon(unfinished, "its kernel had ended when the gateway started again")
            self._tasks.spawn(self._replace("its kernel had ended"))
            return
        self._kernel = kernel
        self._there.set()
        self.cells.take_up(unfinished)
        self._tasks.spawn(self._resume(kernel))

    async def _resume(self, kernel: KernelConnection) -> None:
        with contextlib.suppress(SandboxFailed):  # the kernel's end is reported by itself
            await self.cells.resume(kernel)

    async def _measure(self, live: LiveSandbox) -> None:
        self._live = live
        self._stop_measuring()
        self.cells.meter = await live.meter()
        self.cells.watched = await live.watched()

    def _stop_measuring(self) -> None:
        if self.cells.meter is not None:
            self.cells.meter.close()
            self.cells.meter = None

    def lose(self, reason: str, status: ExecutionStatus = ExecutionStatus.lost) -> None:
        """The sandbox is gone, and the kernel with it."""
        self._tasks.cancel()
        if self._kernel is not None:
            self._kernel.lost(reason)
            self._kernel = None
        self._there.set()
        self._live = None
        self.cells.detach()
        self.cells.end_all(status, reason)
        self._stop_measuring()
        self._taps.state(self.name, "dead")

    async def end(self) -> None:
        """The context is deleted: its cells are cancelled and its kernel is ended."""
        kernel, self._kernel = self._kernel, None
        self.cells.detach()
        if kernel is not None:
            with contextlib.suppress(ConnectionError):  # then it ends with its sandbox
                await kernel.kill()
        self.lose("its context was deleted", ExecutionStatus.cancelled)
        await self.cells.close()

    async def leave(self) -> None:
        """The gateway stops; the kernel goes on."""
        self._tasks.cancel()
        await self.cells.close()
        self._stop_measuring()

    # -- what callers ask for

    async def interrupt(self) -> None:
        """Interrupts the cell that runs, as Ctrl-C does; does nothing when none does."""
        kernel, cell = self._kernel, self.cells.current
        if kernel is not None and cell is not None:
            await self.cells.sent()
            try:
                await kernel.interrupt(cell.id)
            except ConnectionError as e:
                raise SandboxFailed(f"The sandbox is gone: {e}.") from e

    async def interrupt_anything(self) -> None:
        """Interrupts whatever the kernel does, a cell or not."""
        if self.cells.current is not None:
            await self.interrupt()
        elif self._kernel is not None:
            try:
                await self._kernel.interrupt()
            except ConnectionError as e:
                raise SandboxFailed(f"The sandbox is gone: {e}.") from e

    def takes(self, channel: str) -> bool:
        """Whether the kernel can be sent another message now."""
        return self._there.is_set() and self._kernel is not None and self._kernel.takes(channel)

    async def room(self, channel: str) -> None:
        """Returns when the kernel can be sent another message, or there will be none any more."""
        while not self.takes(channel):
            await self._there.wait()
            if self._kernel is None:
                raise SandboxFailed("The kernel is gone.")
            await self._kernel.room(channel)

    def pass_on(self, channel: str, parts: list[bytes]) -> None:
        """Sends the kernel a message that is no cell: header, parent, metadata, content, buffers."""
        if self._kernel is not None:
            self._kernel.pass_on(channel, parts)

    async def restart(self) -> None:
        """A new kernel: memory is gone, files stay. Cells that run or wait are cancelled."""
        replacing = self._tasks.spawn(self._replace("the kernel was restarted", asked=True))
        await asyncio.wait({replacing})
        if replacing.cancelled() or isinstance(replacing.exception(), ConnectionError):
            raise SandboxFailed("The sandbox ended while its kernel was restarted.")
        replacing.result()

    # -- when a kernel dies

    def _on_exit(self, name: str, exit: Exit) -> None:
        if self._kernel is not None and self._kernel.name == name and not self._changing.locked():
            self._there.clear()
            self._tasks.spawn(self._after_death(exit))

    async def _after_death(self, exit: Exit) -> None:
        assert self._live is not None
        await self._replace(await self._live.why(exit))

    async def _replace(self, reason: str, *, asked: bool = False) -> None:
        """Ends what is left of the old kernel, says why, and starts a new one."""
        async with self._changing:
            live = self._live
            if live is None or live.gone is not None:
                return
            self._there.clear()
            self.cells.detach()
            if self._kernel is not None:
                await self._kernel.kill()
            status = ExecutionStatus.cancelled if asked else ExecutionStatus.lost
            self.cells.end_all(status, reason)
            self._on_restart(reason)
            if not asked:  # else whoever asked knows, and takes this for a crash
                self._taps.state(self.name, "restarting")
            # A gateway that comes after this one hears only the new kernel: what it does not find
            # ended by then it would send once more.
            await self.cells.settled()
            if live.gone is not None:
                return
            for attempt in range(1, RESTARTS + 1):
                try:
                    kernel = await live.start_kernel(self.name, self.listener, self._variables)
                    break
                except (SandboxFailed, ConnectionError) as e:
                    if live.gone is not None:
                        return
                    if attempt == RESTARTS:
                        self._on_failure(f"no new kernel could be started: {e}")
                        return
        self._kernel = kernel
        self._there.set()
        self.cells.attach(kernel)
