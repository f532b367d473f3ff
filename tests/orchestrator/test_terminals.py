"""What is known of terminals and commands when a gateway or a sandbox goes, or a sandbox says nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from interpreter.link.connection import Incoming
from interpreter.link.wire import Closed
from interpreter.models import ExecutionStatus, SessionCreate, SessionState
from interpreter.models.commands import CommandCreate
from interpreter.orchestrator.session import LiveSession
from interpreter.orchestrator.terminals import MOST_ENDS, Terminals
from tests.orchestrator.conftest import Gateways

SECONDS = 120


async def whole(session: LiveSession, name: str, typed: str) -> str:
    """What a terminal shows to its end."""
    terminal = await session.terminal(name)
    await terminal.type(typed)
    return "".join([shown async for shown in terminal.view()])


async def first_words(session: LiveSession, name: str) -> str:
    return await anext((await session.terminal(name)).view())


async def test_that_a_terminal_ended_is_known_to_the_next_gateway(gateways: Gateways) -> None:
    id = (await gateways.orchestrator.create(SessionCreate())).id
    async with asyncio.timeout(SECONDS):
        session = gateways.orchestrator.get(id)
        await whole(session, "ended", "exit 5\r")
        await first_words(session, "open")
        await gateways.end()
        await gateways.start()
        session = gateways.orchestrator.get(id)
        before = "[the terminal before this one is over: its shell exited with 5]\r\n"
        assert (await first_words(session, "ended")).startswith(before)
        assert [terminal.name for terminal in session.terminals.all()] == ["ended", "open"]
        await gateways.end()
        await gateways.start()
        shown = await first_words(gateways.orchestrator.get(id), "ended")
        assert not shown.startswith(before), "it is said once"


async def test_that_terminals_ended_with_their_sandbox_while_there_was_no_gateway_is_said(
    gateways: Gateways,
) -> None:
    session = await gateways.orchestrator.create(SessionCreate())
    async with asyncio.timeout(SECONDS):
        await first_words(session, "main")
        assert session.live is not None
        sandbox = session.live.sandbox
        await gateways.end()
        await gateways.runtime.stop(sandbox)
        await gateways.start()
        session = gateways.orchestrator.get(session.id)
        await session.created.wait()
        assert session.state is not SessionState.ready
        await gateways.orchestrator.start_session(session.id)
        session = gateways.orchestrator.get(session.id)
        assert (await first_words(session, "main")).startswith("[the terminal before this one is over: ")


async def test_nothing_is_kept_for_a_sandbox_that_never_says_that_something_ended(
    gateways: Gateways, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await gateways.orchestrator.create(SessionCreate())
    assert session.live is not None
    link = session.live.link
    hand_out, handlers = link._hand_out, dict(link._handlers)

    def leave_out_ends(event: Incoming) -> None:
        if isinstance(event, Closed):
            link.on_passed(event.number)
        else:
            hand_out(event)

    def at_once(command: Any, seconds: float, what: Callable[[Any], None]) -> None:
        what(command)

    monkeypatch.setattr(link, "_hand_out", leave_out_ends)
    monkeypatch.setattr(session.commands, "_set_timer", at_once)
    async with asyncio.timeout(SECONDS):
        command = session.run_command(
            "c-0123456789abcdef", CommandCreate(command="sleep 600", timeout=500)
        )
        await first_words(session, "main")
        assert len(link._handlers) == len(handlers) + 2
        session.commands.cancel(command, "it was cancelled")
        await command.done
        await session.terminals.end("main")
    assert command.status is ExecutionStatus.cancelled
    assert link._handlers == handlers


def test_of_terminals_that_are_over_a_few_are_remembered_and_those_that_are_not_all() -> None:
    stored: list[dict[str, str | None]] = []
    terminals = Terminals("s", None, {}, lambda: None, {"there": None}, stored.append)  # type: ignore[arg-type]
    for i in range(2 * MOST_ENDS):
        terminals._remember(f"t{i}", "x" * 10_000)
    assert stored[-1].keys() == {"there", *(f"t{i}" for i in range(MOST_ENDS, 2 * MOST_ENDS))}
    assert sum(len(end) for end in stored[-1].values() if end) < 20_000
