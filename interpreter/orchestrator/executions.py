"""Executions and events as callers ask for them: of sessions with a sandbox and without one."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Any

from interpreter.errors import ExecutionNotFound, KeyReused, ShuttingDown, WrongState
from interpreter.models import Execution, ExecutionCreate
from interpreter.orchestrator.cell import Cell
from interpreter.orchestrator.kernel_listener import PREFIX
from interpreter.store import EventRow, Store

if TYPE_CHECKING:
    from interpreter.orchestrator.orchestrator import Orchestrator


def execution_id(session_id: str, key: str) -> str:
    """The id of the cell that is sent with a key, however often it is sent."""
    return PREFIX + hashlib.sha256(f"{session_id} {key}".encode()).hexdigest()[:16]


class Executions:
    """Runs cells, and finds those that ran."""

    def __init__(self, orchestrator: Orchestrator, store: Store) -> None:
        self._orchestrator = orchestrator
        self._store = store

    async def submit(
        self, session_id: str, request: ExecutionCreate, key: str | None = None
    ) -> Cell | Execution:
        """Runs a cell. With the key of one that was sent before, that one: it is not run again."""
        session = self._orchestrator.get(session_id)
        if self._orchestrator.draining:
            raise ShuttingDown("The gateway is about to stop.")
        self._store.condition.check()
        id = _new_id(session_id, key)
        await session.created.wait()
        await session.remember()
        if not session.knows(id):
            await session.come_awake()
        if not session.knows(id):  # which may have changed while it woke up
            return session.submit_now(id, request)
        known = self.cell(session_id, id) or await self.read(session_id, id)
        if isinstance(known, Execution) and not known.status.final:
            # An earlier gateway left it in a session that is paused.
            await session.wake()
            known = self.cell(session_id, id) or await self.read(session_id, id)
        if known.code != request.code:
            raise KeyReused("Another cell was sent with this Idempotency-Key.")
        return known

    async def submit_for_jupyter(
        self,
        session_id: str,
        request: ExecutionCreate,
        *,
        silent: bool,
        expressions: Mapping[str, Any],
        on_new: Callable[[str], None],
    ) -> Cell:
        """Runs a cell that came as a Jupyter message; `on_new` is told its id before the kernel is."""
        session = self._orchestrator.get(session_id)
        if self._orchestrator.draining:
            raise ShuttingDown("The gateway is about to stop.")
        self._store.condition.check()
        await session.come_awake()
        id = _new_id(session_id, None)
        on_new(id)
        return session.submit_now(id, request, silent=silent, expressions=expressions)

    def submit_now(self, session_id: str, request: ExecutionCreate, key: str | None) -> Cell | None:
        """The same at once; None when it takes waiting, or the cell was sent before."""
        session = self._orchestrator.get(session_id)
        self._store.condition.check()
        id = _new_id(session_id, key)
        if self._orchestrator.draining or not session.awake or session.knows(id):
            return None
        return session.submit_now(id, request)

    async def all(self, session_id: str, limit: int | None, after: str | None) -> list[Execution]:
        session = self._orchestrator.get(session_id)
        if after is not None:
            await self.read(session_id, after)
        await session.history.settled()
        stored = await self._store.executions(session_id, limit, after)
        found = []
        for execution in stored:
            cell = self.cell(session_id, execution.id)
            known = cell is not None and not cell.untold
            found.append(cell.model() if cell and known else await session.history.current(execution))
        return found

    async def read(self, session_id: str, execution_id: str) -> Execution:
        session = self._orchestrator.get(session_id)
        if cell := self.cell(session_id, execution_id):
            if cell.untold:
                await asyncio.shield(cell.done)
            return cell.model()
        await session.remember()
        execution = await self._store.execution(session_id, execution_id)
        if execution is None:
            raise ExecutionNotFound(f"Session {session_id} has no execution '{execution_id[:100]}'.")
        return await session.history.current(execution)

    def cell(self, session_id: str, execution_id: str) -> Cell | None:
        """An execution that is queued, running or just ended."""
        return self._orchestrator.get(session_id).history.get(execution_id)

    async def _active(self, session_id: str, execution_id: str) -> Cell | None:
        """An execution that is queued or running, in a session that is awake."""
        execution = await self.read(session_id, execution_id)
        if execution.status.final:
            return None
        session = self._orchestrator.get(session_id)
        await session.wake()
        return session.history.active(execution_id)

    async def cancel(self, session_id: str, execution_id: str) -> Execution:
        """Ends a queued or running execution; one that has ended stays as it is."""
        cell = await self._active(session_id, execution_id)
        if cell is not None:
            context = self._orchestrator.get(session_id).context(cell.context)
            context.cells.cancel(cell, "it was cancelled")
            self._orchestrator.get(session_id).events.flush()
            self._store.hurry()
            await asyncio.shield(cell.done)
        return await self.read(session_id, execution_id)

    def abandon(self, session_id: str, execution_id: str) -> None:
        """The caller of an execution that ends with it went away."""
        session = self._orchestrator.get(session_id)
        if cell := session.history.active(execution_id):
            session.context(cell.context).cells.cancel(cell, "the caller went away")

    async def extend(self, session_id: str, execution_id: str, timeout: float) -> Execution:
        """Gives a queued or running execution another timeout."""
        cell = await self._active(session_id, execution_id)
        if cell is None:
            raise WrongState("This execution has ended.")
        self._orchestrator.get(session_id).context(cell.context).cells.extend(cell, timeout)
        await self._orchestrator.get(session_id).history.settled()
        return cell.model()

    async def answer_input(self, session_id: str, execution_id: str, value: str) -> None:
        await self.read(session_id, execution_id)
        session = self._orchestrator.get(session_id)
        await session.wake()
        session.answer_input(execution_id, value)

    async def events(
        self, session_id: str, after: int, *, execution_id: str | None = None, wait: bool = True
    ) -> AsyncIterator[list[EventRow]]:
        """The events after a number, stored ones first, then as they come."""
        session = self._orchestrator.get(session_id)
        if execution_id is not None:
            await self.read(session_id, execution_id)
        await session.events.caught_up()
        async for rows in session.events.follow(after, execution_id=execution_id, wait=wait):
            yield rows


def _new_id(session_id: str, key: str | None) -> str:
    """For an execution: a random one, or what its key makes of it every time."""
    return PREFIX + secrets.token_hex(8) if key is None else execution_id(session_id, key)
