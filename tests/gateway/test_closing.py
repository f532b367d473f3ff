"""Closing the last descriptor of a large file that was deleted lasts as long as the disk wants."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from interpreter.gateway import files as operations
from interpreter.gateway.jupyter import contents
from interpreter.orchestrator.files import Files, SessionFiles


class Opened:
    """A workspace, and a file in it. It tells which threads close them."""

    def __init__(self) -> None:
        self.closed_by: list[str] = []

    def read(self, path: str) -> Opened:
        return self

    def entry(self) -> Any:
        return SimpleNamespace(modified_at=None)

    def close(self) -> None:
        self.closed_by.append(threading.current_thread().name)


@pytest.fixture
def files() -> Iterator[Files]:
    made = Files(cast(Any, None))
    yield made
    made.close()


@pytest.mark.parametrize("operation", [operations.read_file, contents.read_contents])
async def test_nothing_that_was_read_is_closed_on_the_event_loop(
    files: Files, monkeypatch: pytest.MonkeyPatch, operation: Callable[[Any], Awaitable[Any]]
) -> None:
    opened = Opened()

    async def open(self: SessionFiles, *, change: bool) -> Any:
        return opened

    async def send(*_: object) -> None:
        pass

    monkeypatch.setattr(SessionFiles, "open", open)
    monkeypatch.setattr(operations, "_send", send)
    monkeypatch.setattr(contents, "_file", lambda *_: b"")
    monkeypatch.setattr(contents, "moment", lambda when: "")
    path = {"session_id": "s", "path": "s/f"}
    call = SimpleNamespace(
        orchestrator=SimpleNamespace(files=files), path=path, query=lambda kind: kind()
    )
    await operation(call)
    await asyncio.to_thread(files._threads.shutdown)
    assert len(opened.closed_by) == 2
    assert all(name.startswith("files") for name in opened.closed_by)
