"""A link by a socket that breaks while its sandbox runs is connected again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from interpreter.config import Config
from interpreter.link.connection import Handler
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
        self.connecting = asyncio.Event()
        """Whether there can be another."""
        self.connecting.set()


@pytest.fixture
async def cut(data_root: Path, place: dict[str, str], tmp_path: Path) -> AsyncIterator[Cut]:
    config = Config(data_dir=str(tmp_path / "data"), kernels_dir=KERNELS, spares=0, **place)  # type: ignore[arg-type]
    (tmp_path / "data").mkdir()
    runtime = await prepared(config, lambda sentence: None)
    connections: list[asyncio.Transport] = []
    connect = runtime.connect
    store = await Store.open(config.data_path / "interpreter.db")
    cut = Cut(Orchestrator(config, store, runtime), connections)

    async def remembered(
        sandbox: Sandbox, protocol: Callable[[], asyncio.BaseProtocol]
    ) -> asyncio.Transport:
        await cut.connecting.wait()
        connections.append(await connect(sandbox, protocol))
        return connections[-1]

    runtime.connect = remembered  # type: ignore[method-assign]
    orchestrator = cut.orchestrator
    await orchestrator.start()
    yield cut
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


async def test_what_is_asked_for_while_there_is_no_connection_is_started_when_there_is_one(
    cut: Cut, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await cut.orchestrator.create(SessionCreate())
    assert session.live is not None
    link = session.live.link
    opened, open = asyncio.Event(), link.open

    def noted(info: dict[str, Any], handler: Handler) -> int:
        stream = open(info, handler)
        if len(link.wire.streams) == 4 + 1 + 1 + 4:  # of two kernels, the command and the terminal
            opened.set()
        return stream

    monkeypatch.setattr(link, "open", noted)
    cut.connecting.clear()
    cut.connections[-1].abort()
    await link.lost()
    command = session.run_command("c-0123456789abcdef", CommandCreate(command="echo on", timeout=60))
    terminal = asyncio.create_task(session.terminal("main"))
    context = asyncio.create_task(session.create_context("other"))
    async with asyncio.timeout(120):
        await opened.wait()
        cut.connecting.set()
        await command.done
        assert (command.status, command.model().text) == (ExecutionStatus.ok, "on\n")
        assert await anext((await terminal).view())
        assert (await context).name == "other"


async def test_what_the_sandbox_does_not_start_ends_and_says_so(
    cut: Cut, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await cut.orchestrator.create(SessionCreate())
    assert session.live is not None
    ask = session.live.link.command
    refused = {"run": {"run": False}, "terminal": {"error": "no\x1b[m"}}

    async def refuse(do: str, **arguments: Any) -> dict[str, Any]:
        return refused.get(do) or await ask(do, **arguments)

    monkeypatch.setattr(session.live.link, "command", refuse)
    command = session.run_command("c-0123456789abcdef", CommandCreate(command="true", timeout=600))
    async with asyncio.timeout(120):
        await command.done
        reason = "it could not be started: the sandbox did not take it"
        assert (command.status, command.reason) == (ExecutionStatus.error, reason)
        terminal = await session.terminal("main")
        assert [shown async for shown in terminal.view()] == []
    assert terminal.ended == "it could not be started: no\N{REPLACEMENT CHARACTER}[m"
    assert session.terminals.all() == []
