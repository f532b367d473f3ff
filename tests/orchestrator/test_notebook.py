"""A notebook whose session's cells end at moments that are hard to hit from outside."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from interpreter.models import ReplayState, Session, SessionCreate
from interpreter.orchestrator.session import LiveSession
from interpreter.runtimes.base import Meter, Sandbox
from interpreter.store import EventRow
from tests.conftest import only
from tests.orchestrator.conftest import Gateways

pytestmark = only("embedded")


def replaying(*sources: str) -> SessionCreate:
    cells = [{"cell_type": "code", "source": source} for source in sources]
    return msgspec.convert({"notebook": {"nbformat": 4, "cells": cells}}, SessionCreate)


async def ended(session: LiveSession) -> Session:
    """The session when its notebook has ended."""
    async for _ in session.events.follow(0):
        model = session.model()
        if model.replay is not None and model.replay.state.final:
            break
    await session.events.settled()
    return session.model()


async def test_no_cell_runs_after_one_failed_while_the_gateway_was_away(
    gateways: Gateways, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await gateways.orchestrator.create(
        replaying("import time; time.sleep(600)", "open('ran', 'w')", "open('ran', 'w')")
    )
    await session.create_context("other")
    cells = [cell.id for cell in await gateways.store.executions(session.id)]
    await gateways.end()
    # The earlier gateway heard how the first one ended, and was killed before it could say so.
    store = await gateways.open_store()
    facts = {"status": "running", "reply": "error", "idle": True}
    row = EventRow(await store.last_seq(session.id) + 1, "status", cells[0], msgspec.json.encode(facts))
    await store.append_events(session.id, [row])
    await store.close()
    meter = gateways.runtime.meter

    async def slow_meter(sandbox: Sandbox) -> Meter | None:
        await asyncio.sleep(0.1)  # as on an engine far away
        return await meter(sandbox)

    monkeypatch.setattr(gateways.runtime, "meter", slow_meter)
    await gateways.start()
    session = gateways.orchestrator.get(session.id)
    replay = (await ended(session)).replay
    assert replay is not None
    assert (replay.state, replay.done) == (ReplayState.failed, 1)
    assert [cell.status.value for cell in await gateways.store.executions(session.id)] == [
        "error",
        "cancelled",
        "cancelled",
    ]


async def test_a_waiting_cell_can_be_cancelled_when_none_runs(gateways: Gateways) -> None:
    session = await gateways.orchestrator.create(
        replaying("import time; time.sleep(0.5)", "1", "2", "3")
    )
    session.hold_queues()  # as a gateway does that is about to stop
    cells = [cell.id for cell in await gateways.store.executions(session.id)]
    first, third = session.history.active(cells[0]), session.history.active(cells[2])
    assert first is not None
    assert third is not None
    await first.done
    session.cells_of(third).cancel(third, "a test")
    replay = (await ended(session)).replay
    assert replay is not None
    assert (replay.state, replay.done) == (ReplayState.cancelled, 1)
    assert replay.reason == "cell 3: a test"
    assert [cell.status.value for cell in await gateways.store.executions(session.id)] == [
        "ok",
        *["cancelled"] * 3,
    ]
