"""A link by a socket that breaks while its sandbox runs is connected again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from interpreter.config import Config
from interpreter.models import ExecutionCreate, ExecutionStatus, SessionCreate, SessionState
from interpreter.models.commands import CommandCreate
from interpreter.orchestrator import Orchestrator
from interpreter.runtimes import prepared
from interpreter.runtimes.base import Sandbox
from interpreter.store import Store
from tests.conftest import KERNELS

CUTS = 5
PRINTS = """
import os, time
lines = 0
while not os.path.exists("enough"):
    for lines in range(lines + 1, lines + 51):
        print("line", lines, flush=lines % 50 == 0)
    time.sleep(0.001)
lines
"""
"""Prints until it has been cut off often enough, and then tells how much it was."""


class Cut:
    """An orchestrator in this process, and the connections that it made."""

    def __init__(self, orchestrator: Orchestrator, connections: list[asyncio.Transport]) -> None:
        self.orchestrator = orchestrator
        self.connections = connections


@pytest.fixture
async def cut(data_root: Path, place: dict[str, str], tmp_path: Path) -> AsyncIterator[Cut]:
    config = Config(data_dir=str(tmp_path / "data"), kernels_dir=KERNELS, spares=0, **place)  # type: ignore[arg-type]
    (tmp_path / "data").mkdir()
    runtime = await prepared(config, lambda sentence: None)
    connections: list[asyncio.Transport] = []
    connect = runtime.connect

    async def remembered(
        sandbox: Sandbox, protocol: Callable[[], asyncio.BaseProtocol]
    ) -> asyncio.Transport:
        connections.append(await connect(sandbox, protocol))
        return connections[-1]

    runtime.connect = remembered  # type: ignore[method-assign]
    store = await Store.open(config.data_path / "interpreter.db")
    orchestrator = Orchestrator(config, store, runtime)
    await orchestrator.start()
    yield Cut(orchestrator, connections)
    for session in (await orchestrator.sessions())[0]:
        await orchestrator.delete(session.id)
    await orchestrator.close()
    await store.close()
    await runtime.close()


async def test_every_line_arrives_once_and_in_order_however_often_the_link_breaks(cut: Cut) -> None:
    session = await cut.orchestrator.create(SessionCreate())
    request = ExecutionCreate(code=PRINTS, timeout=300, max_output_bytes=2**25)
    cell = await session.submit("e-0123456789abcdef", request)
    seen, cuts = 0, 0
    async for rows in session.events.follow(0, execution_id=cell.id, wait=True):
        if cuts < CUTS and rows[-1].type == "stream" and rows[-1].seq > seen:
            seen = rows[-1].seq
            if len(cut.connections) > cuts:  # else it is still on its way back
                cut.connections[-1].abort()
                cuts += 1
            if cuts == CUTS:
                session.run_command("c-0123456789abcdef", CommandCreate(command="touch enough"))
        if rows[-1].type == "done":
            break
    result = cell.model()
    assert result.status is ExecutionStatus.ok
    lines = int(result.outputs[-1]["data"]["text/plain"])
    printed = "".join(f"line {i}\n" for i in range(1, lines + 1))
    assert result.text == f"{printed}{lines}"
    assert len(cut.connections) == 1 + CUTS
    assert session.state in (SessionState.ready, SessionState.busy)
