"""Opening: a file is at one version or the next, and a stranger's file is left alone."""

from __future__ import annotations

import os
import signal
import sqlite3
import stat
import subprocess
import sys

import pytest

from interpreter.errors import ConfigurationError
from interpreter.store import Store
from interpreter.store.schema import APPLICATION_ID, MIGRATIONS, open_for_writing

FIRST = ("CREATE TABLE one (x)", "INSERT INTO one VALUES (1)")
SECOND = ("ALTER TABLE one ADD COLUMN y", "UPDATE one SET y = 2")
BROKEN = ("ALTER TABLE one ADD COLUMN y", "UPDATE nowhere SET y = 2")


def ask(path, query):
    connection = sqlite3.connect(path)
    try:
        return connection.execute(query).fetchone()
    finally:
        connection.close()


def test_each_migration_runs_once_and_in_order(path):
    open_for_writing(path, [FIRST]).close()
    assert ask(path, "PRAGMA user_version") == (1,)
    for _ in range(2):
        open_for_writing(path, [FIRST, SECOND]).close()
        assert ask(path, "PRAGMA user_version") == (2,)
        assert ask(path, "SELECT * FROM one") == (1, 2)


async def test_a_database_at_the_first_version_opens(path, record):
    connection = open_for_writing(path, MIGRATIONS[:1])
    connection.execute("INSERT INTO sessions (id, record) VALUES ('old', ?)", [b"{}"])
    connection.close()
    store = await Store.open(path)
    await store.save_session(record("old"))
    assert [session.id for session in await store.sessions()] == ["old"]
    await store.close()


def test_a_failed_migration_leaves_the_old_version_intact(path):
    open_for_writing(path, [FIRST]).close()
    with pytest.raises(ConfigurationError, match="no such table: nowhere"):
        open_for_writing(path, [FIRST, BROKEN])
    assert ask(path, "PRAGMA user_version") == (1,)
    assert ask(path, "SELECT * FROM one") == (1,)
    open_for_writing(path, [FIRST, SECOND]).close()
    assert ask(path, "SELECT * FROM one") == (1, 2)


KILLED_WHILE_MIGRATING = """
import os, signal, sqlite3, sys
from interpreter.store.schema import migrate

connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.create_function("die", 0, lambda: os.kill(os.getpid(), signal.SIGKILL))
migrate(connection, [(), ("ALTER TABLE one ADD COLUMN y", "SELECT die()")])
"""


def test_a_migration_killed_half_way_leaves_the_old_version_intact(path):
    open_for_writing(path, [FIRST]).close()
    killed = subprocess.run(
        [sys.executable, "-c", KILLED_WHILE_MIGRATING, path],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    assert ask(path, "PRAGMA user_version") == (1,)
    open_for_writing(path, [FIRST, SECOND]).close()
    assert ask(path, "SELECT * FROM one") == (1, 2)


async def test_a_newer_database_is_refused_and_left_as_it_is(path):
    open_for_writing(path, [*MIGRATIONS, FIRST]).close()
    before = path.read_bytes()
    with pytest.raises(ConfigurationError, match=f"newer version.* schema {len(MIGRATIONS) + 1}"):
        await Store.open(path)
    assert path.read_bytes() == before


async def test_another_programs_database_is_refused_and_left_as_it_is(path):
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE theirs (x)")
    other.close()
    path.chmod(0o644)
    before = path.read_bytes()
    with pytest.raises(ConfigurationError, match="another program"):
        await Store.open(path)
    assert path.read_bytes() == before
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


async def test_a_file_that_is_no_database_is_refused_and_left_as_it_is(path):
    path.write_bytes(b"[limits]\nmemory_mb = 512\n" * 100)
    before = path.read_bytes()
    with pytest.raises(ConfigurationError, match="not a database"):
        await Store.open(path)
    assert path.read_bytes() == before


async def test_a_path_that_cannot_be_a_file_is_refused(tmp_path):
    with pytest.raises(ConfigurationError, match="cannot be used"):
        await Store.open(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="cannot be used"):
        await Store.open(tmp_path / "file" / "store.db")


async def test_only_the_owner_can_read_the_files_whatever_the_umask(tmp_path, record):
    path = tmp_path / "new" / "a name? with #signs%20" / "store.db"
    before = os.umask(0)
    try:
        store = await Store.open(path)
        await store.save_session(record())
        await store.sessions()
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    finally:
        os.umask(before)
    assert modes == {
        f"store.{suffix}": 0o600 for suffix in ("db", "db-wal", "db-shm", "journal", "boot")
    }
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    await store.close()


async def test_files_that_were_readable_by_others_no_longer_are(path, store, record):
    await store.save_session(record())
    files = [path.with_name(path.name + suffix) for suffix in ("", "-wal", "-shm")]
    for file in files:
        file.chmod(0o644)
    second = await Store.open(path)
    assert [stat.S_IMODE(file.stat().st_mode) for file in files] == [0o600] * 3
    await second.close()


def test_the_file_says_whose_it_is_and_can_shrink(path):
    open_for_writing(path).close()
    assert ask(path, "PRAGMA application_id") == (APPLICATION_ID,)
    assert ask(path, "PRAGMA journal_mode") == ("wal",)
    incremental = 2
    assert ask(path, "PRAGMA auto_vacuum") == (incremental,)
