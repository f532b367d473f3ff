"""A look at the database before it is used: a gateway does not start with one that is half-read.

The look has an end: of a file so large that it takes longer, the rest is looked at when it is read.
"""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing, suppress
from pathlib import Path

import structlog

from interpreter.errors import ConfigurationError
from interpreter.store import wal
from interpreter.store.condition import is_damage
from interpreter.store.schema import open_for_reading

log = structlog.get_logger(__name__)

LONGEST_LOOK = 10.0
HINT = (
    "'interpreter repair' copies what can still be read into a new database and keeps this one "
    "beside it. If the file is not this program's, move it away, or use another data_dir."
)
BOOT = Path("/proc/sys/kernel/random/boot_id")


def journal_of(path: Path) -> Path:
    return path.with_suffix(".journal")


def log_of(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def examine(path: Path) -> None:
    """Raises ConfigurationError if the database is damaged; changes nothing in it."""
    problem = damage(path)
    if problem is not None:
        raise ConfigurationError(f"The database {path} is damaged: {problem}.", HINT)


def note_use(path: Path) -> None:
    """Called when the database is open: it is there, and of this boot of the machine."""
    with suppress(OSError):  # on a full disk the note of an earlier use stays
        _last_boot(path).touch(mode=0o600)
        _last_boot(path).write_text(_boot())


def damage(path: Path) -> str | None:
    """What is wrong with the database, None when nothing is known to be."""
    try:
        size = path.stat().st_size if path.is_file() else None
    except OSError:
        return None
    if size is None:
        return None
    if size == 0:
        # A new one is noted only when there is something in it.
        return "it is empty, though it was in use" if _last_boot(path).exists() else None
    rebooted = not _last_boot(path).exists() or _last_boot(path).read_text() != _boot()
    try:
        found = wal.read(log_of(path))
        with closing(open_for_reading(path)) as connection:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            lost = _lost_transactions(path, found, connection)
            if lost and rebooted:
                # The end of a log that was being written when the power went is lost as it may be.
                log.warning("the machine stopped before the end of the log was on the disk")
            elif lost:
                return lost
            return _look(connection)
    except (sqlite3.Error, OSError) as error:
        return str(error) if is_damage(error) else None


def _lost_transactions(path: Path, found: wal.Log, connection: sqlite3.Connection) -> str | None:
    if not found.readable:
        return "its write-ahead log has no readable header"
    if found.frames == 0:
        return None
    lost = wal.left_out(found, wal.taken(path.with_name(path.name + "-shm")))
    return f"{lost} transactions in its write-ahead log cannot be read" if lost else None


def _look(connection: sqlite3.Connection) -> str | None:
    alarm = threading.Timer(LONGEST_LOOK, connection.interrupt)
    alarm.start()
    try:
        (said,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.OperationalError as error:
        if "interrupted" not in str(error):
            raise
        log.warning("the database is so large that only a part of it was looked at")
        return None
    finally:
        alarm.cancel()
        alarm.join()
    return None if said == "ok" else " ".join(str(said).split())


def _last_boot(path: Path) -> Path:
    """The boot of the machine in which the database was opened last."""
    return path.with_suffix(".boot")


def _boot() -> str:
    try:
        return BOOT.read_text().strip()
    except OSError:
        return "unknown"
