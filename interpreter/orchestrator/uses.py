"""Who has which named workspace: one session for writing, any number for reading.

A use begins before a sandbox is made and ends when that sandbox has ended, so there is no moment in
which two could write. A workspace that nobody uses any more is put to rest.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from weakref import WeakValueDictionary

from interpreter.errors import WorkspaceInUse
from interpreter.models import WorkspaceUse
from interpreter.orchestrator.tasks import Tasks
from interpreter.workspace import Storage, Workspace

CREATING = "a session that is being created"


class Use:
    """One use of a workspace, until it is `released`."""

    def __init__(self, uses: Uses, workspace_id: str, read_only: bool, by: str) -> None:
        self.workspace_id = workspace_id
        self.read_only = read_only
        self.session_id: str | None = None
        self._by = by
        self._uses: Uses | None = uses

    @property
    def by(self) -> str:
        """Who has it, for people."""
        return f"session {self.session_id}" if self.session_id else self._by

    async def open(self) -> Workspace:
        """The files, to be mounted or read. Raises SandboxFailed."""
        assert self._uses is not None, "it was released"
        return await self._uses.open(self.workspace_id)

    def release(self) -> None:
        """May be called twice."""
        uses, self._uses = self._uses, None
        if uses is not None:
            uses.end(self)


class Uses:
    """All uses of named workspaces."""

    def __init__(self, storage: Storage, on_rest: Callable[[str, int | None], None]) -> None:
        """`on_rest` is told which workspace was put to rest, and how many bytes it has."""
        self._storage = storage
        self._on_rest = on_rest
        self._held: defaultdict[str, list[Use]] = defaultdict(list)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._tasks = Tasks("workspaces")

    def begin(self, workspace_id: str, name: str, *, read_only: bool, by: str = CREATING) -> Use:
        """Raises WorkspaceInUse for a second one that writes."""
        if not read_only:
            for other in self._held.get(workspace_id, ()):
                if not other.read_only:
                    raise WorkspaceInUse(f"The workspace '{name}' is used by {other.by}, which writes.")
        return self._add(Use(self, workspace_id, read_only, by))

    def resume(self, workspace_id: str, *, read_only: bool, session_id: str) -> Use:
        """The use of a session of an earlier gateway: it is not asked whether it may."""
        use = self._add(Use(self, workspace_id, read_only, CREATING))
        use.session_id = session_id
        return use

    def _add(self, use: Use) -> Use:
        self._held[use.workspace_id].append(use)
        return use

    def used(self, workspace_id: str) -> bool:
        return workspace_id in self._held

    def check_unused(self, workspace_id: str, name: str) -> None:
        for use in self._held.get(workspace_id, ()):
            raise WorkspaceInUse(
                f"The workspace '{name}' is used by {use.by}.", "Stop or delete that session first."
            )

    def sessions(self, workspace_id: str) -> list[WorkspaceUse]:
        return [
            WorkspaceUse(session_id=use.session_id, read_only=use.read_only)
            for use in self._held.get(workspace_id, ())
            if use.session_id is not None or use.by == CREATING
        ]

    def alone(self, workspace_id: str) -> asyncio.Lock:
        """To be held by whoever opens a workspace, puts it to rest, changes its size or removes it."""
        lock = self._locks.get(workspace_id)
        if lock is None:
            lock = self._locks[workspace_id] = asyncio.Lock()
        return lock

    async def open(self, workspace_id: str) -> Workspace:
        async with self.alone(workspace_id):
            return await self._storage.open(workspace_id)

    def end(self, use: Use) -> None:
        held = self._held[use.workspace_id]
        held.remove(use)
        if not held:
            del self._held[use.workspace_id]
            self.rest(use.workspace_id)

    def rest(self, workspace_id: str) -> None:
        """Has a workspace put to rest if nobody uses it."""
        self._tasks.spawn(self._rest(workspace_id))

    async def _rest(self, workspace_id: str) -> None:
        async with self.alone(workspace_id):
            if workspace_id not in self._held:
                self._on_rest(workspace_id, await self._storage.rest(workspace_id))

    async def close(self) -> None:
        await self._tasks.done()
