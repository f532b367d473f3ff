"""Executions and events as callers ask for them: of sessions with a sandbox and without one."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Any

from interpreter.errors import (
    ExecutionNotFound,
    InputNotExpected,
    KeyReused,
    ShuttingDown,
    WrongState,
)
from interpreter.models import Execution, ExecutionCreate, ExecutionList
from interpreter.models.commands import CommandCreate
from interpreter.orchestrator import command
from interpreter.orchestrator.cell import Cell, Sent, with_outputs
from interpreter.orchestrator.command import Command
from interpreter.orchestrator.history import refold
from interpreter.orchestrator.kernel_listener import PREFIX
from interpreter.store import EventRow, Input, Store

if TYPE_CHECKING:
    from interpreter.orchestrator.orchestrator import Orchestrator
    from interpreter.orchestrator.session import LiveSession


def execution_id(session_id: str, key: str, prefix: str = PREFIX) -> str:
    """The id of the cell that is sent with a key, however often it is sent."""
    return prefix + hashlib.sha256(f"{session_id} {key}".encode()).hexdigest()[:16]


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
        id = _new_id(session_id, key)
        if not await self._knows(session, id):
            return session.submit_now(id, request)
        return await self._known(session_id, id, request.code)

    async def run_command(
        self, session_id: str, request: CommandCreate, key: str | None = None
    ) -> Command | Execution:
        """Runs a command, or finds the one that was sent with this key before."""
        session = self._orchestrator.get(session_id)
        id = _new_id(session_id, key, command.PREFIX)
        if not await self._knows(session, id):
            return session.run_command(id, request)
        shown = command.shown(request)
        known = await self._known(session_id, id, shown)
        assert isinstance(known, Command | Execution)
        return known

    async def give(self, session_id: str, execution_id: str, text: str, *, eof: bool) -> None:
        """Has a command read something."""
        running = await self._active(session_id, execution_id)
        if not isinstance(running, Command):
            raise InputNotExpected("This command has ended.", "Start it again.")
        await self._orchestrator.get(session_id).commands.give(running, text, eof=eof)

    async def _knows(self, session: LiveSession, id: str) -> bool:
        """Whether this was sent before; if not, the session is awake."""
        if self._orchestrator.draining:
            raise ShuttingDown("The gateway is about to stop.")
        self._store.condition.check()
        await session.created.wait()
        await session.remember()
        if not session.knows(id):
            await session.come_awake()
        return session.knows(id)  # which may have changed while it woke up

    async def _known(self, session_id: str, id: str, code: str) -> Cell | Execution:
        """One that was sent before."""
        session = self._orchestrator.get(session_id)
        known = self.cell(session_id, id) or await self.read(session_id, id)
        if not known.status.final:
            # Who sends it again waits for it, also where it stands still in a session that is paused.
            await session.come_awake()
            known = self.cell(session_id, id) or await self.read(session_id, id)
        if known.code != code:
            raise KeyReused("Another cell was sent with this Idempotency-Key.")
        return known

    async def submit_for_jupyter(
        self,
        session_id: str,
        request: ExecutionCreate,
        *,
        silent: bool,
        expressions: Mapping[str, Any],
        notebook_cell: str | None,
        sent: Sent,
        on_new: Callable[[str], None],
        key: str | None = None,
    ) -> Cell | str:
        """Runs a cell that came as a Jupyter message; `on_new` is told its id before the kernel is.

        With the key of one that came before it is not run again: its id is returned.
        """
        session = self._orchestrator.get(session_id)
        if self._orchestrator.draining:
            raise ShuttingDown("The gateway is about to stop.")
        self._store.condition.check()
        id = _new_id(session_id, key)
        if key is None:
            await session.come_awake()
        elif await self._knows(session, id):
            return (await self._known(session_id, id, request.code)).id
        on_new(id)
        return session.submit_now(
            id,
            request,
            silent=silent,
            expressions=expressions,
            notebook_cell=notebook_cell,
            sent=sent,
        )

    def submit_now(self, session_id: str, request: ExecutionCreate, key: str | None) -> Cell | None:
        """The same at once; None when it takes waiting, or the cell was sent before."""
        session = self._orchestrator.get(session_id)
        self._store.condition.check()
        id = _new_id(session_id, key)
        if self._orchestrator.draining or not session.awake or session.knows(id):
            return None
        return session.submit_now(id, request)

    async def page(
        self, session_id: str, limit: int, after: str | None, *, newest: bool = False
    ) -> ExecutionList:
        """Some of the executions, with where to go on from them by events."""
        events = self._orchestrator.get(session_id).events
        await events.caught_up()
        # What is stored by now is in what is read after it.
        last = events.committed
        found = await self.all(session_id, limit, after, newest=newest)
        running = [execution.id for execution in found if not execution.status.final]
        first = await self._store.first_event(session_id, running) if running else None
        follow_after = last if first is None else min(last, first - 1)
        return ExecutionList(executions=found, last_event=last, follow_after=follow_after)

    async def all(
        self,
        session_id: str,
        limit: int | None,
        after: str | None,
        prefix: str = "",
        *,
        newest: bool = False,
        running: bool = False,
    ) -> list[Execution]:
        """Oldest first, or newest; those whose id begins with a prefix, or of them those that have not
        ended."""
        session = self._orchestrator.get(session_id)
        if after is not None:
            await self.read(session_id, after)
        await session.history.settled()
        stored = await self._store.executions(
            session_id, limit, after, prefix, newest=newest, unfinished=running
        )
        found = []
        for execution in stored:
            cell = self.cell(session_id, execution.id)
            known = cell is not None and not cell.untold
            found.append(cell.model() if cell and known else await session.history.current(execution))
        return [execution for execution in found if not running or not execution.status.final]

    async def inputs(self, session_id: str, count: int) -> list[Input]:
        """What the last cells of the default context were, oldest first."""
        await self._orchestrator.get(session_id).history.settled()
        return await self._store.inputs(session_id, count)

    async def read(self, session_id: str, execution_id: str) -> Execution:
        session = self._orchestrator.get(session_id)
        if cell := self.cell(session_id, execution_id):
            if cell.untold:
                await asyncio.shield(cell.done)
            return cell.model()
        await session.catch_up()
        changing = session.history.changing(execution_id)
        execution = await self._store.execution(session_id, execution_id)
        if execution is None:
            raise ExecutionNotFound(f"Session {session_id} has no execution '{execution_id[:100]}'.")
        return await session.history.current(execution, changing)

    async def ended(self, session_id: str, execution_id: str, *, wake: bool = True) -> Execution:
        """An execution when it has ended; a session that is paused is resumed for that."""
        execution = await self.read(session_id, execution_id)
        if execution.status.final:
            return execution
        if wake:
            await self._orchestrator.get(session_id).come_awake()
        if (cell := self.cell(session_id, execution_id)) is None:
            return await self.read(session_id, execution_id)
        await asyncio.shield(cell.done)
        return cell.model()

    async def fuller(self, session_id: str, execution: Execution) -> Execution:
        """An execution with as much of its output as any result can carry."""
        if execution.truncated is None or not execution.status.final:
            return execution
        session = self._orchestrator.get(session_id)
        await session.events.caught_up()
        most = session.most_output_bytes
        return with_outputs(execution, await refold(self._store, session_id, execution.id, most))

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
            self._orchestrator.get(session_id).cells_of(cell).cancel(cell, "it was cancelled")
            self._orchestrator.get(session_id).events.flush()
            self._store.hurry()
            await asyncio.shield(cell.done)
        return await self.read(session_id, execution_id)

    def abandon(self, session_id: str, execution_id: str) -> None:
        """The caller of an execution that ends with it went away."""
        session = self._orchestrator.get(session_id)
        if cell := session.history.active(execution_id):
            session.cells_of(cell).cancel(cell, "the caller went away")

    async def extend(self, session_id: str, execution_id: str, timeout: float) -> Execution:
        """Gives a queued or running execution another timeout."""
        cell = await self._active(session_id, execution_id)
        if cell is None:
            raise WrongState("This execution has ended.")
        self._orchestrator.get(session_id).cells_of(cell).extend(cell, timeout)
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


def _new_id(session_id: str, key: str | None, prefix: str = PREFIX) -> str:
    """For an execution: a random one, or what its key makes of it every time."""
    return prefix + secrets.token_hex(8) if key is None else execution_id(session_id, key, prefix)
