"""What cells show after they ended gets into their results."""

from __future__ import annotations

import asyncio

import pytest

from interpreter.errors import StoreUnavailable
from interpreter.models import Execution, ExecutionCreate, SessionCreate
from interpreter.orchestrator.history import RECENT_CELLS
from tests.conftest import only
from tests.orchestrator.conftest import Gateways

pytestmark = only("embedded")
LATE = """
import threading
go = threading.Event()
def late():
    go.wait()
    print('late')
threading.Thread(target=late).start()
"""


async def test_late_output_that_could_not_be_saved_is_saved_again(
    gateways: Gateways, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = gateways.store
    session = await gateways.orchestrator.create(SessionCreate())
    codes = [LATE, *["pass"] * (RECENT_CELLS + 1), "go.set()"]
    ids = [f"e-{number:016x}" for number in range(len(codes))]
    read, failures = store.execution, 0

    async def unreadable(session_id: str, execution_id: str) -> Execution | None:
        nonlocal failures
        failures += 1
        monkeypatch.undo()
        raise StoreUnavailable("a test")

    for id, code in zip(ids, codes, strict=True):
        if code == codes[-1]:
            await session.history.settled()
            monkeypatch.setattr(store, "execution", unreadable)
        await (await session.submit(id, ExecutionCreate(code=code))).done

    async def text() -> str:
        execution = await read(session.id, ids[0])
        assert execution is not None
        return execution.text

    async with asyncio.timeout(60):
        while await text() != "late\n":  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    assert failures == 1
