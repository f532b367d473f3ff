"""What one gateway left, another takes up, whatever goes wrong meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from interpreter.config import Config
from interpreter.errors import SandboxFailed, StoreUnavailable
from interpreter.models import Execution, ExecutionCreate, ExecutionStatus, SessionCreate, SessionState
from interpreter.orchestrator import Orchestrator
from interpreter.orchestrator.session import LiveSession
from interpreter.runtimes import Runtime, prepared
from interpreter.runtimes.base import Meter, Sandbox
from interpreter.store import Store
from tests.conftest import KERNELS, only

pytestmark = only("embedded")
ID = "e-0123456789abcdef"
SLOW = ExecutionCreate(code="import time; time.sleep(0.5); print('done')")


class Gateways:
    """One gateway after another in this process, on the same data."""

    def __init__(self, config: Config, runtime: Runtime) -> None:
        self.config = config
        self.runtime = runtime
        self.store: Store
        self.orchestrator: Orchestrator

    async def start(self) -> None:
        self.store = await Store.open(self.config.data_path / "interpreter.db")
        self.orchestrator = Orchestrator(self.config, self.store, self.runtime)
        await self.orchestrator.start()

    async def end(self) -> None:
        await self.orchestrator.close()
        await self.store.close()

    async def left_paused(self) -> LiveSession:
        """A session that was paused in the middle of a cell, at the next gateway."""
        session = await self.orchestrator.create(SessionCreate())
        await session.submit(ID, SLOW)
        await session.pause("a test")
        await self.end()
        await self.start()
        session = self.orchestrator.get(session.id)
        assert session.state is SessionState.paused
        return session


@pytest.fixture
async def gateways(data_root: Path, place: dict[str, str], tmp_path: Path) -> AsyncIterator[Gateways]:
    config = Config(data_dir=str(tmp_path / "data"), kernels_dir=KERNELS, spares=0, **place)  # type: ignore[arg-type]
    (tmp_path / "data").mkdir()
    runtime = await prepared(config, lambda sentence: None)
    gateways = Gateways(config, runtime)
    await gateways.start()
    yield gateways
    for session in (await gateways.orchestrator.sessions())[0]:
        await gateways.orchestrator.delete(session.id)
    await gateways.end()
    await runtime.close()


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
    session = await gateways.left_paused()
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
    session = await gateways.left_paused()

    async def unmeasured(sandbox: Sandbox) -> Meter | None:
        raise SandboxFailed("a test")

    monkeypatch.setattr(gateways.runtime, "meter", unmeasured)
    with pytest.raises(SandboxFailed, match="a test"):
        await session.wake()
    assert (session.state, session.live) == (SessionState.stopped, None)
    assert (await result(gateways, session)).status is ExecutionStatus.lost
