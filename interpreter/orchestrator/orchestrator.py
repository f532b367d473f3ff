"""All sessions: making them, finding them again after a restart, ending them."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import structlog
from msgspec import UNSET
from msgspec.structs import replace

from interpreter.config import Config
from interpreter.errors import (
    InterpreterError,
    LimitFixed,
    SandboxFailed,
    SessionNotFound,
    ShuttingDown,
    TooManySessions,
    WrongState,
)
from interpreter.models import (
    AuditLog,
    GatewayStatus,
    GivenCell,
    Limits,
    PoolStatus,
    Session,
    SessionCreate,
    SessionDeleted,
    SessionState,
    SessionUpdate,
    Usage,
)
from interpreter.orchestrator import notebook, policy, states
from interpreter.orchestrator.admission import Admission, OnWait, Reservation, Waiter
from interpreter.orchestrator.executions import Executions
from interpreter.orchestrator.files import Files
from interpreter.orchestrator.inputs import SessionInputs
from interpreter.orchestrator.launcher import Launcher, new_id
from interpreter.orchestrator.live_sandbox import LiveSandbox
from interpreter.orchestrator.maintenance import Maintenance
from interpreter.orchestrator.named_workspaces import NamedWorkspaces
from interpreter.orchestrator.questions import Questions
from interpreter.orchestrator.reaper import Reaper
from interpreter.orchestrator.session import LiveSession
from interpreter.orchestrator.tasks import Tasks
from interpreter.orchestrator.uses import Use
from interpreter.runtimes import Runtime
from interpreter.store import SessionRecord, Store
from interpreter.workspace import Datasets, InputFolders, Workspaces

log = structlog.get_logger()

USAGE_SECONDS = 2.0
"""How long a runtime may take to say what a sandbox uses before it is left out."""
STARTED_AGAIN = "It was started again in a new sandbox: its files are there, what was in memory is gone."

BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
NO_LABELS: Mapping[str, str] = {}


class Orchestrator:
    """What the gateway asks for everything. Made ready with `start`, ended with `close`."""

    def __init__(self, config: Config, store: Store, runtime: Runtime) -> None:
        self.runtime = runtime
        self.draining = False
        """Whether the gateway is about to stop and takes nothing new."""
        self.workspaces = Workspaces(config.data_path / "workspaces", runtime.files_elsewhere)
        self.named = NamedWorkspaces(config, store, self.workspaces, runtime, self._megabytes_of)
        """The workspaces that sessions share and that outlive them."""
        self._config = config
        self._store = store
        self._uses: dict[str, Use] = {}
        """What sessions that are being created will have of named workspaces."""
        self._sessions: dict[str, LiveSession] = {}
        self._reservations: dict[str, Reservation] = {}
        self._creations: dict[str, asyncio.Task[InterpreterError | None]] = {}
        self.datasets = Datasets(config.data_path / "datasets", config.datasets_mb)
        self._folders = InputFolders(
            config.data_path / "inputs", self.datasets, runtime.no_inputs_because
        )
        self._launcher = Launcher(config, runtime, self.workspaces, self._folders)
        self._admission = Admission(config, config.max_sessions, runtime.capacity)
        self._reaper = Reaper()
        self._maintenance = Maintenance(
            self._sessions,
            self._launcher,
            runtime,
            self.workspaces,
            self.named,
            self._folders,
            self.datasets,
            config.reconcile_seconds,
            self._found,
        )
        self._tasks = Tasks("the orchestrator")
        self.executions = Executions(self, store)
        self.questions = Questions(config)
        self.files = Files(self)
        self.inputs = SessionInputs(self.datasets, self._folders, self.get, self._sessions.values, store)

    # -- the gateway comes and goes

    async def start(self) -> None:
        """Finds the sessions of an earlier gateway, removes what belongs to none, fills the pools."""
        await self.workspaces.prepare()
        await self.datasets.prepare()
        await self.named.load()
        extent = await self._store.extent()
        for record in await self._store.sessions():
            last_seq, executions = extent.get(record.id, (0, 0))
            session = self._add(record, last_seq)
            session.executions = executions
        await self._maintenance.begin()
        self.named.settle()
        for session in self._sessions.values():
            if session.state is SessionState.creating and session.record.handle is None:
                # Somebody was promised a session, and the gateway was killed.
                self._create_later(session)
        self._launcher.fill_pools()

    def _found(self, session: LiveSession) -> None:
        """A session of an earlier gateway has its sandbox again."""
        self._reservations[session.id] = self._admission.take(session.limits)

    async def drain(self) -> None:
        """Takes nothing new, and waits for what runs and is waited for, but not for ever."""
        self.draining = True
        for session in self._sessions.values():
            session.hold_queues()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._config.drain_seconds):
                while running := [
                    cell.done
                    for session in self._sessions.values()
                    if session.state is not SessionState.paused
                    for cell in session.awaited()
                ]:
                    await asyncio.wait(running)

    async def close(self) -> None:
        """Ends the spares; sessions go on without a gateway, or end, as the settings say."""
        self.draining = True
        await self._maintenance.close()
        await self._reaper.close()
        for creation in list(self._creations.values()):
            creation.cancel()
        await asyncio.gather(*self._creations.values(), return_exceptions=True)
        await self._launcher.close()
        sessions = list(self._sessions.values())
        if self._config.on_shutdown == "stop":
            # One that failed has no sandbox, and goes on saying why.
            with_one = [s for s in sessions if s.state is not SessionState.failed]
            ended = (s.stop("the gateway stopped") for s in with_one)
            for problem in await asyncio.gather(*ended, return_exceptions=True):
                if isinstance(problem, Exception):
                    log.error("a session could not be stopped", reason=str(problem))
        with_sandbox = [s for s in sessions if s.live or s.elsewhere]
        in_use = {s.record.workspace_id or s.id for s in with_sandbox}
        # What a named workspace is mounted over is in use, too.
        in_use |= {s.record.sandbox_id or s.id for s in with_sandbox}
        await asyncio.gather(*(s.leave() for s in sessions))
        self.files.close()
        await self.named.uses.close()
        await self.workspaces.close(in_use)

    # -- making sessions

    async def create(self, request: SessionCreate, on_wait: OnWait = lambda waiter: None) -> LiveSession:
        """A session; without `wait` one that is still being created.

        `on_wait` is told when whoever waits for it has to queue; it is cancelled if they give up."""
        self.check_open()
        limits = policy.session_limits(self._config, request.limits)
        workspace = None if request.workspace is None else self.named.find(request.workspace)
        if workspace is not None:
            limits = policy.in_workspace(limits, request.limits, workspace.name, workspace.disk_mb)
        if request.notebook is not None:
            notebook.check(self._config, limits, request.notebook)
            policy.cell_timeout(self._config, limits, request.cell_timeout)
        now = datetime.now(UTC)
        record = SessionRecord(
            id=new_id(),
            name=request.name,
            state=SessionState.creating.value,
            reason=None,
            environment=policy.environment(self._config, request),
            runtime=self.runtime.name,
            isolation=self.runtime.isolation,
            warm=False,
            labels=dict(request.labels),
            limits=limits,
            limits_enforced_by="nothing",
            created_at=now,
            last_activity=now,
            expires_at=None,
            handle=None,
            env=policy.variables(request),
            on_idle=request.on_idle or self._config.on_idle,
            inputs=self.inputs.choose(request.inputs),
            workspace=request.workspace,
            workspace_read_only=workspace is not None and request.workspace_read_only,
            owner=request.owner,
            replay=notebook.new_record(request),
        )
        cells = None if request.notebook is None else request.notebook.cells
        own_disk = limits.disk_mb if workspace is None else 0
        with self.named.quotas.room_for(record.owner, own_disk):
            use = None if workspace is None else self.named.use(workspace, record.workspace_read_only)
            if request.wait:
                with self.datasets.pinned(*record.inputs.values()):
                    return await self._create_now(record, cells, use, on_wait)
            session = self._add(record, cells=cells)
        if use is not None:
            use.session_id = session.id
            self._uses[session.id] = use
        saved = session.update()
        if session.replay is not None:
            session.replay.write_down()
        await session.stored(saved)
        self._create_later(session)
        await asyncio.sleep(0)  # it has its sandbox or its place in the queue, or has begun
        return session

    async def _create_now(
        self,
        record: SessionRecord,
        cells: list[GivenCell] | None,
        use: Use | None,
        on_wait: OnWait,
    ) -> LiveSession:
        reservation: Reservation | None = None
        try:
            self._launcher.asked(record.environment)
            reservation = await self._admission.admit(record.limits, on_wait)
            live, cold = await self._launcher.provide(
                record.environment, record.limits, on_wait, use=use
            )
            await self._fit_out(live, record)
        except BaseException:
            _let_go(reservation, use)
            raise
        # Its sandbox's name, for whoever looks for one from outside.
        session = self._add(replace(record, id=live.id), cells=cells)
        self._reservations[session.id] = reservation
        try:
            await session.begin(live, cold_because=cold, cause="created")
        except BaseException:
            await asyncio.shield(self.delete(session.id))  # nobody was told of it
            raise
        return session

    def _create_later(self, session: LiveSession) -> asyncio.Task[InterpreterError | None]:
        """The task that gets a session its sandbox, or returns why there is none."""

        async def create() -> InterpreterError | None:
            again = session.record.workspace_id is not None
            try:
                await self._give_sandbox(session)
            except Exception as e:
                problem = e if isinstance(e, InterpreterError) else SandboxFailed(str(e))
                if problem is not e:
                    log.exception("a session could not be created", session=session.id)
                if session.state is SessionState.creating:
                    session.not_created(problem.message, again=again)
                return problem
            finally:
                self._creations.pop(session.id, None)
            return None

        creation = self._creations[session.id] = self._tasks.spawn(create())
        return creation

    async def _give_sandbox(self, session: LiveSession) -> None:
        """A sandbox for a session that is `creating`: its first, or another for its workspace."""
        await session.remember()
        if session.record.inputs:
            self._folders.check()

        def on_wait(waiter: Waiter) -> None:
            session.waiter = waiter

        use, reservation = self._use_for(session), None
        record = session.record
        again = record.workspace_id is not None
        try:
            if not again:
                self._launcher.asked(record.environment)
            reservation = await self._admission.admit(record.limits, on_wait)
            starts = record.starts + 1 if again else record.starts
            id = f"{record.id}-{starts}" if again else record.id
            if again and use is None:
                live = await self._launcher.launch(
                    id, record.environment, record.limits, on_wait, record.workspace_id
                )
                cold: str | None = "it has a workspace already"
            else:
                live, cold = await self._launcher.provide(
                    record.environment, record.limits, on_wait, id, use
                )
            session.record = replace(session.record, starts=starts)
            await self._fit_out(live, record)
        except BaseException:
            _let_go(reservation, use)
            raise
        finally:
            session.waiter = None
        self._reservations[session.id] = reservation
        reason = STARTED_AGAIN if again else None
        await session.begin(live, cold_because=cold, cause=reason or "created", reason=reason)

    def _use_for(self, session: LiveSession) -> Use | None:
        """What a session that is about to get a sandbox has of its named workspace, as it is now."""
        record = session.record
        if record.workspace is None:
            return None
        workspace = self.named.record_of(record.workspace_id, record.workspace)
        session.record = replace(record, limits=replace(record.limits, disk_mb=workspace.disk_mb))
        use = self._uses.pop(session.id, None)
        if use is None:
            use = self.named.use(workspace, record.workspace_read_only)
            use.session_id = session.id
        return use

    async def _fit_out(self, live: LiveSandbox, record: SessionRecord) -> None:
        """Has a sandbox see what its session is to see, and its kernel know the session's variables:
        before it is written down. If it cannot, it is not wanted."""
        try:
            if record.inputs:
                await live.see(record.inputs)
            await live.outfit(record.env)
        except BaseException as e:
            why = live.gone or str(e)
            ending = self._launcher.discard if record.workspace_id is None else LiveSandbox.stop
            await asyncio.shield(ending(live))
            if isinstance(e, ConnectionError):
                raise SandboxFailed(f"The sandbox did not start: {why}.") from e
            raise

    def _add(
        self,
        record: SessionRecord,
        last_seq: int | None = None,
        cells: list[GivenCell] | None = None,
    ) -> LiveSession:
        """`cells` are those of the notebook that a new one is to replay."""
        session = LiveSession(record, self._config, self._store, last_seq, cells)
        self._sessions[record.id] = session
        session.on_sandbox = self._on_sandbox
        if last_seq is None:
            self._store.audit("session.creating", session.id, {"cause": "it was asked for"})
        return session

    def _on_sandbox(self, session: LiveSession) -> None:
        """A session has got, resumed or lost its sandbox."""
        if session.live is None and (reservation := self._reservations.pop(session.id, None)):
            reservation.release()
        self._reaper.watch(session)

    # -- looking at sessions

    @property
    def session_count(self) -> int:
        return sum(1 for session in self._sessions.values() if session.state in states.WITH_SANDBOX)

    def get(self, session_id: str) -> LiveSession:
        session = self._sessions.get(session_id)
        if session is None:
            raise SessionNotFound(f"There is no session '{session_id[:100]}'.")
        return session

    def all(self) -> list[LiveSession]:
        """Every session, newest first."""
        return sorted(self._sessions.values(), key=_place, reverse=True)

    async def session(self, session_id: str) -> Session:
        return await self._model(self.get(session_id))

    async def sessions(
        self,
        *,
        state: SessionState | None = None,
        name: str | None = None,
        labels: Mapping[str, str] = NO_LABELS,
        limit: int = 100,
        after: str | None = None,
    ) -> tuple[list[Session], str | None]:
        """Newest first: at most `limit`, those after `after`; and what that is to be to go on."""
        microseconds, _, id = (after or "").partition(".")
        found = [
            session
            for session in self.all()
            if (after is None or _place(session) < (int(microseconds), id))
            and (state is None or session.state is state)
            and (name is None or session.record.name == name)
            and all(session.record.labels.get(k) == v for k, v in labels.items())
        ]
        page = found[:limit]
        models = await asyncio.gather(*(self._model(session) for session in page))
        more = "{}.{}".format(*_place(page[-1])) if len(found) > limit else None
        return list(models), more

    async def _model(self, session: LiveSession) -> Session:
        usage: Usage | None = None
        if session.live is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(USAGE_SECONDS):
                    usage = await self.runtime.usage(session.live.sandbox)
        return session.model(usage)

    def status(self) -> GatewayStatus:
        """How full the gateway is."""
        return GatewayStatus(
            sessions=dict(Counter(session.state.value for session in self._sessions.values())),
            max_sessions=self._config.max_sessions,
            queued=self._admission.queued + self._launcher.queued,
            creating=self._launcher.launching - self._launcher.queued,
            memory_reserved_mb=self._admission.memory_mb,
            memory_limit_mb=self._admission.memory_limit_mb,
            cpus_reserved=round(self._admission.cpus, 3),
            cpus_limit=self._admission.cpus_limit,
            draining=self.draining,
            limits=self._config.limits,
            pools=[
                PoolStatus(
                    environment=pool.environment,
                    ready=pool.ready,
                    being_made=pool.being_made,
                    target=pool.target,
                    min=pool.minimum,
                    max=pool.maximum,
                )
                for pool in self._launcher.pools.values()
            ],
        )

    # -- changing sessions

    async def update(self, session_id: str, request: SessionUpdate) -> LiveSession:
        async with self.get(session_id).updating:
            session = self.get(session_id)
            session.check_here()
            self._store.condition.check()
            limits = policy.session_limits(self._config, request.limits, session.limits)
            if (workspace := session.record.workspace) is not None:
                limits = policy.in_workspace(limits, request.limits, workspace, session.limits.disk_mb)
            more_disk = limits.disk_mb - session.limits.disk_mb
            with self.named.quotas.room_for(session.record.owner, more_disk):
                await self._update(session, limits, request)
        return session

    async def _update(self, session: LiveSession, limits: Limits, request: SessionUpdate) -> None:
        if limits != session.limits:
            await self._change_limits(session, limits)
        changes = {
            "name": session.record.name if request.name is UNSET else request.name,
            "labels": session.record.labels if request.labels is UNSET else dict(request.labels),
            "on_idle": session.record.on_idle if request.on_idle is UNSET else request.on_idle,
        }
        saved = session.update(limits=limits, **changes)
        self._reaper.watch(session)
        await session.stored(saved)

    async def _change_limits(self, session: LiveSession, wanted: Limits) -> None:
        live, reservation = session.live, self._reservations.get(session.id)
        if session.state is SessionState.creating:
            raise WrongState("This session is being created.", "Try again when it is ready.")
        has = session.limits.disk_mb
        if wanted.disk_mb < has and session.record.workspace_id is not None:
            # What it may hold is what counts for its owner, and it may hold that already.
            raise LimitFixed(
                f"The workspace of this session cannot shrink below its {has:,} MB.",
                "Take what you need of it to another session.",
            )
        if live is None or reservation is None:
            await self._change_disk(session, wanted.disk_mb)
            return
        before = reservation.limits
        if not reservation.change(wanted):
            raise TooManySessions("There is no room for so much memory or so many processors.")
        try:
            own_disk = session.record.owns_workspace
            fixed = await self._launcher.fit(live, wanted, with_disk=own_disk)
        except BaseException:
            reservation.change(before)
            raise
        if fixed is not None:
            reservation.change(before)
            raise LimitFixed(f"{fixed} cannot be changed while this session has its sandbox.")

    async def _change_disk(self, session: LiveSession, megabytes: int) -> None:
        """Of a session without a sandbox, which may only become larger."""
        workspace = session.record.workspace_id
        if workspace is None or megabytes == session.limits.disk_mb:
            return
        grown = await self.workspaces.grow(workspace, megabytes)
        if not grown:
            # While it is not mounted no right that only some have is needed for that.
            await self.workspaces.rest(workspace)
            grown = await self.workspaces.grow(workspace, megabytes)
        if not grown:
            raise LimitFixed(
                "The workspace of this session cannot hold more now.",
                "Try again when nobody reads its files; the gateway's log says why.",
            )

    async def start_session(self, session_id: str) -> LiveSession:
        """Brings a session back that was stopped or failed."""
        self.check_open()
        session = self.get(session_id)
        session.check_here()
        async with session.updating:
            self.get(session_id)
            has_sandbox = session.state in states.WITH_SANDBOX
            if not has_sandbox:
                session.creating("it is started again")
                creation = self._create_later(session)
        if has_sandbox:
            await session.wake()
            return session
        await asyncio.wait({creation})
        if creation.cancelled():
            raise WrongState("The session was stopped or deleted before it was started.")
        if problem := creation.result():
            raise problem
        return session

    async def stop_session(self, session_id: str) -> LiveSession:
        """Ends a session's sandbox; files, history and settings stay."""
        session = self.get(session_id)
        session.check_here()
        await self._cancel_creation(session)
        await session.stop("it was stopped")
        return session

    async def _cancel_creation(self, session: LiveSession) -> None:
        """Nor is a sandbox looked for that an earlier gateway left."""
        for work in (self._creations.get(session.id), self._maintenance.searches.get(session.id)):
            if work is not None:
                work.cancel()
                await asyncio.wait({work})
        if use := self._uses.pop(session.id, None):
            use.release()  # it was cancelled before it began

    async def delete(self, session_id: str) -> SessionDeleted:
        """Removes a session with everything that belongs to it."""
        session = self.get(session_id)
        session.check_here()
        self._sessions.pop(session_id, None)
        try:
            await self._cancel_creation(session)
            had_sandbox = await session.stop("it was deleted")
        except BaseException:
            self._sessions[session_id] = session  # to be deleted once more
            raise
        async with session.attaching, session.updating:
            pass  # what is being attached or changed is so first
        self._reaper.forget(session)
        await session.forget()
        executions = await self._store.count_executions(session_id)
        workspace = session.record.workspace_id
        size = 0
        if workspace is not None and session.record.owns_workspace:
            size = await self.workspaces.remove(workspace)
        events = session.events.last_seq
        removed = {"executions": executions, "events": events, "bytes": size}
        self._store.audit("session.deleted", session_id, removed)
        deleted = self._store.delete_session(session_id)
        self._store.hurry()
        await deleted
        await self.datasets.collect()
        return SessionDeleted(
            id=session_id,
            executions=executions,
            events=events,
            workspace_bytes=size,
            sandbox=had_sandbox,
        )

    def note(self, action: str, facts: Mapping[str, Any]) -> None:
        """Records something that is about no session."""
        self._store.audit(action, None, facts)

    async def audit_log(self, session_id: str | None, after: int | None, limit: int) -> AuditLog:
        """What was noted of a session, deleted ones included, or of all that happened."""
        return AuditLog(entries=await self._store.audit_log(session_id, after, limit))

    def _megabytes_of(self, owner: str) -> int:
        """What the sessions of an owner may hold in workspaces of their own."""
        records = (session.record for session in self._sessions.values())
        return sum(r.limits.disk_mb for r in records if r.owner == owner and r.owns_workspace)

    def check_open(self) -> None:
        """Raises an error if nothing new is taken."""
        if self.draining:
            raise ShuttingDown("The gateway is about to stop.")
        self._store.condition.check()

    @property
    def problems(self) -> list[str]:
        """What does not work now, in sentences."""
        problem = self._store.condition.problem
        return [] if problem is None else [f"{problem.message} {problem.hint}"]


def _place(session: LiveSession) -> tuple[int, str]:
    """Where a session is among all, which is known of a deleted one, too: when it was made, in
    microseconds, and its id."""
    return (session.record.created_at - BEGINNING) // timedelta(microseconds=1), session.id


def _let_go(reservation: Reservation | None, use: Use | None) -> None:
    """Nothing came of a session."""
    if reservation is not None:
        reservation.release()
    if use is not None:
        use.release()
