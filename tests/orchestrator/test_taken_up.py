"""What one gateway left, another takes up, whatever goes wrong meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
import requests
from msgspec.structs import replace

from interpreter.errors import SandboxFailed, StoreUnavailable
from interpreter.models import (
    Execution,
    ExecutionCreate,
    ExecutionStatus,
    ExecutionUsage,
    FileChange,
    SessionCreate,
    SessionState,
    to_json,
)
from interpreter.orchestrator import live_sandbox, maintenance
from interpreter.orchestrator.session import LiveSession
from interpreter.runtimes.base import Meter, Sandbox
from interpreter.store import Ending, Store
from interpreter.store.journal import Journal
from tests.conftest import only
from tests.orchestrator.conftest import Gateways

pytestmark = only("embedded")
ID = "e-0123456789abcdef"
SLOW = ExecutionCreate(code="import time; time.sleep(0.5); print('done')")


async def left_paused(gateways: Gateways) -> LiveSession:
    """A session that was paused in the middle of a cell, at the next gateway."""
    session = await gateways.orchestrator.create(SessionCreate())
    await session.submit(ID, SLOW)
    await session.pause("a test")
    await gateways.end()
    await gateways.start()
    session = gateways.orchestrator.get(session.id)
    assert session.state is SessionState.paused
    return session


async def result(gateways: Gateways, session: LiveSession, id: str = ID) -> Execution:
    """A cell that was left unfinished, when it has ended."""
    async for rows in session.events.follow(0, execution_id=id):
        if any(row.type == "done" for row in rows):
            break
    execution = await gateways.store.execution(session.id, id)
    assert execution is not None
    return execution


async def test_a_paused_session_that_is_not_reached_stays_paused_and_can_be_tried_again(
    gateways: Gateways, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await left_paused(gateways)
    connect = gateways.runtime.connect

    async def cut(sandbox: Sandbox, protocol: Callable[[], asyncio.BaseProtocol]) -> asyncio.Transport:
        transport = await connect(sandbox, protocol)
        transport.abort()
        return transport

    with monkeypatch.context() as patched:
        patched.setattr(gateways.runtime, "connect", cut)
        with pytest.raises(SandboxFailed, match="does not answer"):
            await session.wake()
    assert session.state is SessionState.paused

    async def unreadable(session_id: str) -> list[Execution]:
        raise StoreUnavailable("a test")

    with monkeypatch.context() as patched:
        patched.setattr(gateways.store, "unfinished", unreadable)
        with pytest.raises(StoreUnavailable):
            await session.wake()
    assert session.state is SessionState.paused
    cell = await session.submit("e-fedcba9876543210", ExecutionCreate(code="6 * 7"))
    await cell.done
    assert cell.model().text == "42"
    assert (await result(gateways, session)).text == "done\n"


async def test_a_paused_session_that_is_taken_up_in_part_is_stopped_and_its_cells_end(
    gateways: Gateways, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await left_paused(gateways)

    async def unmeasured(sandbox: Sandbox) -> Meter | None:
        raise SandboxFailed("a test")

    monkeypatch.setattr(gateways.runtime, "meter", unmeasured)
    with pytest.raises(SandboxFailed, match="a test"):
        await session.wake()
    assert (session.state, session.live) == (SessionState.stopped, None)
    assert (await result(gateways, session)).status is ExecutionStatus.lost


async def test_a_gateway_that_leaves_a_session_alone_keeps_what_was_written_down_of_it(
    gateways: Gateways, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await gateways.orchestrator.create(SessionCreate())
    cell = await session.submit(ID, SLOW)
    await session.history.settled()
    await gateways.end()
    # As if it had been killed: one cell was answered, another was sent, and neither is in the store.
    file = FileChange(path="made", change="created", size=1)
    measured = Ending(
        session.id, ID, cell.started_at, 1234.5, ExecutionUsage(cpu_seconds=0.25), [file], 3
    )
    other = replace(cell.model(), id="e-fedcba9876543210", code="6 * 7")
    journal = Journal(gateways.config.data_path / "interpreter.journal")
    journal.add_ending(measured)
    journal.add(to_json(other), b"{}")
    journal.close()
    with monkeypatch.context() as patched:
        patched.setattr(gateways.runtime, "name", "another")
        await gateways.start()
        assert gateways.orchestrator.get(session.id).elsewhere is not None
        await gateways.end()
    await gateways.start()
    session = gateways.orchestrator.get(session.id)
    found = await result(gateways, session)
    assert (found.text, found.duration_ms, found.usage) == ("done\n", 1234.5, measured.usage)
    assert (found.files, found.files_left_out) == ([file], 3)
    assert (await result(gateways, session, other.id)).text == "42"
    assert gateways.store.journaled(session.id) is None, "and from then on it is in the store"


async def left_running(gateways: Gateways) -> str:
    """A session whose gateway ended in the middle of a cell."""
    session = await gateways.orchestrator.create(SessionCreate())
    await session.submit(ID, SLOW)
    await session.history.settled()
    await gateways.end()
    return session.id


@pytest.mark.parametrize("trouble", ["find", "connect", "store"])
async def test_a_sandbox_that_is_not_reached_at_once_is_tried_again_and_goes_on(
    gateways: Gateways, monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    id = await left_running(gateways)
    failed = asyncio.Event()
    problem = {
        "find": requests.ConnectionError("a test"),
        "connect": SandboxFailed("a test"),
        "store": StoreUnavailable("a test"),
    }[trouble]

    async def fail(*given: object) -> None:
        failed.set()
        raise problem

    with monkeypatch.context() as patched:
        patched.setattr(maintenance, "PATIENCE", 0)
        where = Store if trouble == "store" else gateways.runtime
        patched.setattr(where, "received" if trouble == "store" else trouble, fail)
        await gateways.start()
        await failed.wait()
        session = gateways.orchestrator.get(id)
        assert (session.live is not None, session.created.is_set()) == (True, False)
    assert (await result(gateways, session)).text == "done\n"
    cell = await session.submit("e-fedcba9876543210", ExecutionCreate(code="time.__name__"))
    await cell.done
    assert cell.model().text == "'time'", "its memory is there"


async def test_a_session_that_is_not_reached_can_be_stopped_and_deleted(
    gateways: Gateways, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = await left_running(gateways)
    failed = asyncio.Event()

    async def fail(sandbox: Sandbox) -> None:
        failed.set()
        raise SandboxFailed("a test")

    monkeypatch.setattr(maintenance, "PATIENCE", 0)
    monkeypatch.setattr(gateways.runtime, "find", fail)
    await gateways.start()
    await failed.wait()
    session = await gateways.orchestrator.stop_session(id)
    assert (session.state, session.live) == (SessionState.stopped, None)
    assert (await result(gateways, session)).status is ExecutionStatus.lost
    assert list((gateways.config.data_path / "run").iterdir()) == []
    assert (await gateways.orchestrator.delete(id)).executions == 1


async def test_a_sandbox_that_never_says_anything_is_given_up(
    gateways: Gateways, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = await left_running(gateways)

    async def mute(sandbox: Sandbox, protocol: Callable[[], asyncio.BaseProtocol]) -> None:
        return None

    monkeypatch.setattr(maintenance, "FIRST_PAUSE", 0)
    monkeypatch.setattr(live_sandbox, "START_SECONDS", 0.01)
    monkeypatch.setattr(gateways.runtime, "connect", mute)
    await gateways.start()
    session = gateways.orchestrator.get(id)
    await session.created.wait()
    assert session.state is SessionState.stopped
    assert session.record.reason == "its sandbox does not answer"
    assert (await result(gateways, session)).status is ExecutionStatus.lost
