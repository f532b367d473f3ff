"""Work on the files of many sessions, with a few threads for all."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any, cast

import pytest

from interpreter.orchestrator.files import THREADS, Files


@pytest.fixture
def files() -> Iterator[Files]:
    made = Files(cast(Any, None))  # whose sessions they are does not matter here
    yield made
    made.close()


async def test_work_without_end_on_one_sessions_files_holds_up_no_other(files: Files) -> None:
    go_on = threading.Event()
    endless = [asyncio.create_task(files.of("a").run(go_on.wait)) for _ in range(2 * THREADS)]
    try:
        async with asyncio.timeout(30):
            assert await files.of("b").run(lambda: "done") == "done"
    finally:
        go_on.set()
    assert await asyncio.gather(*endless) == [True] * (2 * THREADS)


async def test_whoever_leaves_while_waiting_for_a_turn_leaves_it_to_others(files: Files) -> None:
    go_on = threading.Event()
    works = [asyncio.create_task(files.of("a").run(go_on.wait)) for _ in range(4)]
    await asyncio.sleep(0)
    for work in works[2:]:
        work.cancel()
    await asyncio.wait(works[2:])
    go_on.set()
    await asyncio.gather(*works[:2])
    async with asyncio.timeout(30):
        assert await files.of("a").run(lambda: "done") == "done"
