"""What is written down against what there is: at start, and every few minutes.

Sandboxes that belong to no session are ended, sessions whose sandbox is gone are told so, and
workspaces that nobody has any more are removed. Only what this data directory's gateway made is
ever touched.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping

import structlog

from interpreter.errors import InterpreterError
from interpreter.models import SessionState
from interpreter.orchestrator import states
from interpreter.orchestrator.launcher import Launcher
from interpreter.orchestrator.live_sandbox import LiveSandbox, Silent
from interpreter.orchestrator.named_workspaces import NamedWorkspaces
from interpreter.orchestrator.session import LiveSession
from interpreter.orchestrator.tasks import Tasks
from interpreter.orchestrator.uses import Use
from interpreter.runtimes.base import Runtime, Sandbox
from interpreter.store import SessionRecord
from interpreter.workspace import Datasets, InputFolders, Storage

log = structlog.get_logger()

PATIENCE = 10.0
"""How long the start of a gateway waits for sandboxes to answer; then they are waited for later."""
FIRST_PAUSE = 0.2
LONGEST_PAUSE = 10.0
SILENCES = 3
"""How often a sandbox that runs may say nothing when it is connected to, before it is given up."""


class Maintenance:
    """Keeps sessions, sandboxes and workspaces in step."""

    def __init__(
        self,
        sessions: Mapping[str, LiveSession],
        launcher: Launcher,
        runtime: Runtime,
        workspaces: Storage,
        named: NamedWorkspaces,
        inputs: InputFolders,
        datasets: Datasets,
        reconcile_seconds: float,
        on_found: Callable[[LiveSession], None],
    ) -> None:
        self._sessions = sessions
        self._launcher = launcher
        self._runtime = runtime
        self._workspaces = workspaces
        self._named = named
        self._inputs = inputs
        self._datasets = datasets
        self._reconcile_seconds = reconcile_seconds
        self._on_found = on_found
        self.searches: dict[str, asyncio.Task[None]] = {}
        """Session → who looks for the sandbox that an earlier gateway left of it."""
        self._tasks = Tasks("maintenance")

    async def begin(self) -> None:
        """Takes up what an earlier gateway left, removes what nobody knows, and goes on doing so."""
        for session in self._sessions.values():
            if session.record.handle is None:
                await self._without_sandbox(session)
            elif session.record.runtime != self._runtime.name:
                self._launcher.known.add(session.record.sandbox_id or session.id)
                self._use_of(session)
                await session.remember()  # the journal is this gateway's from now on
                session.stay_elsewhere(self._runtime.name)
            else:
                record = session.record
                workspace = record.workspace_id or session.id
                live = self._launcher.live(sandbox_of(record), workspace, record.disk_enforced_by)
                live.use = self._use_of(session)
                live.covered = record.warm and live.use is not None
                session.take(live)
                self.searches[session.id] = self._tasks.spawn(self._find(session, live))
        searches = list(self.searches.values())
        with _told("sandboxes could not be looked through"):
            await self._runtime.sweep(self._launcher.known)
        await self._sweep_files()
        if searches:
            await asyncio.wait(searches, timeout=PATIENCE)
        self._tasks.spawn(self._repeat())

    def _use_of(self, session: LiveSession) -> Use | None:
        """What a session that has a sandbox has of a named workspace: from the first moment on, as
        nobody else may write meanwhile."""
        record = session.record
        if record.workspace is None or record.workspace_id is None:
            return None
        return self._named.uses.resume(
            record.workspace_id, read_only=record.workspace_read_only, session_id=session.id
        )

    async def _without_sandbox(self, session: LiveSession) -> None:
        """What an earlier gateway that was killed did not come to do any more."""
        reason = "the gateway was killed while the session ended"
        if session.state is not SessionState.creating:
            if session.state in states.WITH_SANDBOX:
                await session.give_up(reason)
            else:
                await session.abandon(reason)
            session.created.set()
        elif session.record.workspace_id is None:
            # Of a workspace that was being made nobody knows how far it got.
            await self._workspaces.remove(session.id)
        else:
            await session.abandon(reason)

    async def _find(self, session: LiveSession, live: LiveSandbox) -> None:
        """Takes up a session of an earlier gateway, or records that its sandbox is gone.

        What cannot be told or reached now is tried again: an engine that is restarted, or a disk that
        is full for a moment, costs nobody what is in memory.
        """
        pause, silences, told = FIRST_PAUSE, 0, ""
        try:
            while session.live is live and not session.created.is_set():
                try:
                    if silences == SILENCES:
                        await self._lose(session, live, "its sandbox does not answer")
                    else:
                        await self._look_for(session, live)
                    continue
                except Exception as e:
                    silences += isinstance(e, Silent)
                    reason = e.message if isinstance(e, InterpreterError) else f"{type(e).__name__}: {e}"
                if reason != told:
                    log.warning("session not found again yet", session=session.id, reason=reason)
                    told = reason
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
        finally:
            self.searches.pop(session.id, None)

    async def _look_for(self, session: LiveSession, live: LiveSandbox) -> None:
        await session.remember()
        found = await self._runtime.find(live.sandbox)
        if found is None:
            await self._lose(session, live, "its sandbox was gone when the gateway started again")
            return
        await self._workspaces.open(live.workspace_id)
        await self._see_inputs(session, live)
        if found == "paused":
            session.keep_paused(live)
        else:
            await session.take_up(live)
        live.watch()
        self._on_found(session)
        log.info("session found again", session=session.id, state=session.state.value)

    async def _lose(self, session: LiveSession, live: LiveSandbox, reason: str) -> None:
        log.warning("session not found again", session=session.id, reason=reason)
        await session.give_up(reason)
        await live.stop()

    async def _see_inputs(self, session: LiveSession, live: LiveSandbox) -> None:
        """An earlier gateway may have been killed between changing a sandbox and writing that down."""
        try:
            await live.see(session.record.inputs)
        except (InterpreterError, OSError) as e:
            if session.record.inputs:
                log.error("a session lacks its inputs", session=session.id, reason=str(e))

    async def _repeat(self) -> None:
        while True:
            await asyncio.sleep(self._reconcile_seconds)
            self._launcher.fill_pools()
            with _told("sandboxes could not be looked through"):
                await self.reconcile()

    async def reconcile(self) -> None:
        # A session may get another sandbox meanwhile, which is not in the answer.
        before = [(s, s.live) for s in self._sessions.values() if s.live is not None]
        there = await self._runtime.sweep(self._launcher.known)
        for session, live in before:
            if session.live is live and live.id not in there:
                session.lost_sandbox("its sandbox is gone")
        await self._sweep_files()

    async def _sweep_files(self) -> None:
        before = self._own_workspaces()
        await self._workspaces.sweep(lambda id: id in before or self._has_workspace(id))
        await self._inputs.sweep(lambda id: id in self._launcher.known)
        await self._datasets.sweep()

    def _has_workspace(self, id: str) -> bool:
        """Also for a thread that is about to remove one: whether it has been made since."""
        return id in self._launcher.known or self._named.knows(id) or id in self._own_workspaces()

    def _own_workspaces(self) -> set[str | None]:
        # Copied at once: sessions come and go while a thread looks through them.
        return {workspace_of(session.record) for session in list(self._sessions.values())}

    async def close(self) -> None:
        self._tasks.cancel()
        await self._tasks.done()


@contextlib.contextmanager
def _told(what: str) -> Iterator[None]:
    """What goes wrong is told, and done at another time."""
    try:
        yield
    except InterpreterError as e:
        log.warning(what, reason=e.message)
    except Exception:
        log.exception(what)


def workspace_of(record: SessionRecord) -> str | None:
    """None for a session that has none of its own, or none yet; what there is of a first try then is
    nobody's."""
    if record.workspace is not None:
        return None
    if record.state == "creating" and record.workspace_id is None:
        return None
    return record.workspace_id or record.id


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
