"""Reads: a few threads, each with its own read-only connection.

In WAL mode a reader sees what is committed and waits for nobody, so reads go on while the writer
is in the middle of a transaction, checkpoints, or is stuck on a full disk.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from interpreter.errors import StoreUnavailable
from interpreter.store.condition import Condition, is_damage
from interpreter.store.schema import open_for_reading

T = TypeVar("T")


class Readers:
    """Runs functions that take a connection, off the event loop."""

    def __init__(self, path: Path, condition: Condition, threads: int = 4) -> None:
        self._path = path
        self._condition = condition
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="store-reader")
        self._own = threading.local()
        self._connections: list[sqlite3.Connection] = []
        self._closed = False

    async def run(self, read: Callable[[sqlite3.Connection], T]) -> T:
        if self._closed:
            raise StoreUnavailable("The store is closed.")
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._run, read)

    def _run(self, read: Callable[[sqlite3.Connection], T]) -> T:
        try:
            connection: sqlite3.Connection | None = getattr(self._own, "connection", None)
            if connection is None:
                connection = self._own.connection = open_for_reading(self._path)
                self._connections.append(connection)
            return read(connection)
        except Exception as error:
            if is_damage(error):
                raise self._condition.damaged(error) from error
            if isinstance(error, sqlite3.OperationalError):
                raise StoreUnavailable(f"The database cannot be read: {error}.") from error
            raise

    async def close(self) -> None:
        """Reads under way are finished first."""
        self._closed = True
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._pool.shutdown()
        while self._connections:
            self._connections.pop().close()
