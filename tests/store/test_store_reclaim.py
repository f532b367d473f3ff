"""The disk space of a deleted session comes back, without holding up other writes."""

from __future__ import annotations

import asyncio

from interpreter.store import Store, reclaim
from interpreter.store.schema import open_for_writing, transaction
from interpreter.store.store import DELETE_SESSION, DISCARD_ROWS

LARGE = b"x" * 256 * 1024
COUNT = 80


async def fill(store, session_id, event):
    await store.append_events(session_id, [event(seq, LARGE) for seq in range(1, COUNT + 1)])


def delete_and_die(path, session_id):
    """What is in the file when the process is killed right after a delete was committed."""
    connection = open_for_writing(path)
    with transaction(connection):
        connection.execute(DISCARD_ROWS, [session_id])
        connection.execute(DELETE_SESSION, [session_id])
    connection.close()


async def until_small(store, path):
    async with asyncio.timeout(10):
        while path.stat().st_size > 1_000_000:
            await store.sessions()


async def test_deleting_a_session_gives_its_disk_space_back(store, path, event, session):
    await fill(store, session, event)
    await store.delete_session(session)
    await until_small(store, path)


async def test_what_a_crash_left_over_is_given_back_at_the_next_start(path, record, event):
    store = await Store.open(path)
    await store.save_session(record())
    await fill(store, "s1", event)
    await store.close()
    delete_and_die(path, "s1")
    assert path.stat().st_size > COUNT * len(LARGE)

    store = await Store.open(path)
    await until_small(store, path)
    await store.close()


async def test_reclaiming_is_done_in_steps_and_leaves_other_sessions_alone(path, record, event):
    store = await Store.open(path)
    for session_id in ("deleted", "kept"):
        await store.save_session(record(session_id))
    for seq in range(1, COUNT + 1):
        await store.append_events("deleted", [event(seq, LARGE)])
        await store.append_events("kept", [event(seq, b"%d" % seq + LARGE)])
    await store.close()
    delete_and_die(path, "deleted")
    full = path.stat().st_size

    connection = open_for_writing(path)
    steps = 1
    while reclaim.step(connection):
        steps += 1
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert connection.execute("SELECT count(*) FROM events").fetchone() == (COUNT,)
    connection.close()
    assert steps > COUNT / reclaim.ROWS_PER_STEP + 1
    assert path.stat().st_size < 0.6 * full

    store = await Store.open(path)
    rows = await store.events("kept", 0, max_bytes=1_000_000_000)
    assert [row.data for row in rows] == [b"%d" % seq + LARGE for seq in range(1, COUNT + 1)]
    await store.close()


async def test_writes_go_on_while_space_is_given_back(store, record, event, session):
    await store.save_session(record("other"))
    await fill(store, session, event)
    store.delete_session(session)
    for seq in range(1, 51):
        await store.append_events("other", [event(seq)])
    assert await store.last_seq("other") == 50
