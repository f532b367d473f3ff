"""A damaged file: found before it is used, never written to, and read as far as it goes."""

from __future__ import annotations

import asyncio
import random
import sqlite3

import pytest

from interpreter.errors import ConfigurationError, StoreDamaged
from interpreter.store import EventRow, Store, repair

PAGE = 4096
SESSIONS, EVENTS, CELLS = 4, 400, 40


def garbage(file, at, size=PAGE, seed=1):
    with file.open("r+b") as opened:
        opened.seek(at)
        opened.write(random.Random(seed).randbytes(size))


def data(session, seq):
    return b'{"session":"%b","seq":%d,"text":"%b"}' % (session.encode(), seq, b"x" * 300)


@pytest.fixture
def fill(path, record, execution):
    """A database with some of everything; returns with the write-ahead log folded into it or not."""

    async def fill(close=True):
        store = await Store.open(path)
        for n in range(1, SESSIONS + 1):
            session = f"s{n}"
            await store.save_session(record(session, name=f"name {n}"))
            for first in range(1, EVENTS + 1, 20):
                rows = [
                    EventRow(seq, "stream", f"e{seq % CELLS}", data(session, seq))
                    for seq in range(first, first + 20)
                ]
                store.append_events(session, rows, received=first + 19)
            for cell in range(CELLS):
                store.save_execution(execution(f"e{cell}", session_id=session, status="ok"))
            await store.audit("session.ready", session, {"n": n})
        if close:
            await store.close()
        return store

    return fill


async def everything(path):
    store = await Store.open(path)
    try:
        sessions = {s.id: s.name for s in await store.sessions()}
        events, cells = {}, {}
        for id in sessions:
            rows = await store.events(id, 0, max_rows=10_000, max_bytes=10**9)
            assert [row.data for row in rows] == [data(id, row.seq) for row in rows]
            events[id] = [row.seq for row in rows]
            cells[id] = [e.id for e in await store.executions(id)]
        return sessions, events, cells
    finally:
        await store.close()


ALL_SESSIONS = {f"s{n}": f"name {n}" for n in range(1, SESSIONS + 1)}
ALL_EVENTS = {id: list(range(1, EVENTS + 1)) for id in ALL_SESSIONS}
ALL_CELLS = {id: [f"e{n}" for n in range(CELLS)] for id in ALL_SESSIONS}


