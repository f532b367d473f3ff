"""What happens while a session is being paused: nobody's cell is left standing in a frozen sandbox."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from interpreter.errors import SandboxFailed
from interpreter.models import ExecutionCreate, ExecutionStatus, SessionCreate, SessionState
from interpreter.orchestrator import expiry
from interpreter.orchestrator.clock import tick
from interpreter.orchestrator.session import LiveSession
from interpreter.runtimes.base import Runtime, Sandbox
from tests.conftest import only
from tests.orchestrator.conftest import Gateways

pytestmark = only("embedded")
FIRST, SECOND = "e-0123456789abcdef", "e-fedcba9876543210"
WAITS = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)"


@asynccontextmanager
async def being_paused(
    session: LiveSession, runtime: Runtime, patch: pytest.MonkeyPatch, problem: Exception | None = None
) -> AsyncIterator[asyncio.Task[None]]:
    """The moment between the decision to freeze a sandbox and the freeze."""
    pause, begun, go = runtime.pause, asyncio.Event(), asyncio.Event()

    async def slowly(sandbox: Sandbox) -> None:
        begun.set()
        await go.wait()
        if problem is not None:
            raise problem
        await pause(sandbox)

    with patch.context() as patched:
        patched.setattr(runtime, "pause", slowly)
        pausing = asyncio.create_task(session.pause("a test"))
        await begun.wait()
        yield pausing
        go.set()
        await asyncio.wait({pausing})


async def test_a_cell_that_comes_while_its_session_is_paused_resumes_it(
    gateways: Gateways, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await gateways.orchestrator.create(SessionCreate())
    executions = gateways.orchestrator.executions
    request = ExecutionCreate(code="6 * 7")
    async with being_paused(session, gateways.runtime, monkeypatch):
        assert executions.submit_now(session.id, request, None) is None, "it takes waiting"
        sent = asyncio.create_task(executions.submit(session.id, request))
        other = asyncio.create_task(session.create_context("other"))
    cell = await sent
    await cell.done  # type: ignore[union-attr]
    assert cell.model().text == "42"  # type: ignore[union-attr]
    assert (await other).name == "other"
    assert session.state is SessionState.ready


async def test_a_cell_that_waits_is_not_started_while_its_session_is_paused(
    gateways: Gateways, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await gateways.orchestrator.create(SessionCreate())
    first = await session.submit(FIRST, ExecutionCreate(code=WAITS))
    second = await session.submit(SECOND, ExecutionCreate(code="6 * 7", timeout=60))
    async with being_paused(session, gateways.runtime, monkeypatch):
        (gateways.config.data_path / "workspaces" / session.id / "go").touch()
        await first.done
    assert session.state is SessionState.paused
    assert (second.status, second.time_limit) == (ExecutionStatus.queued, None)
    await session.wake()
    await second.done
    assert second.model().text == "42"


async def test_cells_go_on_when_a_session_could_not_be_paused(
    gateways: Gateways, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await gateways.orchestrator.create(SessionCreate())
    first = await session.submit(FIRST, ExecutionCreate(code=WAITS))
    second = await session.submit(SECOND, ExecutionCreate(code="6 * 7"))
    problem = SandboxFailed("a test")
    async with being_paused(session, gateways.runtime, monkeypatch, problem) as pausing:
        (gateways.config.data_path / "workspaces" / session.id / "go").touch()
        await first.done
    assert pausing.exception() is problem
    await second.done
    assert second.model().text == "42"


@pytest.mark.parametrize("on_idle", ["pause", "stop"])
async def test_a_session_that_is_used_before_its_turn_to_end_goes_on(
    gateways: Gateways, on_idle: str
) -> None:
    session = await gateways.orchestrator.create(SessionCreate(on_idle=on_idle))  # type: ignore[arg-type]
    reaper = gateways.orchestrator._reaper
    async with session._changing:
        session.active_tick = tick() - session.limits.idle_seconds - 1
        reaper._look(session)  # it is time for its end
        session.touch()
    await reaper._tasks.done()
    assert session.state is SessionState.ready


async def test_a_session_that_is_idle_soon_after_it_was_looked_at_is_warned_in_time(
    gateways: Gateways,
) -> None:
    session = await gateways.orchestrator.create(SessionCreate(on_idle="stop"))
    cell = await session.submit(FIRST, ExecutionCreate(code=WAITS))
    reaper, loop = gateways.orchestrator._reaper, asyncio.get_running_loop()
    reaper._look(session)
    assert session.state is SessionState.busy
    idle = session.limits.idle_seconds
    assert reaper._due[session.id] <= loop.time() + idle - expiry.warning_span(idle)
    (gateways.config.data_path / "workspaces" / session.id / "go").touch()
    await cell.done
