"""All sessions: making them, finding them again after a restart, ending them."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator

import structlog

from interpreter.config import Config
from interpreter.errors import (
    ExecutionNotFound,
    InterpreterError,
    SandboxFailed,
    SessionNotFound,
    TooManySessions,
    WrongState,
)
from interpreter.models import (
    Execution,
    Limits,
    Session,
    SessionCreate,
    SessionDeleted,
    SessionState,
)
from interpreter.orchestrator import policy
from interpreter.orchestrator.cell import Cell
from interpreter.orchestrator.events import EventLog
from interpreter.orchestrator.session import LiveSession, sandbox_of, session_model
from interpreter.orchestrator.spares import Spares
from interpreter.runtimes import Runtime
from interpreter.store import EventRow, SessionRecord, Store
from interpreter.workspace import Workspaces

log = structlog.get_logger()

ALIVE = (SessionState.creating, SessionState.ready, SessionState.busy)


class Orchestrator:
    """What the gateway asks for everything. Made ready with `start`, ended with `close`."""

    def __init__(self, config: Config, store: Store, runtime: Runtime) -> None:
        self.runtime = runtime
        self._config = config
        self._store = store
        self.workspaces = Workspaces(config.data_path / "workspaces")
        self._live: dict[str, LiveSession] = {}
        self._ended: dict[str, SessionRecord] = {}
        """Sessions that ended under an earlier gateway: history without a sandbox."""
        self._creating = 0
        self._spares = Spares(config.spares, self._make_spare, self._discard)

    async def start(self) -> None:
        """Finds the sessions of an earlier gateway, removes what belongs to none, makes spares."""
        await self.workspaces.prepare()
        records = await self._store.sessions()
        alive = [r for r in records if SessionState(r.state) in ALIVE and r.handle is not None]
        self._ended = {r.id: r for r in records if r not in alive}
        await self.runtime.sweep({r.sandbox_id or r.id for r in alive})
        await self.workspaces.sweep({r.id for r in records})
        await asyncio.gather(*(self._find(record) for record in alive))
        self._spares.fill()

    async def close(self) -> None:
        """Ends the spares; sessions go on without a gateway, or end, as the settings say."""
        await self._spares.close()
        if self._config.on_shutdown == "stop":
            await asyncio.gather(*(s.stop("the gateway stopped") for s in self._live.values()))
        else:
            await asyncio.gather(*(s.leave() for s in self._live.values()))
        await self.workspaces.close({s.id for s in self._live.values() if not s.ended.is_set()})

    # -- sessions

    async def create(self, request: SessionCreate) -> LiveSession:
        environment = policy.environment(self._config, request)
        limits = policy.session_limits(self._config, request)
        if self.session_count + self._creating >= self._config.max_sessions:
            raise TooManySessions(f"{self._config.max_sessions} sessions run, and no more may.")
        self._creating += 1
        try:
            session, warm = await self._hand_over(environment, limits)
            saved = session.claim(request, session.sandbox, warm=warm)
            self._live[session.id] = session
            # Whoever is told of a session finds it again, also after the gateway was killed.
            self._store.hurry()
            await saved
        finally:
            self._creating -= 1
        return session

    async def _hand_over(self, environment: str, limits: Limits) -> tuple[LiveSession, bool]:
        """A spare that fits, else a new sandbox; and whether it is a spare."""
        wants_default = environment == self._config.default_environment
        spare = await self._spares.take() if wants_default else None
        if spare is not None and await self._fit(spare, limits):
            return spare, True
        return await self._launch(environment, limits), False

    async def _fit(self, spare: LiveSession, limits: Limits) -> bool:
        """Gives a spare other limits; if it cannot have them it is put back as it was."""
        before = spare.sandbox
        after = await self.runtime.limit(before, limits)
        if after is not None:
            same = limits.disk_mb == before.limits.disk_mb
            if same or await self.workspaces.grow(spare.id, limits.disk_mb):
                spare.sandbox = after
                return True
            if await self.runtime.limit(after, before.limits) is None:
                await self._discard(spare)
                return False
        self._spares.put_back(spare)
        return False

    async def _make_spare(self) -> LiveSession:
        return await self._launch(self._config.default_environment, self._config.limits)

    async def _discard(self, spare: LiveSession) -> None:
        """Ends a spare that nobody will use."""
        try:
            await spare.stop("nobody uses it")
        except InterpreterError as e:
            log.error("a spare sandbox could not be ended", sandbox=spare.id, reason=e.message)
        await self.workspaces.remove(spare.id)

    async def _launch(self, environment: str, limits: Limits) -> LiveSession:
        id = "s-" + secrets.token_hex(8)
        workspace = await self.workspaces.create(id, limits.disk_mb)
        try:
            sandbox = await self.runtime.start(id, environment, limits, workspace.path)
            session = LiveSession(
                sandbox, workspace.disk_enforced_by, self._config, self._store, self.runtime
            )
            try:
                await session.launch()
            except (TimeoutError, ConnectionError) as e:
                await session.stop("it did not start")
                raise SandboxFailed(f"The sandbox did not start: {str(e) or 'it took too long'}.") from e
            except BaseException:
                await session.stop("it did not start")
                raise
        except BaseException:
            await self.workspaces.remove(id)
            raise
        return session

    async def _find(self, record: SessionRecord) -> None:
        """Takes up a session of an earlier gateway, or records that its sandbox is gone."""
        sandbox = sandbox_of(record)
        last_seq = await self._store.last_seq(record.id)
        session = LiveSession(
            sandbox, record.disk_enforced_by, self._config, self._store, self.runtime, last_seq
        )
        ours = record.runtime == self.runtime.name
        try:
            if not ours:
                raise SandboxFailed(
                    f"it ran on {record.runtime}, and this gateway uses {self.runtime.name}"
                )
            if not await self.runtime.find(sandbox):
                raise SandboxFailed("its sandbox was gone when the gateway started again")
            await self.workspaces.open(record.id)
            await session.attach(record, await self._store.received(record.id))
            log.info("session found again", session=record.id)
        except InterpreterError as e:
            log.warning("session not found again", session=record.id, reason=e.message)
            await session.give_up(record, e.message, stop=ours)
        self._live[record.id] = session

    @property
    def session_count(self) -> int:
        return sum(1 for session in self._live.values() if session.state in ALIVE)

    async def sessions(self) -> list[Session]:
        live = await asyncio.gather(*(session.model() for session in self._live.values()))
        everything = [*live, *(session_model(record) for record in self._ended.values())]
        return sorted(everything, key=lambda session: session.created_at, reverse=True)

    async def session(self, session_id: str) -> Session:
        if record := self._ended.get(session_id):
            return session_model(record)
        return await self._get(session_id).model()

    def live(self, session_id: str) -> LiveSession:
        """A session that can be used; raises WrongState for one that has ended."""
        if record := self._ended.get(session_id):
            raise WrongState(f"This session is {record.state}: {record.reason}", "Create a new session.")
        return self._get(session_id)

    def _get(self, session_id: str) -> LiveSession:
        session = self._live.get(session_id)
        if session is None:
            raise SessionNotFound(f"There is no session '{session_id[:100]}'.")
        return session

    async def delete(self, session_id: str) -> SessionDeleted:
        """Removes a session with everything that belongs to it."""
        self._check_exists(session_id)
        session = self._live.pop(session_id, None)
        self._ended.pop(session_id, None)
        if session is not None:
            await session.stop("it was deleted")
            session.events.close()
            await session.history.settled()
        executions = await self._store.count_executions(session_id)
        size = await self.workspaces.remove(session_id)
        self._store.audit("session.deleted", session_id, {"executions": executions, "bytes": size})
        deleted = self._store.delete_session(session_id)
        self._store.hurry()
        await deleted
        return SessionDeleted(id=session_id, executions=executions, workspace_bytes=size)

    def _check_exists(self, session_id: str) -> None:
        if session_id not in self._ended:
            self._get(session_id)

    # -- executions and events

    async def executions(self, session_id: str, limit: int | None, after: str | None) -> list[Execution]:
        self._check_exists(session_id)
        if after is not None:
            await self.execution(session_id, after)
        if session := self._live.get(session_id):
            await session.history.settled()
        stored = await self._store.executions(session_id, limit, after)
        return [self._newest(session_id, execution) for execution in stored]

    async def execution(self, session_id: str, execution_id: str) -> Execution:
        self._check_exists(session_id)
        if cell := self.cell(session_id, execution_id):
            return cell.model()
        execution = await self._store.execution(session_id, execution_id)
        if execution is None:
            raise ExecutionNotFound(f"Session {session_id} has no execution '{execution_id[:100]}'.")
        return execution

    def cell(self, session_id: str, execution_id: str) -> Cell | None:
        """An execution that is queued, running or just ended."""
        session = self._live.get(session_id)
        return session.history.get(execution_id) if session else None

    def _newest(self, session_id: str, execution: Execution) -> Execution:
        cell = self.cell(session_id, execution.id)
        return cell.model() if cell else execution

    async def cancel(self, session_id: str, execution_id: str) -> Execution:
        """Ends a queued or running execution; one that has ended stays as it is."""
        await self.execution(session_id, execution_id)
        session = self._live.get(session_id)
        cell = session.cells.cancel(execution_id) if session else None
        if cell is not None and not cell.status.final:
            await asyncio.shield(cell.done)
        return await self.execution(session_id, execution_id)

    async def events(
        self, session_id: str, after: int, *, execution_id: str | None = None, wait: bool = True
    ) -> AsyncIterator[list[EventRow]]:
        """The events after a number, stored ones first, then as they come."""
        self._check_exists(session_id)
        if execution_id is not None:
            await self.execution(session_id, execution_id)
        session = self._live.get(session_id)
        if session is not None:
            events = session.events
            await events.settled()
        else:
            last_seq = await self._store.last_seq(session_id)
            events, wait = EventLog(session_id, self._store, lambda n: None, last_seq), False
        async for rows in events.follow(after, execution_id=execution_id, wait=wait):
            yield rows
