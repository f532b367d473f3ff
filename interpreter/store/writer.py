"""The one thread that writes.

Writes are queued from the event loop, which never waits, and are done in the order they came.
They are gathered there for a moment, because a thread that is woken for every single one would
take the interpreter's lock from the loop again and again; `hurry` ends the moment. The thread
takes everything that waits, commits it in one transaction, and completes the futures with one
call back to the loop. So the promise of a completed future is: it is committed, and a killed
process does not undo it.

A disk that is full or locked loses nothing: the transaction is tried again, slower and slower,
until it works or the store is closed. A write that is wrong in itself (a sequence number used
twice) fails alone; those that happened to be committed together with it do not notice. A damaged
file is not written to any more: a later write that happened to work would hide that one is missing.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import NamedTuple

import structlog

from interpreter.errors import StoreUnavailable
from interpreter.store import reclaim
from interpreter.store.condition import Condition, code_of, is_damage
from interpreter.store.schema import transaction
from interpreter.store.statements import Step

log = structlog.get_logger(__name__)

GATHER_SECONDS = 0.01
GATHER_BYTES = 512 * 1024
IDLE_SECONDS = 0.25
FIRST_DELAY = 0.1
LONGEST_DELAY = 2.0

PASSING_FAILURES = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_READONLY,
    }
)
"""What has its cause outside of the program and may go away."""

Outcome = tuple["asyncio.Future[None]", Exception | None]


class Write(NamedTuple):
    """What one call wants written: all of its steps, or none."""

    future: asyncio.Future[None]
    name: str
    steps: Sequence[Step]
    frees_space: bool


class Writer:
    """Owns the writing connection from the moment it is given one, and closes it."""

    def __init__(self, connection: sqlite3.Connection, condition: Condition) -> None:
        self._connection = connection
        self._condition = condition
        self._queue: SimpleQueue[list[Write] | None] = SimpleQueue()
        self._gathered: list[Write] = []
        self._gathered_bytes = 0
        self._gathering: asyncio.TimerHandle | None = None
        self._closing = threading.Event()
        self._ended = False
        self._may_reclaim = True
        self._log_has_grown = False
        self._thread = threading.Thread(target=self._run, name="store-writer", daemon=True)
        self._thread.start()

    def submit(
        self, name: str, *steps: Step, size: int = 0, frees_space: bool = False
    ) -> asyncio.Future[None]:
        """Queues a write and returns at once. Cancelling the future does not take it back."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        if self._closing.is_set():
            _complete([(future, StoreUnavailable("The store is closed."))])
            return future
        self._gathered.append(Write(future, name, steps, frees_space))
        self._gathered_bytes += size
        if self._gathered_bytes >= GATHER_BYTES:
            self.hurry()
        elif self._gathering is None:
            self._gathering = loop.call_later(GATHER_SECONDS, self.hurry)
        return future

    def hurry(self) -> None:
        """Hands over what was gathered: someone waits for it, or the moment is over."""
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None
        if self._gathered:
            self._queue.put(self._gathered)
            self._gathered, self._gathered_bytes = [], 0

    async def close(self) -> None:
        """Everything queued is written, or its future gets `StoreUnavailable`."""
        if not self._closing.is_set():
            self.hurry()
            self._closing.set()
            self._queue.put(None)
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        while not self._ended:
            if self._may_reclaim and self._queue.empty():
                self._reclaim()
                continue
            try:
                self._write(self._queue.get(timeout=IDLE_SECONDS if self._log_has_grown else None))
            except Empty:
                self._checkpoint()
        self._connection.close()

    def _write(self, writes: list[Write] | None) -> None:
        batch: list[Write] = []
        self._add(writes, batch)
        self._log_has_grown = True
        outcomes = self._commit_patiently(batch)
        self._may_reclaim |= any(write.frees_space for write in batch)
        _answer(outcomes)

    def _add(self, writes: list[Write] | None, batch: list[Write]) -> None:
        if writes is None:
            self._ended = True
        else:
            batch.extend(writes)

    def _commit_patiently(self, batch: list[Write]) -> list[Outcome]:
        """Adds what comes meanwhile to the batch, so that it is the only one there is."""
        delay = FIRST_DELAY
        told: set[str] = set()
        while True:
            last_try = self._closing.is_set()
            for _ in range(self._queue.qsize()):
                self._add(self._queue.get_nowait(), batch)
            if (damage := self._condition.damage) is not None:
                return [(write.future, damage) for write in batch]
            try:
                outcomes = self._commit(batch) if batch else []
            except Exception as error:
                if is_damage(error):
                    self._condition.damaged(error)
                    continue
                if last_try or not _may_pass(error):
                    return _lost(batch, error)
                if str(error) not in told:
                    told.add(str(error))
                    log.error("the database cannot be written; trying again", error=str(error))
                    self._condition.unwritable(error)
                self._closing.wait(delay)
                delay = min(delay * 2, LONGEST_DELAY)
            else:
                if told:
                    log.info("the database can be written again")
                    self._condition.writable()
                return outcomes

    def _commit(self, batch: Sequence[Write]) -> list[Outcome]:
        try:
            with transaction(self._connection):
                for write in batch:
                    self._apply(write)
            return [(write.future, None) for write in batch]
        except Exception as error:
            if _may_pass(error) or is_damage(error):
                raise
        return self._commit_apart(batch)

    def _commit_apart(self, batch: Sequence[Write]) -> list[Outcome]:
        """Still one transaction, but a write that fails is undone alone."""
        outcomes: list[Outcome] = []
        with transaction(self._connection):
            for write in batch:
                self._connection.execute("SAVEPOINT alone")
                refusal = None
                try:
                    self._apply(write)
                except Exception as error:
                    if _may_pass(error) or is_damage(error):
                        raise
                    refusal = error
                    self._connection.execute("ROLLBACK TO alone")
                self._connection.execute("RELEASE alone")
                outcomes.append((write.future, refusal))
        for write, (_, refusal) in zip(batch, outcomes, strict=True):
            if refusal is not None:
                log.error("a write was refused", write=write.name, error=str(refusal))
        return outcomes

    def _apply(self, write: Write) -> None:
        for statement, rows in write.steps:
            self._connection.executemany(statement, rows)

    def _checkpoint(self) -> None:
        """Takes the write-ahead log over into the file, while nobody waits for a write."""
        self._log_has_grown = False
        if self._condition.damage is not None:
            return
        with suppress(sqlite3.Error):  # there will be another time
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def _reclaim(self) -> None:
        try:
            self._may_reclaim = self._condition.damage is None and reclaim.step(self._connection)
        except sqlite3.Error as error:
            if is_damage(error):
                self._condition.damaged(error)
            # What is left is done after the next delete, or when the store is opened again.
            self._may_reclaim = False
            log.warning("space of deleted sessions cannot be given back now", error=str(error))


def _may_pass(error: Exception) -> bool:
    return isinstance(error, sqlite3.OperationalError) and code_of(error) in PASSING_FAILURES


def _lost(batch: Sequence[Write], error: Exception) -> list[Outcome]:
    log.error("writes were lost", count=len(batch), error=str(error))
    return [(write.future, StoreUnavailable(f"It could not be written: {error}.")) for write in batch]


def _answer(outcomes: Iterable[Outcome]) -> None:
    """One call for each event loop, which is one call."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        by_loop[outcome[0].get_loop()].append(outcome)
    for loop, of_loop in by_loop.items():
        # A closed loop has nobody left who could hear of it.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(_complete, of_loop)


def _complete(outcomes: Iterable[Outcome]) -> None:
    for future, error in outcomes:
        if future.done():
            continue
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)
            # Marks it as seen: it is in the log already, and not every caller awaits.
            future.exception()
