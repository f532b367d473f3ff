"""The writer: nothing waits for it, nothing gets lost in it, and it keeps the order."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
import threading

import pytest

from interpreter.store import Store, StoreUnavailable


async def test_a_reader_does_not_wait_for_the_writer(store, event, session, locked):
    with locked():
        written = store.append_events(session, [event(1)])
        assert await store.events(session, 0) == []
        assert not written.done()
    await written
    assert await store.events(session, 0) == [event(1)]


async def test_a_write_is_there_once_its_future_completes(store, event, session):
    for seq in range(1, 50):
        await store.append_events(session, [event(seq)])
        assert await store.last_seq(session) == seq


async def test_writes_keep_the_order_of_the_calls(store, record):
    for number in range(200):
        last = store.save_session(record(reason=str(number)))
    await last
    assert (await store.session("s1")).reason == "199"


async def test_what_waits_together_is_answered_with_one_call(store, event, session, locked, monkeypatch):
    loop = asyncio.get_running_loop()
    answer = loop.call_soon_threadsafe
    calls = []
    monkeypatch.setattr(loop, "call_soon_threadsafe", lambda *args: (calls.append(args), answer(*args)))
    with locked():
        written = [store.append_events(session, [event(seq)]) for seq in range(1, 101)]
    await asyncio.gather(*written)
    # The writer may have taken the first few before the rest was there.
    assert len(calls) <= 2


async def test_futures_complete_on_the_loop_that_called(store, event, session):
    threads = []
    written = store.append_events(session, [event(1)])
    written.add_done_callback(lambda _: threads.append(threading.current_thread()))
    await written
    await asyncio.sleep(0)
    assert threads == [threading.current_thread()]


async def test_a_write_goes_on_when_nobody_waits_for_it_any_more(store, event, session, locked):
    with locked():
        written = store.append_events(session, [event(1)])
        written.cancel()
    await store.append_events(session, [event(2)])
    assert await store.last_seq(session) == 2
    assert len(await store.events(session, 0)) == 2


async def test_a_wrong_write_fails_alone(store, event, session, locked, log):
    await store.append_events(session, [event(1)])
    with locked():
        before = store.append_events(session, [event(2)])
        wrong = store.append_events(session, [event(3), event(1)])
        unbindable = store.set_received(session, 2**70)
        after = store.append_events(session, [event(3)], received=9)
    results = await asyncio.gather(before, wrong, unbindable, after, return_exceptions=True)
    assert [type(result) for result in results] == [
        type(None),
        sqlite3.IntegrityError,
        OverflowError,
        type(None),
    ]
    assert [row.seq for row in await store.events(session, 0)] == [1, 2, 3]
    assert await store.received(session) == 9


async def test_a_refused_write_nobody_waits_for_leaves_one_line_in_the_log(store, event, session, log):
    complaints = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    await store.append_events(session, [event(1)])
    store.append_events(session, [event(1)])
    await store.append_events(session, [event(2)])
    gc.collect()
    assert complaints == []
    assert log.rest() == ["a write was refused"]


async def test_a_locked_database_loses_nothing(store, event, session, locked, log):
    with locked():
        written = [store.append_events(session, [event(seq)]) for seq in (1, 2)]
        waiting = await log.next()
        written.append(store.append_events(session, [event(3)]))
        assert not any(future.done() for future in written)
    await asyncio.gather(*written)
    assert waiting["error"] == "database is locked"
    assert await store.last_seq(session) == 3


async def test_a_full_disk_loses_nothing_and_is_told_once(store, event, session, full_disk, log):
    large = event(1, b"x" * 1_000_000)
    with full_disk():
        written = store.append_events(session, [large], received=1)
        waiting = await log.next()
        assert await store.received(session) == 0
    await written
    assert waiting["event"] == "the database cannot be written; trying again"
    assert log.rest() == ["the database can be written again"]
    assert await store.events(session, 0) == [large]
    assert await store.received(session) == 1


async def test_closing_commits_what_is_queued(path, record, event):
    store = await Store.open(path)
    store.save_session(record())
    written = [store.append_events("s1", [event(seq)]) for seq in range(1, 201)]
    await store.close()
    assert all(future.done() and future.exception() is None for future in written)
    store = await Store.open(path)
    assert await store.last_seq("s1") == 200
    await store.close()


async def test_closing_on_a_full_disk_says_what_was_lost(path, record, event, full_disk, log):
    store = await Store.open(path)
    await store.save_session(record())
    with full_disk():
        first = store.append_events("s1", [event(1, b"x" * 1_000_000)])
        await log.next()
        second = store.append_events("s1", [event(2)])
        await store.close()
    for written in (first, second):
        with pytest.raises(StoreUnavailable):
            await written
    store = await Store.open(path)
    assert await store.last_seq("s1") == 0
    await store.close()


async def test_closing_an_idle_store_does_not_wait_for_a_lock(path, record, locked, log):
    store = await Store.open(path)
    await store.save_session(record())
    with locked():
        await store.close()
    assert log.rest() == []


async def test_a_closed_store_refuses_and_can_be_closed_again(path, record):
    store = await Store.open(path)
    await store.close()
    await store.close()
    with pytest.raises(StoreUnavailable):
        await store.save_session(record())
    with pytest.raises(StoreUnavailable):
        await store.sessions()


async def test_a_closed_store_leaves_no_thread_and_only_its_files(path, record):
    before = {thread for thread in threading.enumerate() if not thread.name.startswith("asyncio")}
    store = await Store.open(path)
    await store.save_session(record())
    await asyncio.gather(*(store.sessions() for _ in range(10)))
    await store.close()
    after = {thread for thread in threading.enumerate() if not thread.name.startswith("asyncio")}
    assert after == before
    assert {file.name for file in path.parent.iterdir()} == {"store.db", "store.boot"}
