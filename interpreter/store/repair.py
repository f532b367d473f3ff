"""`interpreter repair`: a new database with everything of a damaged one that can still be read.

It works on a copy, so that trying costs nothing. A first page that is destroyed (the header and the
names of the tables) is taken from a new database: the tables of every database are made in the same
order, so they begin at the same places. A file that was cut short is filled up with nothing, which
is damage like any other. Then every table is read as far as it goes.

The damaged file is kept beside the new one, under another name.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import msgspec

from interpreter.errors import ConfigurationError
from interpreter.models import Execution, Limits
from interpreter.store import wal
from interpreter.store.examination import damage, log_of
from interpreter.store.records import SessionRecord, WorkspaceRecord
from interpreter.store.salvage import Row, Salvage
from interpreter.store.schema import open_for_reading, open_for_writing, transaction

TABLES = {
    "sessions": "key",
    "executions": "key",
    "events": "key",
    "displays": "key",
    "audit": "key",
    "discarded": "session",
    "workspaces": "key",
}
LATER = {"workspaces"}
"""Tables that a database of an earlier version does not have."""
INDEXES: dict[str, Sequence[str]] = {
    "executions": ("executions_in_order",),
    "events": ("events_of_execution", "sqlite_autoindex_events_1"),
    "displays": ("sqlite_autoindex_displays_1",),
    "audit": ("audit_of_session",),
    "sessions": ("sqlite_autoindex_sessions_1",),
    "workspaces": ("sqlite_autoindex_workspaces_1",),
}
RECORDS: dict[str, type] = {
    "sessions": SessionRecord,
    "executions": Execution,
    "workspaces": WorkspaceRecord,
}
PAGE = 4096
COUNT_AT = 28
"""Where the header says how many pages there are."""
MAGIC = b"SQLite format 3\0"
RESTORED = "its record was damaged; it was made again from what its executions say"


class Recovered(msgspec.Struct, frozen=True):
    """What became of one table."""

    table: str
    rows: int
    lost: int | None
    """None when some are, and nothing tells how many."""


class Report(msgspec.Struct, frozen=True):
    """What a repair found and did."""

    problem: str | None
    """None when nothing was wrong, and nothing was done."""
    tables: list[Recovered] = []
    restored_sessions: list[str] = []
    """Sessions whose own record was lost, and that are there again without their settings."""
    lost_transactions: int = 0
    kept: list[str] = []
    """The damaged files, under their new names."""


def repair(path: Path) -> Report:
    """Repairs the database; raises ConfigurationError if that is not possible. Blocks."""
    if not path.is_file():
        raise ConfigurationError(f"There is no database {path}.", "Look at --data-dir.")
    problem = damage(path) or _unreadable_rows(path)
    if problem is None:
        return Report(None)
    try:
        with tempfile.TemporaryDirectory(prefix=".repair-", dir=path.parent) as folder:
            return _repair(path, Path(folder), problem)
    except OSError as error:
        raise ConfigurationError(
            f"The database {path} cannot be repaired: {error}.",
            "The disk needs room for two more of it. Nothing was changed.",
        ) from error


def _unreadable_rows(path: Path) -> str | None:
    """Damage that only shows in what the rows say; too long a look for every start."""
    with closing(open_for_reading(path)) as connection:
        for table in _tables(connection):
            whole = _is_whole(table)
            bad = sum(not whole(row) for row in connection.execute(f"SELECT * FROM {table}"))
            if bad:
                return f"{bad} rows of the table {table} are not what was written"
    return None


def _repair(path: Path, folder: Path, problem: str) -> Report:
    copy, new = folder / "damaged.db", folder / "new.db"
    shutil.copyfile(path, copy)
    if log_of(path).exists():
        shutil.copyfile(log_of(path), log_of(copy))
    made = open_for_writing(new)
    log = wal.read(log_of(copy))
    with closing(made):
        _make_readable(copy, folder)
        with closing(_open(copy)) as damaged:
            taken = _frames_taken(copy, damaged)
            tables = [_copy(damaged, made, table) for table in _tables(damaged)]
            restored = _restore_sessions(made)
            _keep_counting(damaged, made)
        (said,) = made.execute("PRAGMA integrity_check(1)").fetchone()
        if said != "ok":
            raise ConfigurationError(f"The repaired database is not whole: {said}.")
    return Report(
        problem,
        tables,
        restored,
        wal.left_out(log, taken),
        _exchange(path, new),
    )


# -- the damaged copy


def _make_readable(copy: Path, folder: Path) -> None:
    """Fills up what was cut off, and gives it a first page if it has none that can be used."""
    size = copy.stat().st_size
    with copy.open("r+b") as file:
        header = file.read(100)
        pages = int.from_bytes(header[COUNT_AT : COUNT_AT + 4]) if header[:16] == MAGIC else 0
        # A count that is damaged itself must not fill the disk.
        wanted = pages if pages * PAGE <= 64 * max(size, PAGE) else 0
        file.truncate(max(-(-size // PAGE), wanted, 1) * PAGE)
    if not _has_tables(copy):
        _transplant(copy, folder)


def _has_tables(copy: Path) -> bool:
    try:
        with closing(_open(copy)) as connection:
            return set(_tables(connection)) >= set(TABLES) - LATER
    except sqlite3.DatabaseError:
        return False


def _tables(connection: sqlite3.Connection) -> list[str]:
    """Those that there are, in our order."""
    found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    return [table for table in TABLES if (table,) in found]


def _transplant(copy: Path, folder: Path) -> None:
    donor = folder / "donor.db"
    open_for_writing(donor).close()
    page = bytearray(donor.read_bytes()[:PAGE])
    page[COUNT_AT : COUNT_AT + 4] = (copy.stat().st_size // PAGE).to_bytes(4)
    with copy.open("r+b") as file:
        file.write(page)
    copy.with_name(copy.name + "-shm").unlink(missing_ok=True)


def _open(copy: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(copy, isolation_level=None)
    try:
        # A table of which the schema says something odd is read all the same.
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("PRAGMA cell_size_check = ON")
        connection.execute("PRAGMA query_only = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def _frames_taken(copy: Path, damaged: sqlite3.Connection) -> int:
    damaged.execute("SELECT count(*) FROM sqlite_master").fetchone()
    index = copy.with_name(copy.name + "-shm")
    return wal.taken(index) if index.exists() else 0


# -- the new database


def _copy(damaged: sqlite3.Connection, made: sqlite3.Connection, table: str) -> Recovered:
    salvage = Salvage(damaged, table, TABLES[table], _is_whole(table))
    places = ", ".join("?" for _ in salvage.columns)
    insert = f"INSERT OR IGNORE INTO {table} ({', '.join(salvage.columns)}) VALUES ({places})"
    count = 0
    with transaction(made):
        for row in salvage.rows():
            try:
                count += made.execute(insert, row).rowcount
            except sqlite3.Error:
                salvage.unreadable += 1
    return Recovered(table, count, salvage.lost(INDEXES.get(table, ())))


def _is_whole(table: str) -> Callable[[Row], bool]:
    """Whether a row is what this program writes: damage can also be inside of one."""
    type = RECORDS.get(table)
    if table in ("events", "audit"):
        decode = msgspec.json.Decoder().decode
    elif type is not None:
        decode = msgspec.json.Decoder(type).decode
    else:
        return lambda row: True

    def whole(row: Row) -> bool:
        try:
            decode(row[-1])
        except (msgspec.DecodeError, TypeError, UnicodeDecodeError):
            return False
        return True

    return whole


def _restore_sessions(made: sqlite3.Connection) -> list[str]:
    """Gives executions a session that have lost theirs; they say which one it was."""
    orphans = """SELECT session, min(key) FROM executions
        WHERE session NOT IN (SELECT key FROM sessions) GROUP BY session"""
    restored = []
    for session, key in made.execute(orphans).fetchall():
        query = "SELECT record FROM executions WHERE key = ?"
        execution = msgspec.json.decode(made.execute(query, (key,)).fetchone()[0], type=Execution)
        record = SessionRecord(
            id=execution.session_id,
            name=None,
            state="stopped",
            reason=RESTORED,
            environment="python",
            runtime="",
            isolation="none",
            warm=False,
            labels={},
            limits=Limits(),
            limits_enforced_by="nothing",
            created_at=execution.queued_at,
            last_activity=execution.queued_at,
            expires_at=None,
            handle=None,
            workspace_id=execution.session_id,
        )
        made.execute(
            "INSERT INTO sessions (key, id, record) VALUES (?, ?, ?)",
            (session, record.id, msgspec.json.encode(record)),
        )
        restored.append(record.id)
    return restored


def _keep_counting(damaged: sqlite3.Connection, made: sqlite3.Connection) -> None:
    """The key of a session that is gone must not be used again while there are rows of it."""
    used = [0]
    for table in ("executions", "events", "discarded"):
        (most,) = made.execute(f"SELECT max(session) FROM {table}").fetchone()
        used.append(most or 0)
    try:
        found = damaged.execute("SELECT seq FROM sqlite_sequence WHERE name = 'sessions'").fetchone()
        used.append(int(found[0]) if found else 0)
    except (sqlite3.Error, ValueError, TypeError):
        pass
    used += [seq for (seq,) in made.execute("SELECT seq FROM sqlite_sequence")]
    made.execute("DELETE FROM sqlite_sequence")
    made.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('sessions', ?)", (max(used),))
    # Of these nothing is known but that they were there.
    made.execute("""INSERT OR IGNORE INTO discarded SELECT DISTINCT session FROM events
        WHERE session NOT IN (SELECT key FROM sessions)""")


def _exchange(path: Path, new: Path) -> list[str]:
    """Puts the new database in the place of the old one; returns what that is called now."""
    number = 1
    while path.with_name(f"{path.name}.damaged-{number}").exists():
        number += 1
    kept = path.with_name(f"{path.name}.damaged-{number}")
    names = [kept.name]
    # The log first: with the new database it would be taken for its own.
    path.with_name(path.name + "-shm").unlink(missing_ok=True)
    if log_of(path).exists():
        log_of(path).rename(log_of(kept))
        names.append(log_of(kept).name)
    os.link(path, kept)
    new.rename(path)
    return names
