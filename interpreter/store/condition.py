"""Whether the database can be used: told by the threads that use it, asked by everyone.

A disk that is full passes; damage does not, as long as this process lives.
"""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import suppress
from typing import Any

import msgspec
import structlog

from interpreter.errors import StoreDamaged, StoreUnavailable

log = structlog.get_logger(__name__)

DAMAGE = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


def code_of(error: BaseException) -> int:
    """What kind of failure it is; the upper bits only tell the kinds of a kind apart."""
    return int(getattr(error, "sqlite_errorcode", None) or 0) & 0xFF


def is_damage(error: BaseException) -> bool:
    """Whether what is in the file is not what was written to it."""
    if isinstance(error, msgspec.DecodeError | UnicodeDecodeError):
        return True
    # Python's own complaint of a text that is none has no code.
    undecodable = isinstance(error, sqlite3.OperationalError) and "Could not decode" in str(error)
    return undecodable or (isinstance(error, sqlite3.Error) and code_of(error) in DAMAGE)


class Condition:
    """The condition of one database. Waited for on the loop that it was made on."""

    def __init__(self) -> None:
        self.problem: StoreUnavailable | None = None
        """Why nothing can be written now; None when it can."""
        self.damage: StoreDamaged | None = None
        """The same, if it will not pass."""
        self._loop = asyncio.get_running_loop()
        self._bad = asyncio.Event()

    # -- told by any thread

    def unwritable(self, error: Exception) -> None:
        self._tell(StoreUnavailable(f"The database cannot be written: {error}."))

    def writable(self) -> None:
        self._tell(None)

    def damaged(self, error: Exception) -> StoreDamaged:
        if self.damage is None:
            self.damage = StoreDamaged(f"The database is damaged: {error}.")
            log.error("the database is damaged; nothing more is written to it", error=str(error))
            self._tell(self.damage)
        return self.damage

    def _tell(self, problem: StoreUnavailable | None) -> None:
        with suppress(RuntimeError):  # a closed loop has nobody who would ask
            self._loop.call_soon_threadsafe(self._set, problem)

    # -- on the loop

    def _set(self, problem: StoreUnavailable | None) -> None:
        self.problem = self.damage or problem
        if self.problem is None:
            self._bad.clear()
        else:
            self._bad.set()

    def check(self) -> None:
        """Raises the problem, if there is one."""
        if self.problem is not None:
            raise self.problem

    async def wait_for(self, done: asyncio.Future[Any]) -> None:
        """Returns when it is done, or as soon as nothing can be written."""
        if done.done() or self.problem is not None:
            return
        bad = asyncio.ensure_future(self._bad.wait())
        try:
            await asyncio.wait({done, bad}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            bad.cancel()
