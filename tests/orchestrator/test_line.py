"""Who waits until others are started, and what is made ready for those who wait."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from interpreter.config import Config, Environment
from interpreter.errors import SandboxFailed, TooManySessions
from interpreter.models import Limits, SessionCreate, SessionState
from interpreter.orchestrator import pool as pool_module
from interpreter.orchestrator.admission import Admission, Waiter
from interpreter.orchestrator.live_sandbox import LiveSandbox
from interpreter.orchestrator.policy import pool_size
from interpreter.orchestrator.pool import WarmPool
from interpreter.runtimes.base import Sandbox
from tests.conftest import only
from tests.orchestrator.conftest import Gateways


@only("embedded")
async def test_who_waits_for_others_to_be_started_has_a_place_in_line_and_a_deadline(
    gateways: Gateways, monkeypatch: pytest.MonkeyPatch
) -> None:
    await gateways.end()
    gateways.config = replace(gateways.config, max_creating=1, max_queued_sessions=1)
    await gateways.start()
    create, start = gateways.orchestrator.create, gateways.runtime.start
    go = asyncio.Event()

    async def slowly(*given: Any) -> Sandbox:
        await go.wait()
        return await start(*given)

    monkeypatch.setattr(gateways.runtime, "start", slowly)
    first, second = await create(SessionCreate(wait=False)), await create(SessionCreate(wait=False))
    assert (first.model().queue_position, second.model().queue_position) == (None, 1)
    deadline = second.model().queue_deadline
    assert deadline is not None
    seconds = gateways.config.queue_seconds
    assert deadline >= second.record.created_at + timedelta(seconds=seconds)
    assert first.model().queue_deadline is None
    status = gateways.orchestrator.status()
    assert (status.creating, status.queued) == (1, 1)
    with pytest.raises(TooManySessions, match="1 requests wait"):
        await create(SessionCreate())
    go.set()
    for session in (first, second):
        await session.created.wait()
        model, ready = session.model(), SessionState.ready
        assert (model.state, model.queue_position, model.queue_deadline) == (ready, None, None)

    go.clear()
    gateways.orchestrator._launcher._line._config = replace(gateways.config, queue_seconds=0)
    third = await create(SessionCreate(wait=False))
    with pytest.raises(TooManySessions, match="1 sandboxes are being started, and no more may"):
        await create(SessionCreate())
    go.set()
    await third.created.wait()
    status = gateways.orchestrator.status()
    assert (status.creating, status.queued, status.sessions) == (0, 0, {"ready": 3})


async def test_who_is_admitted_in_the_moment_in_which_their_time_is_over_gets_in() -> None:
    admission, limits = Admission(Config(queue_seconds=0), most=1), Limits()
    first = admission.take(limits)

    def leave_in_that_moment(waiter: Waiter) -> None:
        asyncio.get_running_loop().call_soon(first.release)

    second = await admission.admit(limits, leave_in_that_moment)
    assert admission.memory_mb == limits.memory_mb
    second.release()
    assert (admission.memory_mb, admission.queued) == (0, 0), "and nothing is taken for ever"


async def test_those_who_still_wait_for_room_count_for_how_many_are_made_ready() -> None:
    async def make() -> LiveSandbox:
        raise AssertionError("it may not be filled")

    async def discard(sandbox: LiveSandbox) -> None:
        raise AssertionError("there is none")

    pool = WarmPool("python", 1, 8, make, discard, may_fill=lambda: False)
    assert pool.target == 1
    for _ in range(3):
        pool.asked()
    assert pool.target == 3
    await pool.close()


async def test_a_pool_tries_again_whatever_went_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "RETRY_SECONDS", 0)
    problems, made = [SandboxFailed("a test"), OSError("a test")], asyncio.Event()

    async def make() -> LiveSandbox:
        if problems:
            raise problems.pop()
        made.set()
        return await asyncio.Future()

    async def discard(sandbox: LiveSandbox) -> None:
        raise AssertionError("there is none")

    pool = WarmPool("python", 1, 1, make, discard, may_fill=lambda: True)
    pool.fill()
    async with asyncio.timeout(60):
        await made.wait()
    await pool.close()


@pytest.mark.parametrize(
    ("least", "most", "size"),
    [
        (None, None, (1, 8)),
        (0, None, (0, 0)),
        (0, 0, (0, 0)),
        (0, 3, (0, 3)),
        (2, 1, (2, 2)),
    ],
)
def test_a_pool_is_as_large_as_its_environment_says(
    least: int | None, most: int | None, size: tuple[int, int]
) -> None:
    config = Config(spares=1, environments={"python": Environment(pool_min=least, pool_max=most)})
    assert pool_size(config, "python") == size


async def test_where_none_always_stands_ready_as_many_do_as_were_asked_for_lately(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def make() -> LiveSandbox:
        raise AssertionError("it may not be filled")

    async def discard(sandbox: LiveSandbox) -> None:
        raise AssertionError("there is none")

    pool = WarmPool("python", 0, 3, make, discard, may_fill=lambda: False)
    assert pool.target == 0
    for _ in range(2):
        pool.asked()
    assert pool.target == 2
    monkeypatch.setattr(pool_module, "REMEMBERED_SECONDS", 0)
    assert pool.target == 0
    await pool.close()
