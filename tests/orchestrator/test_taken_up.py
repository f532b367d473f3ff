"""What one gateway left, another takes up, whatever goes wrong meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from interpreter.errors import SandboxFailed, StoreUnavailable
from interpreter.models import Execution, ExecutionCreate, ExecutionStatus, SessionCreate, SessionState
from interpreter.orchestrator.session import LiveSession
from interpreter.runtimes.base import Meter, Sandbox
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


async def result(gateways: Gateways, session: LiveSession) -> Execution:
    """The cell that was left unfinished, when it has ended."""
    async for rows in session.events.follow(0, execution_id=ID):
        if rows[-1].type == "done":
            break
    execution = await gateways.store.execution(session.id, ID)
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
