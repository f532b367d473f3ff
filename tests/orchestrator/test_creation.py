"""A session that does not come to be leaves nothing: no sandbox, no room taken, nobody who waits."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from interpreter.errors import InterpreterError, SandboxFailed
from interpreter.models import ExecutionCreate, SessionCreate, SessionState
from interpreter.orchestrator.context import Context
from interpreter.orchestrator.live_sandbox import LiveSandbox
from interpreter.runtimes.base import Meter, Sandbox
from tests.conftest import kill_sandbox, only
from tests.orchestrator.conftest import Gateways

pytestmark = only("embedded")
WITH_VARIABLES = {"env": {"STAGE": "test"}}


async def unmeasured(sandbox: Sandbox) -> Meter | None:
    raise ConnectionError("a test")


def nothing_is_left(gateways: Gateways) -> bool:
    status = gateways.orchestrator.status()
    kept = [path.name for path in (gateways.config.data_path / "run").iterdir()]
    return (status.memory_reserved_mb, kept) == (0, [])


def without_second_kernel(patch: pytest.MonkeyPatch) -> None:
    start = LiveSandbox.start_kernel

    async def fail(live: LiveSandbox, context: str, owner: Any, variables: Any, **how: Any) -> Any:
        if variables:
            raise ConnectionError("a test")
        return await start(live, context, owner, variables, **how)

    patch.setattr(LiveSandbox, "start_kernel", fail)


@pytest.mark.parametrize("where", ["its kernel", "its measurement"])
async def test_a_session_that_fails_at_its_hand_over_is_undone(
    gateways: Gateways, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    with monkeypatch.context() as patched:
        if where == "its kernel":
            without_second_kernel(patched)
        else:
            patched.setattr(gateways.runtime, "meter", unmeasured)
        with pytest.raises(SandboxFailed, match="a test"):
            await gateways.orchestrator.create(SessionCreate(**WITH_VARIABLES))
        assert gateways.orchestrator.all() == []
        assert await gateways.store.sessions() == []
        assert nothing_is_left(gateways)
        assert list((gateways.config.data_path / "workspaces").iterdir()) == []

        promised = await gateways.orchestrator.create(SessionCreate(wait=False, **WITH_VARIABLES))
        await promised.created.wait()
        assert (promised.state, promised.live) == (SessionState.failed, None)
        with pytest.raises(InterpreterError, match="a test"):
            await promised.submit("e-0123456789abcdef", ExecutionCreate(code="1"))
        await asyncio.gather(*gateways.orchestrator._creations.values())
        assert nothing_is_left(gateways)
    await gateways.orchestrator.start_session(promised.id)
    cell = await promised.submit(
        "e-0123456789abcdef", ExecutionCreate(code="import os; os.environ['STAGE']")
    )
    await cell.done
    assert cell.model().text == "'test'"


async def test_a_sandbox_that_ends_just_before_it_is_handed_over_is_noticed(
    gateways: Gateways, monkeypatch: pytest.MonkeyPatch
) -> None:
    provide = gateways.orchestrator._launcher.provide

    async def provide_dead(*given: Any, **named: Any) -> tuple[LiveSandbox, str | None]:
        live, cold = await provide(*given, **named)
        ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        live.on_end = ended.set_result
        kill_sandbox(live.id)
        await ended
        return live, cold

    with monkeypatch.context() as patched:
        patched.setattr(gateways.orchestrator._launcher, "provide", provide_dead)
        with pytest.raises(SandboxFailed, match="the sandbox ended"):
            await gateways.orchestrator.create(SessionCreate())
    assert gateways.orchestrator.all() == []
    assert nothing_is_left(gateways)


async def test_a_sandbox_that_ends_while_it_is_handed_over_is_noticed(
    gateways: Gateways, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = Context.begin

    async def die(context: Context, live: LiveSandbox, *given: Any) -> None:
        live._end("a test")
        await begin(context, live, *given)

    with monkeypatch.context() as patched:
        patched.setattr(Context, "begin", die)
        with pytest.raises(SandboxFailed, match="a test"):
            await gateways.orchestrator.create(SessionCreate())
    assert gateways.orchestrator.all() == []
    assert nothing_is_left(gateways)


async def test_a_session_whose_sandbox_does_not_end_can_be_deleted_once_more(
    gateways: Gateways, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await gateways.orchestrator.create(SessionCreate())

    async def refuse(sandbox: Sandbox) -> None:
        raise SandboxFailed("a test")

    with monkeypatch.context() as patched:
        patched.setattr(gateways.runtime, "stop", refuse)
        with pytest.raises(SandboxFailed, match="a test"):
            await gateways.orchestrator.delete(session.id)
    assert (await gateways.orchestrator.delete(session.id)).id == session.id
    await gateways.runtime.sweep(gateways.orchestrator._launcher.known)
    assert nothing_is_left(gateways)
