"""One session: its settings, its history, its state, and its sandbox while it has one.

A session outlives its kernels and its sandbox. It can be paused (frozen, memory kept), stopped (the
sandbox ends; files, history and settings stay) and started again in a new sandbox.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import structlog
from msgspec.structs import replace

from interpreter.config import Config
from interpreter.errors import (
    ContextExists,
    ContextNotFound,
    ExecutionsUsedUp,
    InputNotExpected,
    InterpreterError,
    SandboxFailed,
    TooManyContexts,
    WrongState,
)
from interpreter.models import (
    EventType,
    ExecutionCreate,
    GivenCell,
    Limits,
    Running,
    Session,
    SessionState,
    Usage,
)
from interpreter.models.commands import CommandCreate
from interpreter.orchestrator import expiry, states
from interpreter.orchestrator.admission import Waiter
from interpreter.orchestrator.cell import Cell, Sent
from interpreter.orchestrator.cells import Cells
from interpreter.orchestrator.clock import tick
from interpreter.orchestrator.command import Command
from interpreter.orchestrator.commands import Commands
from interpreter.orchestrator.context import Context
from interpreter.orchestrator.events import EventLog
from interpreter.orchestrator.history import MAX_SHOWN, History
from interpreter.orchestrator.live_sandbox import DEFAULT, LiveSandbox
from interpreter.orchestrator.notebook import NotebookReplay
from interpreter.orchestrator.processes import SandboxProcesses
from interpreter.orchestrator.taps import Taps
from interpreter.orchestrator.tasks import Tasks
from interpreter.orchestrator.terminals import Terminal, Terminals
from interpreter.orchestrator.unfinished import save_journaled, unfinished_cells
from interpreter.store import SessionRecord, Store, saving_session

log = structlog.get_logger()

KNOWN_IDS = 1000
"""Executions whose ids are remembered, so that one that is sent again is not run again."""


class LiveSession:
    """A session as the gateway knows it. `record` is all that is stored of it."""

    def __init__(
        self,
        record: SessionRecord,
        config: Config,
        store: Store,
        last_seq: int | None = None,
        cells: list[GivenCell] | None = None,
    ) -> None:
        """`last_seq` is the number of the last event of one that was there before; None if it is new.
        `cells` are those of the notebook that a new one is to replay."""
        self.record = record
        self.live: LiveSandbox | None = None
        self.contexts: dict[str, Context] = {}
        self.events = EventLog(record.id, store, last_seq or 0)
        self.history = History(record.id, store, self.events, config.max_output_bytes, self.knows)
        self.commands = Commands(
            config,
            record.limits,
            self.events,
            self.history,
            late_results=False,
            on_activity=self._on_activity,
            others=self._all_that_run,
        )
        self.commands.variables = record.env
        self.terminals = Terminals(
            record.id,
            self.events,
            record.env,
            self.touch,
            record.terminals,
            lambda known: self.update(terminals=known),
        )
        self.taps = Taps()
        """Who listens to its kernels besides."""
        self.asked_before: dict[str, tuple[Sent, str | None]] = {}
        """Of the cells that an earlier gateway left unfinished for Jupyter clients: who sent them, and
        from which cells of their notebooks."""
        self.last_activity = record.last_activity
        self.active_tick = tick()
        self.executions = 0
        self.known_ids: OrderedDict[str, None] = OrderedDict()
        self.created = asyncio.Event()
        """Whether it is neither being created nor being found again."""
        self.elsewhere: str | None = None
        """Why this gateway cannot do anything with it, though its sandbox may be there."""
        self.waiter: Waiter | None = None
        """Its place in the line that it was told to wait in last."""
        self.on_sandbox: Callable[[LiveSession], None] = lambda session: None
        """Told when it has got, resumed or lost its sandbox."""
        self._config = config
        self._store = store
        self.attaching = asyncio.Lock()
        """Held while its inputs are changed."""
        self.updating = asyncio.Lock()
        """Held while its limits are changed, which a start of it waits for."""
        self._changing = asyncio.Lock()
        self._remembering = asyncio.Lock()
        self._caught_up = self._remembers = last_seq is None
        self._taking_up = False
        """Whether what an earlier gateway left is being connected to."""
        self._freezing = False
        """Whether it is about to be paused: whoever wants to use it waits, and resumes it."""
        self._tasks = Tasks(f"session {record.id}")
        self.replay = None if record.replay is None else NotebookReplay(self, store, cells)
        """The notebook that it was created with."""

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def state(self) -> SessionState:
        return SessionState(self.record.state)

    @property
    def limits(self) -> Limits:
        return self.record.limits

    def model(self, usage: Usage | None = None) -> Session:
        record = self.record
        position = None if self.waiter is None else self.waiter.position()
        return Session(
            id=record.id,
            name=record.name,
            state=self.state,
            reason=record.reason,
            environment=record.environment,
            runtime=record.runtime,
            isolation=record.isolation,
            warm=record.warm,
            cold_because=record.cold_because,
            queue_position=position,
            queue_deadline=self.waiter.deadline if self.waiter and position else None,
            labels=record.labels,
            limits=record.limits,
            limits_enforced_by=record.limits_enforced_by,
            disk_enforced_by=record.disk_enforced_by,
            workspace=record.workspace,
            workspace_read_only=record.workspace_read_only,
            owner=record.owner,
            usage=usage,
            on_idle=record.on_idle,
            remaining=expiry.remaining(record, self.active_tick, self.executions),
            contexts=list(self.contexts or record.contexts),
            running=self._running(),
            inputs=sorted(record.inputs),
            replay=None if record.replay is None else record.replay.progress,
            created_at=record.created_at,
            last_activity=self.last_activity,
            expires_at=expiry.expires_at(record, self.active_tick),
        )

    def _running(self) -> list[Running]:
        cells = [cells.current for cells in self._all_cells() if cells.current is not None]
        return [cell.running() for cell in (*cells, *self.commands.running)]

    def update(self, **changes: Any) -> asyncio.Future[None]:
        """Changes what is stored of it; what is returned is done when it is."""
        self.record = replace(self.record, **changes)
        for context in self.contexts.values():
            context.cells.limits = self.limits
        self.commands.limits = self.limits
        return self.events.along(saving_session(replace(self.record, last_activity=self.last_activity)))

    async def stored(self, saved: asyncio.Future[None]) -> None:
        """Returns when an update is stored, soon: somebody is told that it is."""
        self.events.flush()
        self._store.hurry()
        await asyncio.shield(saved)

    # -- it gets a sandbox

    async def begin(
        self, live: LiveSandbox, *, cold_because: str | None, cause: str, reason: str | None = None
    ) -> None:
        """Takes a new sandbox for its own; returns when that is stored. If it cannot, the sandbox is
        ended, and the session is as one that got none."""
        again = self.record.workspace_id is not None
        try:
            await self._begin(live, cold_because=cold_because, cause=cause, reason=reason)
        except Exception as e:
            problem = e if isinstance(e, InterpreterError) else SandboxFailed(live.gone or str(e))
            if self.live is live:  # else its end is seen to already
                self.not_created(problem.message, again=again)
                try:
                    await live.stop()
                except InterpreterError as left:
                    log.error("a sandbox could not be ended", sandbox=live.id, reason=left.message)
            raise problem from e

    async def _begin(
        self, live: LiveSandbox, *, cold_because: str | None, cause: str, reason: str | None
    ) -> None:
        self.take(live)
        self._check_has(live)
        kernel, live.first_kernel = live.first_kernel, None
        assert kernel is not None, "it has one since it was launched"
        context = self._make_context(DEFAULT)
        kernel.owner = context.listener  # before anything else can come from it
        self.events.flush()
        saved = self.update(
            warm=cold_because is None,
            cold_because=cold_because,
            environment=live.sandbox.environment,
            isolation=live.sandbox.isolation,
            limits=live.sandbox.limits,
            limits_enforced_by=live.sandbox.limits_enforced_by,
            disk_enforced_by=live.disk_enforced_by,
            workspace_id=live.workspace_id,
            language=kernel.language,
            sandbox_id=live.id,
            handle=live.sandbox.handle,
            started_tick=tick(),
            reason=reason,
            contexts={DEFAULT: context.created_at},
        )
        if self.replay is not None:
            self.replay.write_down()
            await self.replay.load()
        self.events.connect(live.link.wire.received, live.link.handled)
        live.link.on_passed = self.events.passed
        await context.begin(live, kernel)
        self._check_has(live)
        self.commands.enter(live)
        self.terminals.enter(live)
        self._change(SessionState.ready, cause)
        self.touch()
        if self.replay is not None:
            self.replay.go_on()
        self.created.set()
        self.on_sandbox(self)
        # Whoever is told of it finds it again, also after the gateway was killed.
        await self.stored(saved)

    async def take_up(self, live: LiveSandbox) -> None:
        """Goes on with the sandbox that an earlier gateway left, which is there and awake. If it cannot
        be reached, that can be tried again."""
        self._taking_up = True
        try:
            await self._take_up(live)
        except Exception as e:
            await self._not_taken_up(live, e.message if isinstance(e, InterpreterError) else str(e))
            raise
        finally:
            self._taking_up = False

    async def _take_up(self, live: LiveSandbox) -> None:
        received = await self._store.received(self.id)
        left = await unfinished_cells(self._store, self.id, self._config)
        if self.replay is not None:
            await self.replay.load()
            self.replay.recognize(left)
        await live.connect(received)
        self._check_has(live)
        self.events.flush()
        self.events.connect(received, live.link.handled)
        live.link.on_passed = self.events.passed
        commands = [cell for cell in left if isinstance(cell, Command)]
        unfinished = [cell for cell in left if not isinstance(cell, Command)]
        if self.state is not SessionState.busy:
            self._change(SessionState.busy, "the gateway started again")
        for name, created_at in self.record.contexts.items():
            context = self._make_context(name, created_at)
            await context.take_up(live, [c for c in unfinished if c.context == name])
            self._check_has(live)
        homeless = [c for c in unfinished if c.context not in self.contexts]
        self.contexts[DEFAULT].cells.abandon(homeless, "its context was gone")
        await self.commands.resume_in(live, commands)
        self._check_has(live)
        self.terminals.resume_in(live, self.limits)
        if self.replay is not None:
            self.replay.go_on()
        self.asked_before = {c.id: (c.sent, c.notebook_cell) for c in unfinished if c.sent is not None}
        # After the contexts' own first steps, which were just set going.
        asyncio.get_running_loop().call_soon(live.link.begin)
        self._tasks.spawn(live.kill_all_but(self.contexts))
        self.created.set()
        self.on_sandbox(self)

    def _check_has(self, live: LiveSandbox) -> None:
        if self.live is not live or live.gone is not None:
            raise SandboxFailed(live.gone or "its sandbox ended while it was taken up")

    def keep_paused(self, live: LiveSandbox) -> None:
        """An earlier gateway left it paused: it is connected to when it is resumed."""
        self._check_has(live)
        if self.state is not SessionState.paused:
            self._change(SessionState.paused, "it was paused when the gateway started again")
        self.created.set()
        self.on_sandbox(self)

    def take(self, live: LiveSandbox) -> None:
        """A sandbox is its own from now on, though it may not be connected to yet."""
        self.live = live
        live.on_end = self._on_sandbox_end

    async def catch_up(self) -> None:
        """Stores what an earlier gateway only wrote down or did not come to save again, once."""
        async with self._remembering:
            if not self._caught_up:
                await save_journaled(self._store, self.id, self.events)
                self.history.amend(set(await self._store.outdated(self.id)))
                self._caught_up = True

    async def remember(self) -> None:
        """Reads from the store what it is to know of its history, unless it does."""
        if self._remembers:
            return
        await self.catch_up()
        async with self._remembering:
            if self._remembers:
                return
            self.executions = await self._store.count_executions(self.id)
            ids = await self._store.last_executions(self.id, KNOWN_IDS)
            self.known_ids = OrderedDict.fromkeys([*ids, *self.known_ids])
            self.history.set_displays(await self._store.displays(self.id, MAX_SHOWN))
            self._remembers = True

    def _let_go(self, stored: asyncio.Future[None]) -> None:
        """It has no sandbox, and all that came of it is stored: what else of it is in memory can be read
        from there."""
        if stored.cancelled() or stored.exception() is not None:
            return
        if self.state in (SessionState.stopped, SessionState.failed):
            self._remembers = False
            self.known_ids.clear()
            self.history.let_go()
            self.events.let_go()

    async def give_up(self, reason: str) -> None:
        """An earlier gateway's sandbox is gone: ends what ran in it."""
        await self.abandon(reason)
        self._end(SessionState.stopped, reason)

    async def abandon(self, reason: str) -> None:
        """Ends the cells that an earlier gateway left, of which no kernel will say anything more: their
        sandbox is gone, or goes, before it was connected to again."""
        await save_journaled(self._store, self.id, self.events)
        await self.history.settled()
        unfinished = await unfinished_cells(self._store, self.id, self._config)
        # Those that were taken up already end with their context.
        left = [cell for cell in unfinished if self.history.get(cell.id) is None]
        if left:
            taken_up = self.contexts.pop(DEFAULT, None)
            context = self._make_context(DEFAULT)
            context.cells.abandon(left, reason)
            del self.contexts[DEFAULT]
            if taken_up is not None:
                self.contexts[DEFAULT] = taken_up
            await context.leave()

    # -- contexts

    def _make_context(self, name: str, created_at: datetime | None = None) -> Context:
        environment = self._config.environments.get(self.record.environment)
        context = self.contexts[name] = Context(
            name,
            self.id,
            self._config,
            self.limits,
            self.events,
            self.history,
            self.record.env,
            late_results=environment is not None and environment.argv is not None,
            others=self._all_that_run,
            on_activity=self._on_activity,
            on_restart=self._on_kernel_restart,
            on_failure=self._on_sandbox_end,
            taps=self.taps,
            created_at=created_at,
        )
        if name == DEFAULT:
            context.cells.on_end = self._on_cell_end
        return context

    def _on_cell_end(self, cell: Cell, cells: Cells) -> None:
        if self.replay is not None:
            self.replay.ended(cell, cells)

    def _all_cells(self) -> Iterable[Cells]:
        return [context.cells for context in self.contexts.values()]

    def _all_that_run(self) -> Iterable[Cells]:
        return [*self._all_cells(), self.commands]

    def context(self, name: str) -> Context:
        if name not in self.contexts:
            self.check_here()
            raise ContextNotFound(f"This session has no context '{name[:100]}'.")
        return self.contexts[name]

    async def create_context(self, name: str) -> Context:
        self._store.condition.check()
        await self.created.wait()
        async with self._changing:
            await self._resume("it is used again")
            self._check_awake()
            if name in self.contexts:
                raise ContextExists(f"This session has a context '{name}' already.")
            if len(self.contexts) >= self.limits.contexts:
                raise TooManyContexts(f"{len(self.contexts)} contexts are there, and no more may be.")
            assert self.live is not None
            context = self._make_context(name)
            try:
                await context.begin(self.live)
            except BaseException as e:
                await self._drop_context(context)
                if isinstance(e, ConnectionError):
                    raise SandboxFailed(f"The context got no kernel: {e}.") from e
                raise
            await self._save_contexts(f"context {name} was created")
            return context

    async def delete_context(self, name: str) -> None:
        if name == DEFAULT:
            raise WrongState(
                "The context 'default' stays as long as its session.", "Restart it instead."
            )
        await self.created.wait()
        async with self._changing:
            await self._resume("it is used again")
            self._check_awake()
            await self._drop_context(self.context(name))
            await self._save_contexts(f"context {name} was deleted")

    async def _drop_context(self, context: Context) -> None:
        self.contexts.pop(context.name, None)
        await context.end()

    async def _save_contexts(self, reason: str) -> None:
        """Returns when it is stored: whoever is told of a context finds it again."""
        self.touch()
        facts = {"contexts": list(self.contexts), "reason": reason}
        self.events.append(EventType.status, None, facts)
        created = {c.name: c.created_at for c in self.contexts.values()}
        await self.stored(self.update(contexts=created))

    # -- what callers ask for

    @property
    def most_output_bytes(self) -> int:
        """What the result of a cell carries at most, if that is asked for."""
        return self._config.max_message_bytes

    @property
    def awake(self) -> bool:
        """Whether cells can be sent without waiting for anything."""
        awake = self.created.is_set() and self.record.state in ("ready", "busy")
        return awake and not self._freezing

    def knows(self, execution_id: str) -> bool:
        """Whether a cell with this id was sent before, and not so long ago that it is forgotten."""
        if execution_id in self.known_ids:
            self.known_ids.move_to_end(execution_id)  # it may be one that goes on and on printing
            return True
        return self.history.active(execution_id) is not None

    async def submit(self, id: str, request: ExecutionCreate) -> Cell:
        await self.come_awake()
        return self.submit_now(id, request)

    def submit_now(
        self,
        id: str,
        request: ExecutionCreate,
        *,
        silent: bool = False,
        expressions: Mapping[str, Any] | None = None,
        of_notebook: bool = False,
        notebook_cell: str | None = None,
        sent: Sent | None = None,
    ) -> Cell:
        """Runs a cell in a session that is awake."""
        self._check_awake()
        context = self.context(request.context)
        self._check_executions()
        cell = context.cells.submit(
            id,
            self.id,
            request,
            silent=silent,
            expressions=expressions,
            notebook_cell=notebook_cell,
            of_notebook=of_notebook,
            sent=sent,
        )
        self._count(cell)
        return cell

    def run_command(self, id: str, request: CommandCreate) -> Command:
        """Runs a command in a session that is awake."""
        self._check_awake()
        self._check_executions()
        command = self.commands.run(id, self.id, request)
        self._count(command)
        return command

    async def terminal(self, name: str) -> Terminal:
        """The terminal of this name, made if it is not there."""
        await self.wake()
        self.touch()
        return await self.terminals.open(name, self.limits)

    def cells_of(self, cell: Cell) -> Cells:
        """Who runs it."""
        return self.commands if isinstance(cell, Command) else self.context(cell.context).cells

    def _check_executions(self) -> None:
        if self.executions >= self.limits.executions:
            raise ExecutionsUsedUp(f"This session has run its {self.limits.executions:,} cells.")

    def _count(self, cell: Cell) -> None:
        left = self.limits.executions - self.executions
        self.known_ids[cell.id] = None
        if len(self.known_ids) > KNOWN_IDS:
            self.known_ids.popitem(last=False)
        self.executions += 1
        if left - 1 == min(10, self.limits.executions // 10):
            message = f"{left - 1} more cells can be run in this session."
            self.warn("executions", message, left - 1, cell.id)

    def answer_input(self, execution_id: str, value: str) -> None:
        cell = self.history.active(execution_id)
        if cell is None:
            raise InputNotExpected("This cell is not waiting for input.")
        self.cells_of(cell).answer_input(cell, value)

    async def interrupt(self, context: str) -> None:
        await self.wake()
        await self.context(context).interrupt()

    async def restart(self, context: str) -> None:
        await self.wake()
        self.touch()
        await self.context(context).restart()
        await self.events.settled()
        if self.state is SessionState.failed:
            raise SandboxFailed(f"The kernel could not be restarted: {self.record.reason}")

    async def come_awake(self) -> None:
        """The same as `wake`, in no time for a session that is awake."""
        if not self.awake:
            await self.wake()

    async def processes(self) -> SandboxProcesses:
        await self.wake()
        assert self.live is not None
        return SandboxProcesses(self.live.link, lambda id: self.history.active(id) is None)

    async def wake(self) -> None:
        """Returns when it can be used: waits for one that is created, resumes one that is paused."""
        await self.created.wait()
        if self.state is SessionState.paused or self._freezing:
            await self.resume("it is used again")
        self._check_awake()

    def check_here(self) -> None:
        if self.elsewhere is not None:
            raise WrongState(self.elsewhere, "Start a gateway that can reach it.")

    def _check_awake(self) -> None:
        self.check_here()
        if self.state not in states.AWAKE:
            raise WrongState(
                f"This session is {self.state.value}: {self.record.reason}",
                f"POST /v1/sessions/{self.id}/start starts it again, without what was in memory.",
            )

    def awaited(self) -> list[Cell]:
        """What runs and may have somebody who waits for its end."""
        cells = [cells.current for cells in self._all_cells() if cells.current is not None]
        return [*cells, *(c for c in self.commands.running if not c.asked.background)]

    def hold_queues(self) -> None:
        """The gateway is about to stop: what waits to be run waits for the next one."""
        for cells in self._all_cells():
            cells.holds_queue = True

    def touch(self) -> None:
        """Somebody uses it."""
        self.last_activity = datetime.now(UTC)
        self.active_tick = tick()

    def warn(self, what: str, message: str, left: float, execution_id: str | None = None) -> None:
        facts = {"what": what, "message": message, "left": left}
        self.events.append(EventType.warning, execution_id, facts)

    # -- it is frozen, and goes on

    async def pause(self, cause: str, still: Callable[[], bool] = lambda: True) -> None:
        """Freezes it, if that is `still` wanted when it is its turn to change."""
        async with self._changing:
            if self.state is SessionState.paused or not still():
                return
            self._check_awake()
            live = self.live
            assert live is not None
            if any(context.changing for context in self.contexts.values()):
                raise WrongState("A kernel of this session is being started.", "Try again in a moment.")
            self._freezing = True
            for cells in (*self._all_cells(), self.commands):
                cells.hold()
            try:
                await live.pause()
            except BaseException:
                self._go_on()
                raise
            finally:
                self._freezing = False
            if self.live is live:
                self._change(SessionState.paused, cause)
                # Also that the time of its cells stands still.
                await self.events.caught_up()

    async def resume(self, cause: str) -> None:
        async with self._changing:
            await self._resume(cause)

    async def _resume(self, cause: str) -> None:
        live = self.live
        if self.state is not SessionState.paused or live is None:
            return
        await live.resume()
        self.touch()
        if not live.connected:
            # Whoever comes meanwhile waits until all of its contexts are there again.
            self.created.clear()
            try:
                await self.take_up(live)
            finally:
                self.created.set()
            return
        self._go_on()
        self._change(SessionState.busy if self._busy else SessionState.ready, cause)
        self.on_sandbox(self)

    async def _not_taken_up(self, live: LiveSandbox, reason: str) -> None:
        """One that was not even connected to is as it was, and can be tried again."""
        if self.live is not live:
            await self.abandon(reason)
        elif live.connected:
            await self.give_up(reason)
            await live.stop()

    def _go_on(self) -> None:
        for cells in (*self._all_cells(), self.commands):
            cells.go_on()

    # -- it loses its sandbox

    async def stop(self, reason: str, still: Callable[[], bool] = lambda: True) -> bool:
        """Ends the sandbox and everything that runs in it, if that is `still` wanted when it is its
        turn to change; returns whether there was one."""
        async with self._changing:
            live = self.live
            if not still():
                return False
            if live is None:
                if self.state in (SessionState.creating, SessionState.failed):
                    self._end(SessionState.stopped, reason)
                return False
            if not live.connected or not self.created.is_set():
                await self.abandon(reason)
            self._end(SessionState.stopped, reason)
            await live.stop()
            await self.events.caught_up()
            return True

    def lost_sandbox(self, reason: str) -> None:
        """Its sandbox is not there any more, though nobody saw it end."""
        self._leave_sandbox(SessionState.stopped, reason)

    def stay_elsewhere(self, runtime: str) -> None:
        """Its sandbox is of a runtime that this gateway does not use: it is left alone."""
        self.elsewhere = f"This session runs on {self.record.runtime}, and this gateway uses {runtime}."
        log.warning("session left alone", session=self.id, reason=self.elsewhere)
        # Whether it was busy when it was recorded says nothing of now.
        self.record = replace(self.record, state=SessionState.ready.value, reason=self.elsewhere)
        self.created.set()

    def not_created(self, reason: str, *, again: bool) -> None:
        """It got no sandbox. One that had a sandbox before is as it was without it."""
        if again:
            self._end(SessionState.stopped, f"it could not be started: {reason}")
        else:
            log.warning("session not created", session=self.id, reason=reason)
            self._end(SessionState.failed, reason)

    def _on_sandbox_end(self, reason: str) -> None:
        self._leave_sandbox(SessionState.failed, reason)

    def _leave_sandbox(self, state: SessionState, reason: str) -> None:
        """Its sandbox is of no use any more."""
        live = self.live
        if live is not None:
            live.gone = live.gone or reason
            if not live.connected and not self._taking_up:  # else who takes it up does so
                self._tasks.spawn(self.abandon(reason))
            log.warning("session lost its sandbox", session=self.id, state=state.value, reason=reason)
            self._end(state, reason)
            self._tasks.spawn(live.stop())

    def _end(self, state: SessionState, reason: str) -> None:
        self.live = None
        self.commands.lose(reason)
        self.terminals.lose(reason)
        contexts, self.contexts = self.contexts, {}
        for context in contexts.values():
            context.lose(reason)
        self._tasks.spawn(self._wind_up(list(contexts.values())))
        if self.replay is not None:
            self.replay.stop(reason)
        self.update(reason=reason, handle=None, contexts={})
        self._change(state, reason)
        self.created.set()
        self.on_sandbox(self)

    async def _wind_up(self, contexts: list[Context]) -> None:
        """What ran in its sandbox comes to its end."""
        for context in contexts:
            await context.leave()
        await self.commands.ended()
        self.events.along().add_done_callback(self._let_go)

    async def leave(self) -> None:
        """The gateway stops; the sandbox goes on, and the next gateway takes it up."""
        self.events.close()
        self._tasks.cancel()
        for context in self.contexts.values():
            await context.leave()
        await self.commands.close()
        self.terminals.close()
        await self.history.close()
        if self.live is not None:
            await self.live.leave()

    async def forget(self) -> None:
        """It is deleted: nothing is recorded any more, and nobody waits."""
        await self._tasks.done()
        await self.commands.close()
        self.terminals.close()
        self.events.close()
        await self.history.settled()
        await self.history.close()

    # -- states

    def creating(self, cause: str) -> None:
        """It is about to get another sandbox."""
        self.created.clear()
        self._change(SessionState.creating, cause)

    def _change(self, new: SessionState, cause: str) -> None:
        old = self.state
        states.change(states.SESSION, old, new)
        self.record = replace(self.record, state=new.value)
        self.events.append(EventType.status, None, {"state": new.value, "reason": cause})
        if {old, new} != {SessionState.ready, SessionState.busy}:
            # That a session is busy and ready again with every cell is in its event log: see `states`.
            self._store.audit(f"session.{new.value}", self.id, {"from": old.value, "cause": cause})
            self.update()

    def _on_activity(self) -> None:
        """A cell was sent, or there is none left to send."""
        self.touch()
        if self.state not in states.AWAKE:
            return
        new = SessionState.busy if self._busy else SessionState.ready
        if new is not self.state:
            self._change(new, "a cell runs" if self._busy else "no cell runs")

    @property
    def _busy(self) -> bool:
        return self.commands.busy or any(context.busy for context in self.contexts.values())

    def _on_kernel_restart(self, reason: str) -> None:
        self.update(reason=reason)
        if self.replay is not None:
            self.replay.stop(reason)
        if self.state is SessionState.ready:
            self._change(SessionState.busy, reason)
