"""One live session: a sandbox, the link into it, its kernel, its cells and its events.

A session survives its kernel: when the kernel dies, the running cell ends as `lost` with the
reason, and a new kernel is forked from the sandbox's zygote. It ends with its sandbox.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import Any

import msgspec
import structlog

from interpreter.config import Config
from interpreter.errors import SandboxFailed, WrongState
from interpreter.kernel.connection import Exit, KernelConnection
from interpreter.link.connection import Link
from interpreter.link.wire import Wire
from interpreter.models import (
    EventType,
    ExecutionCreate,
    ExecutionStatus,
    Session,
    SessionCreate,
    SessionState,
)
from interpreter.orchestrator import states
from interpreter.orchestrator.cell import Cell
from interpreter.orchestrator.cells import Cells
from interpreter.orchestrator.events import EventLog
from interpreter.orchestrator.history import History
from interpreter.runtimes.base import Meter, Runtime, Sandbox, used_of_limit
from interpreter.store import SessionRecord, Store

log = structlog.get_logger()

START_SECONDS = 60.0
RESTARTS = 2
"""How often a kernel that does not start is tried again before the session fails."""


class LiveSession:
    """A session whose sandbox runs. Unclaimed, it is a spare; `claim` makes it someone's."""

    def __init__(
        self,
        sandbox: Sandbox,
        disk_enforced_by: str,
        config: Config,
        store: Store,
        runtime: Runtime,
        last_seq: int = 0,
    ) -> None:
        now = datetime.now(UTC)
        self.id = sandbox.id
        self.sandbox = sandbox
        self.state = SessionState.creating
        self.reason: str | None = None
        self.name: str | None = None
        self.labels: dict[str, str] = {}
        self.limits = sandbox.limits
        self.disk_enforced_by = disk_enforced_by
        self.warm = False
        self.created_at = self.last_activity = now
        self.events = EventLog(self.id, store, self._stored, last_seq)
        self.ended = asyncio.Event()
        self._config = config
        self._store = store
        self._runtime = runtime
        self._claimed = False
        self._link: Link | None = None
        self._kernel: KernelConnection | None = None
        self._kernel_number = 0
        self._changing = asyncio.Lock()
        self._oom_kills = 0
        self._meter: Meter | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._set_up_cells({})

    def _set_up_cells(self, displays: dict[str, list[str]]) -> None:
        limit = self._config.max_output_bytes
        self.history = History(self.id, self._store, self.events, limit, displays)
        self.cells = Cells(
            self.id,
            self._config,
            self.limits,
            self.events,
            self.history,
            late_results=self._config.environments[self.sandbox.environment].argv is not None,
            on_activity=self._on_activity,
            on_exit=self._on_exit,
        )

    # -- the start of a session's life

    async def launch(self) -> None:
        """Connects to a new sandbox and starts its first kernel."""
        await self._connect(received=0)
        async with asyncio.timeout(START_SECONDS):
            await self._start_kernel()
        await self._measure()
        self._watch()

    def claim(self, request: SessionCreate, sandbox: Sandbox, *, warm: bool) -> asyncio.Future[None]:
        """Makes this someone's session: from now on it is recorded, once what is returned is done."""
        self.sandbox = sandbox
        self.limits = self.cells.limits = sandbox.limits
        self.name, self.labels, self.warm = request.name, dict(request.labels), warm
        self.created_at = self.last_activity = datetime.now(UTC)
        self._claimed = True
        saved = self._store.save_session(self.record())
        self.events.record()
        self._change(SessionState.ready, "created")
        return saved

    async def attach(self, record: SessionRecord, received: int) -> None:
        """Takes up a session of an earlier gateway whose sandbox is still there."""
        self.name, self.labels, self.warm = record.name, record.labels, record.warm
        self.created_at, self.last_activity = record.created_at, record.last_activity
        self.limits, self.reason = record.limits, record.reason
        self._set_up_cells(await self._store.displays(self.id))
        self._claimed = True
        self.events.record()
        link = await self._connect(received)
        names = {str(info.get("kernel")) for info in link.wire.streams.values()}
        numbers = [int(name[1:]) for name in names if name[1:].isdecimal() and len(name) < 12]
        self._kernel_number = max(numbers, default=0)
        kernel = KernelConnection(link, f"k{self._kernel_number}", self.cells)
        self._oom_kills = await self._runtime.out_of_memory(self.sandbox)
        await self._measure()
        unfinished = [await self._restore(e) for e in await self._store.unfinished(self.id)]
        self._change(SessionState.busy, "the gateway started again")
        if kernel.adopt():
            self._kernel = kernel
            self._spawn(self._resume(kernel, unfinished))
        else:
            self.cells.abandon(unfinished, "its kernel had ended when the gateway started again")
            self._spawn(self._replace_kernel("its kernel had ended"))
        asyncio.get_running_loop().call_soon(link.begin)  # after what was just spawned
        self._watch()

    async def give_up(self, record: SessionRecord, reason: str, *, stop: bool) -> None:
        """Records that a session of an earlier gateway could not be taken up."""
        self.name, self.labels, self.warm = record.name, record.labels, record.warm
        self.created_at, self.last_activity = record.created_at, record.last_activity
        if not self._claimed:
            self._claimed = True
            self.events.record()
        unfinished = [await self._restore(e) for e in await self._store.unfinished(self.id)]
        self.cells.abandon(unfinished, reason)
        if not self.ended.is_set():
            self._end(SessionState.stopped, reason)
        await self._release()
        if stop:
            await self._runtime.stop(self.sandbox)

    async def _measure(self) -> None:
        self._meter = self.cells.meter = await self._runtime.meter(self.sandbox)

    async def _resume(self, kernel: KernelConnection, unfinished: list[Cell]) -> None:
        with contextlib.suppress(SandboxFailed):  # the kernel's end is reported by itself
            await self.cells.resume(unfinished, kernel)

    async def _restore(self, execution: Any) -> Cell:
        """An unfinished cell, from its execution and its events."""
        cell: Cell | None = None
        after = 0
        while rows := await self._store.events(self.id, after, execution_id=execution.id):
            for row in rows:
                data = msgspec.json.decode(row.data)
                if cell is None:
                    facts = data.get("request", {})
                    timeout = facts.get("timeout") or self._config.cell_timeout
                    limit = facts.get("max_output_bytes") or self._config.max_output_bytes
                    cell = Cell.restore(execution, facts, timeout, limit)
                cell.replay(EventType(row.type), data)
                cell.recorded_bytes += len(row.data)
            after = rows[-1].seq
        if cell is None:
            limit = self._config.max_output_bytes
            cell = Cell.restore(execution, {}, self._config.cell_timeout, limit)
        return cell

    # -- what callers ask for

    def submit(self, request: ExecutionCreate) -> Cell:
        self._check_alive()
        self.last_activity = datetime.now(UTC)
        return self.cells.submit(request)

    async def interrupt(self) -> None:
        """Interrupts the cell that runs, as Ctrl-C does; does nothing when none does."""
        self._check_alive()
        if self._kernel is not None and self.cells.running:
            try:
                await self._kernel.interrupt()
            except ConnectionError as e:
                raise SandboxFailed(f"The sandbox is gone: {e}.") from e

    async def restart(self) -> None:
        """A new kernel: memory is gone, files stay. Cells that run or wait are cancelled."""
        self._check_alive()
        self.last_activity = datetime.now(UTC)
        await asyncio.shield(self._spawn(self._replace_kernel("the kernel was restarted", asked=True)))
        if self.state is SessionState.failed:
            raise SandboxFailed(f"The kernel could not be restarted: {self.reason}")

    async def model(self) -> Session:
        usage = None
        if self.state not in (SessionState.failed, SessionState.stopped):
            usage = await self._runtime.usage(self.sandbox)
        record = self.record()
        return session_model(record, usage=usage)

    def record(self) -> SessionRecord:
        return SessionRecord(
            id=self.id,
            name=self.name,
            state=self.state.value,
            reason=self.reason,
            environment=self.sandbox.environment,
            runtime=self._runtime.name,
            isolation=self.sandbox.isolation,
            warm=self.warm,
            labels=self.labels,
            limits=self.limits,
            limits_enforced_by=self.sandbox.limits_enforced_by,
            disk_enforced_by=self.disk_enforced_by,
            created_at=self.created_at,
            last_activity=self.last_activity,
            expires_at=None,
            handle=self.sandbox.handle,
            sandbox_id=self.sandbox.id,
        )

    async def stop(self, reason: str) -> None:
        """Ends the sandbox and everything that runs in it."""
        if self.state not in (SessionState.failed, SessionState.stopped):
            self._end(SessionState.stopped, reason)
        await self._release()
        await self._runtime.stop(self.sandbox)

    async def leave(self) -> None:
        """The gateway stops; the sandbox goes on, and the next gateway takes it up."""
        self.events.closed = True
        await self._release()

    # -- inside: states

    def _check_alive(self) -> None:
        if self.state in (SessionState.failed, SessionState.stopped):
            raise WrongState(
                f"This session is {self.state.value}: {self.reason}", "Create a new session."
            )

    def _change(self, new: SessionState, cause: str) -> None:
        old, self.state = self.state, states.change(states.SESSION, self.state, new)
        if self._claimed:
            self.events.append(EventType.status, None, {"state": new.value, "reason": cause})
            if {old, new} != {SessionState.ready, SessionState.busy}:
                # That a session is busy and ready again with every cell is in its event log.
                self._store.audit(f"session.{new.value}", self.id, {"from": old.value, "cause": cause})
            if new in (SessionState.stopped, SessionState.failed):
                self._store.save_session(self.record())

    def _on_activity(self, busy: bool) -> None:
        """The cells run, or have nothing to do."""
        if self._changing.locked() or self.state is SessionState.creating:
            return
        self.last_activity = datetime.now(UTC)
        new = SessionState.busy if busy else SessionState.ready
        if new is not self.state and self.state in (SessionState.ready, SessionState.busy):
            self._change(new, "a cell runs" if busy else "no cell runs")

    def _end(self, state: SessionState, reason: str) -> None:
        self.reason = reason
        if self._kernel is not None:
            self._kernel.lost(reason)
        self.cells.detach()
        self.cells.end_all(ExecutionStatus.lost, reason)
        if self._meter is not None:
            self._meter.close()
        self._change(state, reason)
        self.events.end()
        self.ended.set()

    # -- inside: the link

    async def _connect(self, received: int) -> Link:
        wire = Wire(opens=True, received=received, max_message=self._config.max_message_bytes)
        link = self._link = Link(wire, self._on_gone)
        link.on_passed = self.events.passed
        await self._runtime.connect(self.sandbox, lambda: link)
        try:
            async with asyncio.timeout(START_SECONDS):
                await link.connected()
        except (ConnectionError, TimeoutError) as e:
            raise SandboxFailed(f"The sandbox does not answer: {e}") from e
        return link

    def _stored(self, number: int) -> None:
        if self._link is not None:
            self._link.handled(number)

    def _on_gone(self, reason: str) -> None:
        if not self.ended.is_set() and not self.events.closed:
            self._spawn(self._fail(reason))

    def _watch(self) -> None:
        async def watch() -> None:
            reason = await self._runtime.ended(self.sandbox)
            await self._fail(f"the sandbox ended: {reason}")

        self._spawn(watch())

    async def _fail(self, reason: str) -> None:
        """The sandbox is of no use any more: ends the session, and what is left of the sandbox."""
        if self.ended.is_set() or self.events.closed:
            return
        if not reason.startswith("the sandbox"):
            # The link ended first: the runtime knows better why.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1):
                    reason = f"the sandbox ended: {await self._runtime.ended(self.sandbox)}"
        if self.ended.is_set():
            return
        log.warning("session failed", session=self.id, reason=reason)
        self._end(SessionState.failed, reason)
        await self._runtime.stop(self.sandbox)

    # -- inside: the kernel

    async def _start_kernel(self) -> None:
        assert self._link is not None
        self._kernel_number += 1
        kernel = self._kernel = KernelConnection(self._link, f"k{self._kernel_number}", self.cells)
        await kernel.start()
        self.cells.attach(kernel)

    def _on_exit(self, name: str, exit: Exit, number: int) -> None:
        self.events.passed(number)
        if self._kernel is not None and self._kernel.name == name and not self._changing.locked():
            self._spawn(self._after_death(exit))

    async def _after_death(self, exit: Exit) -> None:
        kills = await self._runtime.out_of_memory(self.sandbox)
        reason = exit.describe()
        if kills > self._oom_kills:
            used = used_of_limit(await self._runtime.usage(self.sandbox), self.limits)
            reason = f"the kernel ran out of memory: {used}"
        self._oom_kills = kills
        await self._replace_kernel(reason)

    async def _replace_kernel(self, reason: str, *, asked: bool = False) -> None:
        """Ends what is left of the old kernel, says why, and starts a new one."""
        async with self._changing:
            if self.ended.is_set():
                return
            self.cells.detach()
            if self.state is SessionState.ready:
                self._change(SessionState.busy, reason)
            if self._kernel is not None:
                await self._kernel.kill()
            status = ExecutionStatus.cancelled if asked else ExecutionStatus.lost
            self.cells.end_all(status, reason)
            self.reason = reason
            for attempt in range(1, RESTARTS + 1):
                try:
                    async with asyncio.timeout(START_SECONDS):
                        await self._start_kernel()
                    break
                except (SandboxFailed, TimeoutError, ConnectionError) as e:
                    if self.ended.is_set():
                        return
                    if attempt == RESTARTS:
                        self._end(SessionState.failed, f"no new kernel could be started: {e}")
                        return
        if self.state is SessionState.busy and not self.cells.busy:
            self._change(SessionState.ready, f"a new kernel was started: {reason}")

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (problem := task.exception()):
            log.error("a task of a session failed", session=self.id, exc_info=problem)

    async def _release(self) -> None:
        for task in list(self._tasks):
            if task is not asyncio.current_task():
                task.cancel()
        await self.cells.close()
        await self.history.close()
        if self._meter is not None:
            self._meter.close()
        if self._link is not None:
            self._link.close()


def session_model(record: SessionRecord, usage: Any = None) -> Session:
    """What the API says of a session, from what the store keeps of it."""
    return Session(
        id=record.id,
        name=record.name,
        state=SessionState(record.state),
        reason=record.reason,
        environment=record.environment,
        runtime=record.runtime,
        isolation=record.isolation,
        warm=record.warm,
        labels=record.labels,
        limits=record.limits,
        limits_enforced_by=record.limits_enforced_by,
        disk_enforced_by=record.disk_enforced_by,
        usage=usage,
        created_at=record.created_at,
        last_activity=record.last_activity,
        expires_at=record.expires_at,
    )


def sandbox_of(record: SessionRecord) -> Sandbox:
    """The sandbox of a stored session, for its runtime to look for."""
    assert record.handle is not None
    return Sandbox(
        id=record.sandbox_id or record.id,
        environment=record.environment,
        limits=record.limits,
        isolation=record.isolation,
        limits_enforced_by=record.limits_enforced_by,
        handle=record.handle,
    )
