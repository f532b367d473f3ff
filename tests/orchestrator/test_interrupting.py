"""What is cancelled is interrupted before anything else: also when nothing can be written, or when it is
frozen meanwhile."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing

import pytest
from msgspec.structs import replace

from interpreter.models import EventType, ExecutionCreate, ExecutionStatus, SessionCreate
from interpreter.models.commands import CommandCreate
from interpreter.orchestrator.cell import Cell
from interpreter.orchestrator.session import LiveSession
from interpreter.store.condition import Condition
from tests.conftest import only
from tests.orchestrator.conftest import Gateways

pytestmark = only("embedded")
FIRST, SECOND = "e-0123456789abcdef", "e-fedcba9876543210"
COMMAND = "c-0123456789abcdef"
ENDLESS = "x = 1; print('begun')\nwhile True: pass"
HESITATES = """
import os, time
x = 1
print('begun')
try:
    time.sleep(600)
except KeyboardInterrupt:
    print('interrupted')
    while not os.path.exists('go'): time.sleep(0.01)
"""


async def printed(session: LiveSession, id: str, text: str) -> None:
    async for rows in session.events.follow(0, execution_id=id):
        if any(row.type == EventType.stream.value and text.encode() in row.data for row in rows):
            return


async def result(session: LiveSession, id: str, code: str) -> str:
    cell = await session.submit(id, ExecutionCreate(code=code))
    await cell.done
    return cell.model().text


@pytest.fixture
async def patient(gateways: Gateways) -> Gateways:
    """One that kills no kernel because its cell takes its time to end."""
    await gateways.end()
    gateways.config = replace(gateways.config, interrupt_grace=600)
    await gateways.start()
    return gateways


@asynccontextmanager
async def nothing_can_be_written(gateways: Gateways) -> AsyncIterator[Condition]:
    """Somebody else holds on to the database, which is as if the disk were full."""
    path = gateways.config.data_path / "interpreter.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield gateways.store.condition
        other.execute("ROLLBACK")


async def over(cell: Cell) -> None:
    """Returns when it has ended, which nobody is told before that is stored."""
    async with asyncio.timeout(60):
        while not cell.ending:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_a_cell_is_interrupted_and_its_kernel_is_kept_though_nothing_can_be_written(
    patient: Gateways,
) -> None:
    session = await patient.orchestrator.create(SessionCreate())
    cell = await session.submit(FIRST, ExecutionCreate(code=ENDLESS))
    await printed(session, FIRST, "begun")
    async with nothing_can_be_written(patient) as condition:
        session.cells_of(cell).cancel(cell, "a test")
        await over(cell)
        assert condition.problem is not None
        assert not cell.done.done(), "nobody is told what a killed gateway would forget"
    await cell.done
    assert (cell.status, cell.reason) == (ExecutionStatus.cancelled, "a test")
    assert await result(session, SECOND, "x") == "1", "the kernel was not killed"


async def test_a_command_is_ended_though_nothing_can_be_written(gateways: Gateways) -> None:
    session = await gateways.orchestrator.create(SessionCreate())
    command = session.run_command(COMMAND, CommandCreate(command="echo begun; exec sleep 1000"))
    await printed(session, COMMAND, "begun")
    async with nothing_can_be_written(gateways):
        session.commands.cancel(command, "a test")
        await over(command)
    await command.done
    assert (command.status, command.reason) == (ExecutionStatus.cancelled, "a test")


async def test_a_cell_that_is_frozen_before_it_could_yield_has_its_time_for_that_afterwards(
    patient: Gateways,
) -> None:
    session = await patient.orchestrator.create(SessionCreate())
    cell = await session.submit(FIRST, ExecutionCreate(code=HESITATES))
    await printed(session, FIRST, "begun")
    session.cells_of(cell).cancel(cell, "a test")
    await printed(session, FIRST, "interrupted")
    while (before := cell.grace) is None:  # noqa: ASYNC110
        await asyncio.sleep(0)
    await session.pause("a test")
    assert before.cancelled()
    await session.wake()
    assert cell.grace is not None
    assert not cell.grace.cancelled()
    assert cell.grace.when() > before.when()
    (patient.config.data_path / "workspaces" / session.id / "go").touch()
    await cell.done
    assert (cell.status, await result(session, SECOND, "x")) == (ExecutionStatus.cancelled, "1")


async def test_an_interrupt_whose_kernel_goes_while_it_waits_is_no_fault(
    gateways: Gateways, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await gateways.orchestrator.create(SessionCreate())
    await session.submit(FIRST, ExecutionCreate(code=ENDLESS))
    await printed(session, FIRST, "begun")
    context = session.context("default")

    async def wait_too_long() -> None:
        context.lose("a test")

    monkeypatch.setattr(context.cells, "sent", wait_too_long)
    await context.interrupt()
