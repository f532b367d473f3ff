"""What is kept in memory of a session that is stopped: little, and nobody notices."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Set

import pytest

from interpreter.link.connection import Link
from interpreter.models import (
    Execution,
    ExecutionCreate,
    ExecutionStatus,
    SessionCreate,
    SessionState,
)
from interpreter.orchestrator import maintenance
from interpreter.orchestrator.cell import Cell
from interpreter.orchestrator.session import LiveSession
from interpreter.store import EventRow, SessionRecord
from tests.conftest import only
from tests.orchestrator.conftest import Gateways

pytestmark = only("embedded")
SHOWS = ExecutionCreate(
    code="print('x' * 100_000); shown = display('before', display_id='shown'); print(__name__)"
)
UPDATES = ExecutionCreate(
    code="from IPython.display import update_display; update_display('after', display_id='shown')"
)


async def let_go(session: LiveSession) -> None:
    async with asyncio.timeout(60):
        while session._remembers:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def none_is_left(kind: type) -> None:
    async with asyncio.timeout(60):
        while any(isinstance(one, kind) for one in gc.get_objects()):
            await asyncio.sleep(0.05)
            gc.collect()


async def ended(gateways: Gateways, session: LiveSession, request: ExecutionCreate, key: str) -> Cell:
    cell = await gateways.orchestrator.executions.submit(session.id, request, key)
    assert isinstance(cell, Cell), "it is run"
    await cell.done
    return cell


async def test_a_stopped_session_is_read_from_the_store_and_remembers_when_it_is_started(
    gateways: Gateways,
) -> None:
    executions = gateways.orchestrator.executions
    session = await gateways.orchestrator.create(SessionCreate())
    seen: list[EventRow] = []

    async def follow() -> None:
        async for rows in session.events.follow(0):
            seen.extend(rows)

    following = asyncio.create_task(follow())
    cell = await ended(gateways, session, SHOWS, "first")
    await gateways.orchestrator.stop_session(session.id)
    await let_go(session)
    assert not session.events._recent
    assert not session.history._recent
    assert not session.history._displays
    assert not session.known_ids
    before = cell.model()
    del cell
    await none_is_left(Link)  # nor anything of its sandbox

    assert await executions.read(session.id, before.id) == before
    again = await executions.submit(session.id, SHOWS, "first")
    assert isinstance(again, Execution)
    assert again == before, "one that is sent again is not run again, though the session is stopped"

    await gateways.orchestrator.start_session(session.id)
    assert executions.submit_now(session.id, SHOWS, "first") is None, "nor when it is started"
    assert (await executions.submit(session.id, SHOWS, "first")).id == before.id
    await ended(gateways, session, UPDATES, "second")
    after = await executions.read(session.id, before.id)
    assert "'after'" in str(after.outputs), "and what the first had shown can be updated"
    assert session.executions == 2

    await gateways.orchestrator.stop_session(session.id)
    async with asyncio.timeout(60):
        while not seen or seen[-1].seq < session.events.committed:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    following.cancel()
    stored = await gateways.store.events(session.id, 0, max_bytes=10_000_000)
    assert [row.seq for row in seen] == list(range(1, len(seen) + 1))
    assert seen == stored, "who followed it all the time has seen everything, once"


async def test_one_that_is_started_at_once_forgets_nothing(gateways: Gateways) -> None:
    session = await gateways.orchestrator.create(SessionCreate())
    await ended(gateways, session, SHOWS, "first")
    stopping = asyncio.create_task(gateways.orchestrator.stop_session(session.id))
    while session.state is not SessionState.stopped:  # noqa: ASYNC110
        await asyncio.sleep(0)
    starting = asyncio.create_task(gateways.orchestrator.start_session(session.id))
    await stopping
    await starting
    known = await gateways.orchestrator.executions.submit(session.id, SHOWS, "first")
    assert known.status.final
    assert session.executions == 1


async def test_one_that_failed_still_says_why_when_sessions_end_with_the_gateway(
    gateways: Gateways,
) -> None:
    session = await gateways.orchestrator.create(SessionCreate())
    other = await gateways.orchestrator.create(SessionCreate())
    session._on_sandbox_end("a test")
    await gateways.end(on_shutdown="stop")
    await gateways.start()
    session, other = (gateways.orchestrator.get(one.id) for one in (session, other))
    assert (session.state, session.record.reason) == (SessionState.failed, "a test")
    assert (other.state, other.record.reason) == (SessionState.stopped, "the gateway stopped")


async def test_one_whose_sandbox_is_found_to_be_gone_is_stopped_and_says_why(
    gateways: Gateways, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await gateways.orchestrator.create(SessionCreate())
    cell = await session.submit("e-0123456789abcdef", ExecutionCreate(code="while True: pass"))

    async def sweep(known: Set[str]) -> Set[str]:
        return set()

    with monkeypatch.context() as patched:
        patched.setattr(gateways.runtime, "sweep", sweep)
        await gateways.orchestrator._maintenance.reconcile()
    assert (session.state, session.record.reason) == (SessionState.stopped, "its sandbox is gone")
    await cell.done
    assert (cell.status, cell.reason) == (ExecutionStatus.lost, "its sandbox is gone")
    await gateways.orchestrator.start_session(session.id)
    assert session.state is SessionState.ready


async def test_sessions_may_come_and_go_while_workspaces_are_looked_through(
    gateways: Gateways, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await gateways.orchestrator.create(SessionCreate())
    await gateways.orchestrator.stop_session(session.id)
    sessions, find = gateways.orchestrator._sessions, maintenance.workspace_of

    def find_meanwhile(record: SessionRecord) -> str | None:
        if sessions.pop("s-goes", None) is None:
            sessions["s-goes"] = session
        return find(record)

    stray = gateways.config.data_path / "workspaces" / "s-stray"
    stray.mkdir()
    monkeypatch.setattr(maintenance, "workspace_of", find_meanwhile)
    await gateways.orchestrator._maintenance.reconcile()
    sessions.pop("s-goes", None)
    assert not stray.exists()
    assert stray.with_name(session.id).exists()
