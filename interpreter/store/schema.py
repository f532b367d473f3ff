"""The tables, and how a database file becomes one that this program can use.

`PRAGMA user_version` counts the migrations a file has seen. Opening runs those that are missing,
each in a transaction of its own, so a file is always at one version or the next and never between.
A file from a newer program, or from another program, is refused and left as it is.

Rows belong to a session's `key`, a number that is never used twice. That keeps the indexes small
and makes deleting instant: without its session's row, nothing finds them any more, and `reclaim`
can take its time to remove them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from interpreter.errors import ConfigurationError

APPLICATION_ID = 0x696E7470
"""Marks the file as ours: 'intp'."""

HINT = "Move the file away, or use another data_dir."

Migration = Sequence[str]
"""Statements that are run in one transaction."""

MIGRATIONS: Sequence[Migration] = (
    (
        # AUTOINCREMENT: the key of a deleted session must not come back while its rows are there.
        """CREATE TABLE sessions (
            key INTEGER PRIMARY KEY AUTOINCREMENT,
            id TEXT NOT NULL UNIQUE,
            received INTEGER NOT NULL DEFAULT 0,
            record BLOB NOT NULL
        )""",
        """CREATE TABLE executions (
            key INTEGER PRIMARY KEY,
            session INTEGER NOT NULL,
            id TEXT NOT NULL,
            status TEXT NOT NULL,
            record BLOB NOT NULL,
            UNIQUE (session, id)
        )""",
        "CREATE INDEX executions_in_order ON executions (session, key)",
        """CREATE INDEX executions_unfinished ON executions (session, key)
            WHERE status IN ('queued', 'running')""",
        """CREATE TABLE events (
            key INTEGER PRIMARY KEY,
            session INTEGER NOT NULL,
            seq INTEGER NOT NULL,
            type TEXT NOT NULL,
            execution_id TEXT,
            data BLOB NOT NULL,
            UNIQUE (session, seq)
        )""",
        "CREATE INDEX events_of_execution ON events (session, execution_id, seq)",
        """CREATE TABLE displays (
            key INTEGER PRIMARY KEY,
            session INTEGER NOT NULL,
            display_id TEXT NOT NULL,
            execution_id TEXT NOT NULL,
            UNIQUE (session, display_id, execution_id)
        )""",
        """CREATE TABLE audit (
            key INTEGER PRIMARY KEY,
            time TEXT NOT NULL,
            action TEXT NOT NULL,
            session_id TEXT,
            detail BLOB NOT NULL
        )""",
        "CREATE INDEX audit_of_session ON audit (session_id, key)",
        "CREATE TABLE discarded (session INTEGER PRIMARY KEY)",
    ),
    (
        """CREATE TABLE outdated (
            key INTEGER PRIMARY KEY,
            session INTEGER NOT NULL,
            execution_id TEXT NOT NULL,
            UNIQUE (session, execution_id)
        )""",
    ),
    (
        """CREATE TABLE workspaces (
            key INTEGER PRIMARY KEY,
            id TEXT NOT NULL UNIQUE,
            record BLOB NOT NULL
        )""",
    ),
)


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # SQLite has already rolled back by itself after some failures of the disk.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def migrate(connection: sqlite3.Connection, migrations: Sequence[Migration] = MIGRATIONS) -> None:
    """Brings the database to the last of `migrations`, one transaction for each."""
    while True:
        with transaction(connection):
            version = _version(connection, len(migrations))
            if version == len(migrations):
                return
            for statement in migrations[version]:
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {version + 1}")


def _version(connection: sqlite3.Connection, newest: int) -> int:
    version = _number(connection, "PRAGMA user_version")
    empty = _number(connection, "SELECT count(*) FROM sqlite_master") == 0
    (_, _, file) = connection.execute("PRAGMA database_list").fetchone()
    if not empty and _number(connection, "PRAGMA application_id") != APPLICATION_ID:
        raise ConfigurationError(f"{file} is the database of another program.", HINT)
    if version > newest:
        raise ConfigurationError(
            f"{file} was made by a newer version of this program: it is at schema {version}, "
            f"and this version knows {newest}.",
            "Start the newer version again, or use another data_dir.",
        )
    return version


def _number(connection: sqlite3.Connection, query: str) -> int:
    return int(connection.execute(query).fetchone()[0])


def open_for_writing(path: Path, migrations: Sequence[Migration] = MIGRATIONS) -> sqlite3.Connection:
    """Creates or migrates the database; only its owner can read it, whatever the umask."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
        connection = _connect(path, "rw", busy_seconds=1.0)
        try:
            _version(connection, len(migrations))
            _make_private(path)
            _configure(connection)
            migrate(connection, migrations)
        except BaseException:
            connection.close()
            raise
    except (OSError, sqlite3.Error) as error:
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
            raise ConfigurationError(
                f"The database {path} cannot be used: there is no space left for it.",
                "Free some space and start again. Sessions that run go on meanwhile.",
            ) from error
        raise ConfigurationError(f"The database {path} cannot be used: {error}.", HINT) from error
    return connection


def _make_private(path: Path) -> None:
    # SQLite gives the other two the mode of the first, but they may be there already.
    for suffix in ("", "-wal", "-shm"):
        if (file := path.with_name(path.name + suffix)).exists():
            file.chmod(0o600)


def _configure(connection: sqlite3.Connection) -> None:
    # Only works as long as nothing is written, and WAL mode writes the first page.
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise OSError("its file system does not offer write-ahead logging")
    connection.execute("PRAGMA synchronous = NORMAL")
    # The writer checkpoints when it has nothing else to do; a flood of 256 MB has it do so at once.
    # No log above 64 MB is kept for reuse.
    connection.execute("PRAGMA wal_autocheckpoint = 64000")
    connection.execute("PRAGMA journal_size_limit = 67108864")
    connection.execute("PRAGMA cache_size = -8000")


def open_for_reading(path: Path) -> sqlite3.Connection:
    connection = _connect(path, "ro", busy_seconds=10.0)
    connection.execute("PRAGMA query_only = ON")
    return connection


def _connect(path: Path, mode: str, busy_seconds: float) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        timeout=busy_seconds,
        isolation_level=None,
        check_same_thread=False,
    )
