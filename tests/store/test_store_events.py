"""Events: every one once, in order, and never more of them in memory than was asked for."""

from __future__ import annotations

import sqlite3

import pytest


async def test_events_come_in_order_after_the_number_given(store, event, session):
    await store.append_events(session, [event(3), event(1)])
    await store.append_events(session, [event(2)])
    assert [row.seq for row in await store.events(session, 0)] == [1, 2, 3]
    assert [row.seq for row in await store.events(session, 2)] == [3]
    assert await store.last_seq(session) == 3


async def test_data_is_served_as_it_was_given(store, event, session):
    row = event(1, b'{"text": "\xc3\xa9\\u0000"}', "e1")
    await store.append_events(session, [row])
    assert await store.events(session, 0) == [row]


async def test_one_executions_events_can_be_read_alone(store, event, session):
    rows = [event(1), event(2, execution_id="a"), event(3, execution_id="b"), event(4, execution_id="a")]
    await store.append_events(session, rows)
    assert await store.events(session, 0, execution_id="a") == [rows[1], rows[3]]
    assert await store.events(session, 2, execution_id="a") == [rows[3]]


async def test_an_answer_has_at_most_the_bytes_and_rows_asked_for(store, event, session):
    await store.append_events(session, [event(seq, b"x" * 100) for seq in range(1, 11)])
    assert [row.seq for row in await store.events(session, 0, max_bytes=300)] == [1, 2, 3]
    assert [row.seq for row in await store.events(session, 3, max_bytes=399)] == [4, 5, 6]
    assert [row.seq for row in await store.events(session, 6, max_rows=2)] == [7, 8]


async def test_an_event_larger_than_an_answer_still_comes(store, event, session):
    await store.append_events(session, [event(1, b"x" * 5000), event(2)])
    assert [row.seq for row in await store.events(session, 0, max_bytes=10)] == [1]
    assert [row.seq for row in await store.events(session, 1, max_bytes=10)] == [2]
    assert await store.events(session, 2, max_bytes=10) == []


async def test_a_sequence_number_is_never_written_twice(store, event, session):
    await store.append_events(session, [event(1, b"first")])
    with pytest.raises(sqlite3.IntegrityError):
        await store.append_events(session, [event(1, b"second")])
    assert await store.events(session, 0) == [event(1, b"first")]


async def test_events_and_what_was_received_are_written_together_or_not_at_all(store, event, session):
    await store.append_events(session, [event(1)], received=4)
    with pytest.raises(sqlite3.IntegrityError):
        await store.append_events(session, [event(2), event(1)], received=5)
    assert await store.last_seq(session) == 1
    assert await store.received(session) == 4


async def test_what_was_received_grows_with_events_and_can_be_set_to_anything(store, event, session):
    await store.append_events(session, [event(1)], received=5)
    await store.append_events(session, [], received=3)
    assert await store.received(session) == 5
    await store.append_events(session, [event(2)])
    assert await store.received(session) == 5
    await store.set_received(session, 0)
    assert await store.received(session) == 0


async def test_a_session_that_is_not_there_takes_no_events(store, event):
    with pytest.raises(sqlite3.IntegrityError):
        await store.append_events("unknown", [event(1)])
