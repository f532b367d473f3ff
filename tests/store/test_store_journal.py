"""What is written down for a process that is killed: all of it is found, and no more of it is kept than
the database lacks."""

from __future__ import annotations

import os
from collections import deque
from pathlib import Path

import msgspec
import pytest

from interpreter.store import Ending, Store
from interpreter.store.journal import LONG_ENOUGH, RESERVED, File, Journal

TEXT = "x" * 10_000
PER_FILE = LONG_ENOUGH // len(TEXT) + 1


class Killed(BaseException):
    """The process ends here."""


@pytest.fixture
def write_down(execution):
    def write(journal, id, session_id="s1"):
        cell = execution(id, session_id=session_id, code=TEXT)
        return journal.add(msgspec.json.encode(cell), b"{}")

    return write


def found(path: Path) -> list[str]:
    """The cells that the next process finds."""
    next_one = Journal(path)
    ids = [entry.execution.id for left in next_one.left.values() for entry in left.entries]
    next_one.close()
    return ids


def files(path: Path) -> list[Path]:
    return list(path.parent.glob("journal*"))


def test_cells_that_overlap_without_end_do_not_let_it_grow(tmp_path, write_down):
    path = tmp_path / "journal"
    journal = Journal(path)
    waiting: deque[File] = deque()
    for number in range(20 * PER_FILE):
        waiting.append(write_down(journal, f"e{number}"))
        if len(waiting) > 3:
            waiting.popleft().settle()
        assert sum(file.stat().st_size for file in files(path)) < 2 * LONG_ENOUGH + 2 * len(TEXT)
        assert sum(file.stat().st_blocks * 512 for file in files(path)) < 2 * RESERVED
    last = found(path)[-3:]
    assert last == [f"e{number}" for number in range(20 * PER_FILE)][-3:]
    for file in waiting:
        file.settle()
    journal.close()
    assert files(path) == []


def test_what_one_cell_waits_in_stays_as_long_as_it_does(tmp_path, write_down):
    path = tmp_path / "journal"
    journal = Journal(path)
    slow = write_down(journal, "slow")
    for number in range(5 * PER_FILE):
        write_down(journal, f"e{number}").settle()
    assert found(path)[0] == "slow"
    assert len(files(path)) == 2
    slow.settle()
    assert "slow" not in found(path)
    journal.close()


@pytest.mark.parametrize("call", ["open", "ftruncate", "close", "unlink"])
@pytest.mark.parametrize("after", [False, True])
def test_one_that_is_killed_between_two_files_forgets_nothing(
    tmp_path, write_down, monkeypatch, call, after
):
    path = tmp_path / "journal"
    journal = Journal(path)
    waits = []
    while path.stat().st_size <= LONG_ENOUGH:
        waits.append(write_down(journal, f"e{len(waits)}"))
    there, do = [f"e{number}" for number in range(len(waits))], getattr(os, call)

    def killed(*given, **named):
        if after:
            do(*given, **named)
        raise Killed

    def go_on():
        write_down(journal, "next")
        for file in waits:
            file.settle()

    with monkeypatch.context() as patched:
        patched.setattr(os, call, killed)
        with pytest.raises(Killed):
            go_on()
    kept = found(path)
    if call == "unlink":
        assert kept == ["next"] if after else [*there, "next"]
    else:
        assert kept == there, "the next one was not written down yet"


async def test_all_files_of_a_killed_process_are_found_in_order_and_kept_until_all_are_told(
    path, record, write_down
):
    store = await Store.open(path)
    await store.save_session(record("s1"))
    await store.save_session(record("s2"))
    ids = [f"e{number}" for number in range(3 * PER_FILE)]
    for id in ids:
        write_down(store._journal, id)
    write_down(store._journal, "other", "s2")
    store.write_down_ending(Ending("s2", "other", None, 1.5, None, None, 0))
    write_down(store._journal, "nobody's", "deleted")
    await store.close()
    assert len(list(path.parent.glob("*.journal*"))) > 2

    for _ in range(2):  # nothing is gone before it is told
        store = await Store.open(path)
        assert [entry.execution.id for entry in store.journaled("s1").entries] == ids
        assert store.journaled("s2").endings["other"].duration_ms == 1.5
        assert store.journaled("deleted") is None
        store.told("s1")
        assert store.journaled("s1") is None, "nor is it kept in memory"
        await store.close()
    store = await Store.open(path)
    store.told("s1")
    store.told("s2")
    assert len(list(path.parent.glob("*.journal*"))) == 1, "its own"
    await store.close()
    assert list(path.parent.glob("*.journal*")) == []
