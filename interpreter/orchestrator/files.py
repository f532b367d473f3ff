"""From a session to its files.

They are there as long as the session is, whether it has a sandbox or not. A session that is paused
stays paused.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakValueDictionary

from msgspec.structs import replace

from interpreter.errors import InterpreterError, ShuttingDown, WrongState
from interpreter.models import WorkspaceCopy, WorkspaceCreate
from interpreter.workspace import Tree

if TYPE_CHECKING:
    from interpreter.orchestrator.orchestrator import Orchestrator
    from interpreter.orchestrator.session import LiveSession

T = TypeVar("T")
THREADS = 8
THREADS_OF_ONE = 2
"""What a session gets of them at a time: a cell can make work on its files last."""


def _check_named(session: LiveSession, change: bool) -> None:
    """A named workspace may be another session's to write to, when this one does not have it now."""
    if session.live is None:
        raise WrongState(
            "This session does not have its workspace now, which may be in use elsewhere.",
            "Start the session first, or use another one that has the workspace.",
        )
    if change and session.record.workspace_read_only:
        raise WrongState("This session only reads its workspace.", "Use the session that writes it.")


class Files:
    """The files of all sessions. Work on them has threads of its own: a slow disk, or a long copy,
    keeps nobody waiting who does not want files."""

    def __init__(self, orchestrator: Orchestrator) -> None:
        self._orchestrator = orchestrator
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="files")
        self._turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    def of(self, session_id: str) -> SessionFiles:
        """Those of one session, which keeps no more than a few threads from the others."""
        turns = self._turns.get(session_id)
        if turns is None:
            turns = self._turns[session_id] = asyncio.Semaphore(THREADS_OF_ONE)
        return SessionFiles(self._orchestrator, session_id, self._threads, turns)

    async def keep(self, request: WorkspaceCreate, session_id: str) -> None:
        """Makes a named workspace with the files of a session, which keeps its own."""
        orchestrator = self._orchestrator
        record = orchestrator.get(session_id).record
        if record.workspace is not None:
            name = orchestrator.named.record_of(record.workspace_id, record.workspace).name
            wanted = WorkspaceCopy(to=request.name, owner=request.owner, disk_mb=request.disk_mb)
            await orchestrator.named.copy(name, wanted)
            return
        session = await self.of(session_id).session(change=False)
        assert session.record.workspace_id is not None
        source = await orchestrator.workspaces.open(session.record.workspace_id)
        if request.disk_mb is None:
            request = replace(request, disk_mb=session.limits.disk_mb)
        try:
            # Half of what a session had that is being deleted is not kept.
            await orchestrator.named.copied(request, source, lambda: orchestrator.get(session_id))
        except (InterpreterError, OSError):
            orchestrator.get(session_id)  # it is told that, and not how its files failed
            raise

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


class SessionFiles:
    """The files of one session."""

    def __init__(
        self,
        orchestrator: Orchestrator,
        session_id: str,
        threads: ThreadPoolExecutor,
        turns: asyncio.Semaphore,
    ) -> None:
        self._orchestrator = orchestrator
        self._session_id = session_id
        self._threads = threads
        self._turns = turns

    @asynccontextmanager
    async def tree(self, *, change: bool = False) -> AsyncIterator[Tree]:
        """To look at them, or also to change them."""
        tree = await self.open(change=change)
        try:
            yield tree
        finally:
            self.later(tree.close)

    async def open(self, *, change: bool) -> Tree:
        """The same, to be closed by the caller."""
        if change and self._orchestrator.draining:
            raise ShuttingDown("The gateway is about to stop.")
        session = await self.session(change=change)
        assert session.record.workspace_id is not None
        return await self._orchestrator.workspaces.tree(session.record.workspace_id, session.limits)

    async def session(self, *, change: bool) -> LiveSession:
        """The session, if its files can be used."""
        session = self._orchestrator.get(self._session_id)
        session.check_here()
        await session.created.wait()
        self.check(change=change)
        if session.awake:
            session.touch()
        return session

    def check(self, *, change: bool) -> None:
        """Whether its files can be used now: asked once more after what took long, in any thread."""
        session = self._orchestrator.get(self._session_id)
        if session.record.workspace_id is None:
            raise WrongState(f"This session has no files: {session.record.reason}")
        if session.record.workspace is not None:
            _check_named(session, change)

    async def run(self, work: Callable[..., T], *arguments: object) -> T:
        """Does work on files in a thread, always to its end: descriptors are closed only after it."""
        async with self._turns:
            working = asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)
            try:
                return await asyncio.shield(working)
            except asyncio.CancelledError:
                await asyncio.wait({working})
                raise

    def later(self, work: Callable[[], object]) -> None:
        """Does work on files that nobody waits for, closing above all: whoever closes the last
        descriptor of a large file that was deleted waits until the disk has let go of it."""
        try:
            self._threads.submit(work)
        except RuntimeError:  # the gateway ends, and the threads have ended
            work()
