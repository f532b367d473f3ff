"""Gives back the disk space of deleted sessions, a little at a time.

Deleting a session only takes its row away and puts its key in `discarded`. The writer calls `step`
whenever nothing else waits for it: each call is short, and a crash between two of them loses
nothing, because what is left to do is in the database itself.
"""

from __future__ import annotations

import sqlite3

from interpreter.store.schema import transaction

ROWS_PER_STEP = 32
PAGES_PER_STEP = 1000
"""Chosen so that a step takes some ten milliseconds even with rows of 256 KiB."""


def step(connection: sqlite3.Connection) -> bool:
    """Does one piece of the work. False when there is nothing left to do."""
    discarded = connection.execute("SELECT session FROM discarded LIMIT 1").fetchone()
    if discarded:
        with transaction(connection):
            _remove_rows(connection, discarded)
        return True
    free = _free_pages(connection)
    if free:
        # Not `execute`: that would run the statement only until its first page is freed.
        connection.executescript(f"PRAGMA incremental_vacuum({PAGES_PER_STEP})")
        if _free_pages(connection) < free:
            return True
    # The file itself only shrinks at a checkpoint, and not as long as a reader still looks at the
    # old one. If that takes longer than the busy timeout, the next checkpoint does it.
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return False


def _remove_rows(connection: sqlite3.Connection, session: tuple[int]) -> None:
    for table in ("events", "executions", "displays", "outdated"):
        some = f"SELECT key FROM {table} WHERE session = ? LIMIT {ROWS_PER_STEP}"
        if connection.execute(f"DELETE FROM {table} WHERE key IN ({some})", session).rowcount:
            return
    connection.execute("DELETE FROM discarded WHERE session = ?", session)


def _free_pages(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA freelist_count").fetchone()[0])
