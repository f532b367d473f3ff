"""A real store in a real file, and short ways to say what is put into it."""

from __future__ import annotations

import asyncio
import queue
import resource
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import structlog

from interpreter.models import Execution, ExecutionStatus, Limits
from interpreter.store import EventRow, SessionRecord, Store

NOON = datetime(2026, 1, 2, 12, 0, 0, 123456, tzinfo=UTC)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[Store]:
    opened = await Store.open(path)
    yield opened
    await opened.close()


@pytest.fixture
def record() -> Callable[..., SessionRecord]:
    def make(session_id: str = "s1", **changes: Any) -> SessionRecord:
        values: dict[str, Any] = {
            "name": None,
            "state": "ready",
            "reason": None,
            "environment": "python",
            "runtime": "embedded",
            "isolation": "none",
            "warm": False,
            "labels": {},
            "limits": Limits(),
            "limits_enforced_by": "nothing",
            "disk_enforced_by": "nothing",
            "created_at": NOON,
            "last_activity": NOON,
            "expires_at": None,
            "handle": None,
        }
        return SessionRecord(id=session_id, **{**values, **changes})

    return make


@pytest.fixture
def execution() -> Callable[..., Execution]:
    def make(execution_id: str = "e1", status: str = "queued", **changes: Any) -> Execution:
        values: dict[str, Any] = {"session_id": "s1", "code": "1+1", "queued_at": NOON}
        return Execution(id=execution_id, status=ExecutionStatus(status), **{**values, **changes})

    return make


@pytest.fixture
def event() -> Callable[..., EventRow]:
    def make(seq: int, data: bytes = b"{}", execution_id: str | None = None) -> EventRow:
        return EventRow(seq, "stream", execution_id, data)

    return make


@pytest.fixture
async def session(store: Store, record: Callable[..., SessionRecord]) -> str:
    await store.save_session(record())
    return "s1"


@pytest.fixture
def locked(path: Path) -> Callable[[], AbstractContextManager[None]]:
    """Another program's open transaction, which the writer has to wait for."""

    @contextmanager
    def lock() -> Iterator[None]:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            other.close()

    return lock


@pytest.fixture
def full_disk() -> Callable[[], AbstractContextManager[None]]:
    """No file can grow beyond 100 kB, which the kernel itself enforces."""

    @contextmanager
    def limit() -> Iterator[None]:
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    return limit


class Log:
    """The lines logged by any thread, as they come."""

    def __init__(self) -> None:
        self._lines: queue.Queue[dict[str, Any]] = queue.Queue()

    def add(self, _logger: Any, _method: str, line: Any) -> Any:
        self._lines.put(dict(line))
        raise structlog.DropEvent

    async def next(self) -> dict[str, Any]:
        return await asyncio.to_thread(self._lines.get, timeout=10)

    def rest(self) -> list[str]:
        return [self._lines.get_nowait()["event"] for _ in range(self._lines.qsize())]


@pytest.fixture
def log() -> Iterator[Log]:
    # In place, because loggers that are in use already hold on to this list.
    processors = structlog.get_config()["processors"]
    before = list(processors)
    kept = Log()
    processors[:] = [kept.add]
    yield kept
    processors[:] = before