def leaves_of(path, table):
    """The pages that hold a table's rows, found out by which of them has a row's text in it."""
    content = path.read_bytes()
    found = []
    for number in range(len(content) // PAGE):
        page = content[number * PAGE : (number + 1) * PAGE]
        if page[0] == 0x0D and (b'"text":"xxx' in page) == (table == "events"):
            found.append(number)
    return found


async def refused(path):
    before = path.read_bytes()
    with pytest.raises(ConfigurationError, match="damaged") as refusal:
        await Store.open(path)
    assert "interpreter repair" in refusal.value.hint
    assert path.read_bytes() == before, "and it is left as it is"


@pytest.mark.parametrize("size", [100, PAGE])
async def test_a_destroyed_header_costs_nothing(path, fill, size):
    await fill()
    garbage(path, 0, size)
    damaged = path.read_bytes()
    await refused(path)
    report = await asyncio.to_thread(repair, path)
    assert await everything(path) == (ALL_SESSIONS, ALL_EVENTS, ALL_CELLS)
    assert report.kept == ["store.db.damaged-1"]
    assert (path.parent / "store.db.damaged-1").read_bytes() == damaged
    assert all(table.lost == 0 for table in report.tables)


async def test_a_destroyed_page_costs_what_was_on_it_and_that_is_told(path, fill):
    await fill()
    leaf = leaves_of(path, "events")[20]
    garbage(path, leaf * PAGE)
    await refused(path)
    report = await asyncio.to_thread(repair, path)
    sessions, events, cells = await everything(path)
    assert (sessions, cells) == (ALL_SESSIONS, ALL_CELLS)
    lost = sum(len(ALL_EVENTS[id]) - len(events[id]) for id in sessions)
    assert 1 <= lost <= PAGE // 300
    by_name = {table.table: table for table in report.tables}
    assert by_name["events"].lost == lost
    assert by_name["events"].rows == SESSIONS * EVENTS - lost
    assert by_name["executions"].lost == 0


async def test_a_destroyed_inner_page_costs_only_what_it_leads_to(path, fill):
    await fill()
    content = path.read_bytes()
    inner = [n for n in range(1, len(content) // PAGE) if content[n * PAGE] == 0x05]
    assert inner
    garbage(path, inner[-1] * PAGE)
    await refused(path)
    await asyncio.to_thread(repair, path)
    sessions, _, _ = await everything(path)
    assert sessions == ALL_SESSIONS


async def test_a_file_that_was_cut_short_is_read_as_far_as_it_goes(path, fill):
    await fill()
    content = path.read_bytes()
    path.write_bytes(content[: len(content) * 2 // 3 + 100])
    await refused(path)
    report = await asyncio.to_thread(repair, path)
    sessions, events, _ = await everything(path)
    assert set(sessions) == set(ALL_SESSIONS)
    assert sum(map(len, events.values())) > SESSIONS * EVENTS // 3
    assert {table.table: table.lost for table in report.tables}["events"] != 0


async def test_an_emptied_file_is_not_taken_for_a_new_one(path, fill):
    await fill()
    path.write_bytes(b"")
    await refused(path)
    await asyncio.to_thread(repair, path)
    assert (await everything(path))[0] == {}


async def test_a_session_that_lost_its_record_is_there_again(path, fill):
    await fill()
    connection = sqlite3.connect(path)
    connection.execute("UPDATE sessions SET record = x'00ff00' WHERE id = 's2'")
    connection.commit()
    connection.close()
    # Damage inside of a row is nothing that SQLite could see: it is found when the row is read.
    store = await Store.open(path)
    with pytest.raises(StoreDamaged):
        await store.sessions()
    await store.close()
    garbage(path, leaves_of(path, "events")[-1] * PAGE)
    report = await asyncio.to_thread(repair, path)
    sessions, _, cells = await everything(path)
    assert sessions == {**ALL_SESSIONS, "s2": None}
    assert cells == ALL_CELLS
    assert report.restored_sessions == ["s2"]


async def test_a_damaged_write_ahead_log_is_noticed_though_sqlite_does_not(path, fill, record):
    store = await fill(close=False)
    await store.save_session(record("last", name="last"))
    # As a killed process leaves it: nothing is folded, and the index is gone.
    killed = path.parent / "killed" / path.name
    killed.parent.mkdir()
    for suffix in ("", "-wal"):
        source = path.with_name(path.name + suffix)
        killed.with_name(path.name + suffix).write_bytes(source.read_bytes())
    (killed.parent / "store.boot").write_bytes((path.parent / "store.boot").read_bytes())
    await store.close()
    log = killed.with_name(killed.name + "-wal")
    assert log.stat().st_size > 20 * PAGE
    garbage(log, 32 + 10 * (24 + PAGE) + 24, 100)
    before = log.read_bytes()
    await refused(killed)
    assert log.read_bytes() == before
    report = await asyncio.to_thread(repair, killed)
    assert report.lost_transactions > 0
    assert (killed.parent / "store.db.damaged-1-wal").read_bytes() == before
    sessions, _, _ = await everything(killed)
    assert "last" not in sessions


async def test_a_log_without_its_header_is_noticed(path, fill):
    store = await fill(close=False)
    killed = path.parent / "killed.db"
    killed.write_bytes(path.read_bytes())
    log = killed.with_name("killed.db-wal")
    log.write_bytes(path.with_name(path.name + "-wal").read_bytes())
    (path.parent / "killed.boot").write_bytes((path.parent / "store.boot").read_bytes())
    await store.close()
    garbage(log, 0, 32)
    await refused(killed)


async def test_a_log_that_a_power_failure_cut_off_is_no_damage(path, fill, log):
    store = await fill(close=False)
    killed = path.parent / "killed.db"
    killed.write_bytes(path.read_bytes())
    cut = killed.with_name("killed.db-wal")
    cut.write_bytes(path.with_name(path.name + "-wal").read_bytes())
    (path.parent / "killed.boot").write_text("an earlier boot")
    await store.close()
    garbage(cut, 32 + 10 * (24 + PAGE) + 24, 100)
    store = await Store.open(killed)
    await store.sessions()
    await store.close()
    assert "the machine stopped before the end of the log was on the disk" in log.rest()


async def test_a_row_that_says_something_else_is_found_though_every_page_is_well(path, fill):
    await fill()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE events SET data = X'ff00' WHERE seq = 7 AND session = 1")
        connection.execute("UPDATE executions SET record = '{}' WHERE id = 'e3' AND session = 2")
    connection.close()
    report = repair(path)
    assert report.problem is not None
    assert "1 rows of the table executions" in report.problem
    assert {t.table: t.lost for t in report.tables if t.lost} == {"executions": 1, "events": 1}
    sessions, events, cells = await everything(path)
    assert sessions == ALL_SESSIONS
    assert events == {**ALL_EVENTS, "s1": [n for n in ALL_EVENTS["s1"] if n != 7]}
    assert cells == {**ALL_CELLS, "s2": [id for id in ALL_CELLS["s2"] if id != "e3"]}
    assert repair(path).problem is None


async def test_a_whole_database_is_left_as_it_is(path, fill):
    await fill()
    before = path.read_bytes()
    report = await asyncio.to_thread(repair, path)
    assert report.problem is None
    assert path.read_bytes() == before


async def test_repairing_twice_keeps_both_damaged_files(path, fill):
    await fill()
    for number in (1, 2):
        garbage(path, 0)
        report = await asyncio.to_thread(repair, path)
        assert report.kept == [f"store.db.damaged-{number}"]
    assert (await everything(path))[1] == ALL_EVENTS


async def test_the_key_of_a_deleted_session_does_not_come_back(path, fill, record, event):
    await fill()
    store = await Store.open(path)
    await store.delete_session(f"s{SESSIONS}")
    await store.close()
    garbage(path, 0)
    await asyncio.to_thread(repair, path)
    store = await Store.open(path)
    await store.save_session(record("new"))
    assert await store.events("new", 0) == []
    await store.close()


async def test_damage_found_by_a_reader_ends_all_writing(path, fill, event, log):
    await fill()
    store = await Store.open(path)
    for page in leaves_of(path, "events"):
        garbage(path, page * PAGE)
    with pytest.raises(StoreDamaged, match="damaged"):
        await store.events("s1", 0)
    assert (await log.next())["event"] == "the database is damaged; nothing more is written to it"
    with pytest.raises(StoreDamaged):
        await store.append_events("s1", [event(EVENTS + 1)])
    with pytest.raises(StoreDamaged):
        store.condition.check()
    await store.close()


async def test_after_a_write_that_met_damage_no_later_one_hides_that_it_is_missing(
    path, fill, event, log
):
    await fill()
    store = await Store.open(path)
    pages = path.stat().st_size // PAGE
    for page in range(3, pages):
        garbage(path, page * PAGE, seed=page)
    met = store.append_events("s1", [event(EVENTS + 1)])
    with pytest.raises(StoreDamaged):
        await met
    damaged = path.read_bytes()
    for later in (store.audit("x", None, {}), store.set_received("s1", 1)):
        with pytest.raises(StoreDamaged):
            await later
    assert path.read_bytes() == damaged
    await store.close()
