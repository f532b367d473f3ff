"""A cell outlives its connection, and is never sent twice.

The server is a scripted one: a real gateway does not break off in the middle of an event on demand.
"""

from __future__ import annotations

import time

import pytest

from interpreter import AsyncClient, Client, Event, EventType
from interpreter.client import ConnectionLost, GatewayUnreachable, follow, requests
from interpreter.client.requests import LONG_CELL
from interpreter.errors import ExecutionNotFound, QueueFull

from .fake_gateway import (
    Exchange,
    answer,
    done,
    error,
    event,
    execution,
    fake_gateway,
    hang_up,
    session,
    stream,
)

QUEUED = event(1, "status", status="queued")
HELLO = event(2, "stream", name="stdout", text="hello\n")
WORLD = event(4, "stream", name="stdout", text="world\n")
RUN = "/v1/sessions/s-1/executions"


def open_session(url: str, reconnect: float = 5.0) -> Client:
    return Client(url, "t", reconnect=reconnect)


def text(events: list[Event]) -> str:
    return "".join(e.data["text"] for e in events if e.type is EventType.stream)


def test_a_broken_stream_is_resumed_where_it_broke() -> None:
    with fake_gateway(
        answer(session()),
        stream(QUEUED, HELLO, cut=WORLD[:20]),
        hang_up,
        stream(WORLD, done(5)),
    ) as gateway:
        events = list(open_session(gateway.url).session("s-1").stream("…"))
    assert text(events) == "hello\nworld\n"
    assert [e.seq for e in events] == [1, 2, 4, 5]
    assert gateway.requests[1:] == [f"POST {RUN}", f"GET {RUN}/e-1/events", f"GET {RUN}/e-1/events"]
    assert gateway.seen[-1].headers["last-event-id"] == "2"


async def test_a_broken_stream_is_resumed_async_too() -> None:
    with fake_gateway(
        answer(session()),
        stream(QUEUED, HELLO, cut=WORLD[:20]),
        stream(WORLD, done(5, text="hello\nworld\n")),
    ) as gateway:
        seen: list[Event] = []
        async with AsyncClient(gateway.url, "t") as client, client.session("s-1") as s:
            result = await s.run("…", on_event=seen.append)
    assert text(seen) == "hello\nworld\n" == result.text


def test_events_that_come_again_are_seen_once() -> None:
    with fake_gateway(
        answer(session()), stream(QUEUED, HELLO, cut=b":"), stream(QUEUED, HELLO, WORLD, done(5))
    ) as gateway:
        events = list(open_session(gateway.url).session("s-1").stream("…"))
    assert [e.seq for e in events] == [1, 2, 4, 5]


def test_a_stream_that_ends_too_early_is_resumed() -> None:
    with fake_gateway(answer(session()), stream(QUEUED), stream(done(2))) as gateway:
        events = list(open_session(gateway.url).session("s-1").stream("…"))
    assert [e.type for e in events] == [EventType.status, EventType.done]


def test_a_connection_that_breaks_after_done_does_not_matter() -> None:
    with fake_gateway(answer(session()), stream(QUEUED, done(2), cut=b":")) as gateway:
        assert len(list(open_session(gateway.url).session("s-1").stream("…"))) == 2


@pytest.mark.parametrize("first", [hang_up, stream(cut=QUEUED[:8])])
def test_a_cell_whose_fate_is_unknown_is_not_sent_again(first: object) -> None:
    with fake_gateway(answer(session()), first) as gateway:  # type: ignore[arg-type]
        s = open_session(gateway.url).session("s-1")
        with pytest.raises(ConnectionLost, match="may still run") as caught:
            list(s.stream("…"))
    assert "s-1" in caught.value.hint
    assert gateway.requests.count(f"POST {RUN}") == 1


def test_a_short_cell_that_is_cut_off_says_that_it_may_still_run() -> None:
    with (
        fake_gateway(answer(session()), hang_up) as gateway,
        pytest.raises(ConnectionLost, match="may still run"),
    ):
        open_session(gateway.url).session("s-1").run("…")


def test_a_long_cell_is_waited_for_again_when_the_wait_breaks() -> None:
    with fake_gateway(
        answer(session()),
        answer(execution("queued"), 202),
        hang_up,
        answer(b"<h1>Bad gateway</h1>", 502, "text/html"),
        answer(execution(text="42")),
    ) as gateway:
        result = open_session(gateway.url).session("s-1").run("…", timeout=LONG_CELL + 1)
    assert result.text == "42"
    assert gateway.seen[1].body["wait"] is False
    assert gateway.requests[2:] == [f"GET {RUN}/e-1?wait=true"] * 3


def test_a_gateway_that_stays_away_ends_in_an_error_that_names_the_execution() -> None:
    with fake_gateway(answer(session()), stream(QUEUED, cut=b":")) as gateway:
        s = open_session(gateway.url, reconnect=0.3).session("s-1")
        gateway.steps.extend([hang_up] * 10)
        with pytest.raises(ConnectionLost, match="e-1") as caught:
            list(s.stream("…"))
    assert caught.value.execution_id == "e-1"


def test_a_long_cell_that_cannot_be_waited_for_is_named_too() -> None:
    with fake_gateway(answer(session()), answer(execution("queued"), 202)) as gateway:
        s = open_session(gateway.url, reconnect=0.3).session("s-1")
        gateway.steps.extend([hang_up] * 10)
        with pytest.raises(ConnectionLost, match="e-1"):
            s.run("…", timeout=LONG_CELL + 1)


def test_a_machine_that_does_not_answer_at_all_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(follow.time, "monotonic", lambda: clock[0])
    backoff = follow.Backoff(patience=30.0)

    def try_for_ever() -> None:
        while True:
            backoff.trying()
            clock[0] += 5.0  # the time a connection may take
            clock[0] += backoff.pause_after(GatewayUnreachable("No answer."))

    with pytest.raises(GatewayUnreachable):
        try_for_ever()
    assert 30.0 <= clock[0] <= 45.0


def test_a_wait_that_is_cut_now_and_then_is_never_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(follow.time, "monotonic", lambda: clock[0])
    backoff = follow.Backoff(patience=30.0)
    for _ in range(10):
        backoff.trying()
        clock[0] += 60.0
        assert backoff.pause_after(ConnectionLost("A proxy cut it.")) == follow.FIRST_PAUSE


def test_an_execution_that_is_gone_ends_the_search() -> None:
    with (
        fake_gateway(
            answer(session()), stream(QUEUED, cut=b":"), error("execution_not_found", 404)
        ) as gateway,
        pytest.raises(ExecutionNotFound),
    ):
        list(open_session(gateway.url).session("s-1").stream("…"))


def test_a_refused_cell_is_an_error_at_once() -> None:
    with fake_gateway(answer(session()), error("queue_full", 429)) as gateway, pytest.raises(QueueFull):
        list(open_session(gateway.url).session("s-1").stream("…"))


def test_the_events_of_a_session_survive_a_break_and_end_when_it_is_deleted() -> None:
    with fake_gateway(
        answer(session()),
        stream(QUEUED, cut=b":"),
        stream(HELLO),
        error("session_not_found", 404),
    ) as gateway:
        events = list(open_session(gateway.url).session("s-1").events())
    assert [e.seq for e in events] == [1, 2]
    assert [s.headers["last-event-id"] for s in gateway.seen[1:]] == ["0", "1", "2"]


def test_the_past_of_a_session_ends_when_it_is_caught_up() -> None:
    with fake_gateway(answer(session()), stream(HELLO)) as gateway:
        events = list(open_session(gateway.url).session("s-1").events(follow=False))
    assert [e.seq for e in events] == [2]
    assert gateway.requests[-1] == "GET /v1/sessions/s-1/events?follow=false"


def test_events_of_an_unreachable_gateway_are_an_error_at_once() -> None:
    with fake_gateway(answer(session())) as gateway:
        s = open_session(gateway.url).session("s-1")
    with pytest.raises(GatewayUnreachable):
        list(s.events())


def silent(exchange: Exchange) -> None:
    time.sleep(0.4)
    exchange.hang_up()


def test_a_wait_or_a_stream_without_a_sign_of_life_is_renewed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "KEEP_ALIVE_LIMIT", 0.1)
    with fake_gateway(
        answer(session()),
        silent,
        answer(execution(text="42")),
        stream(QUEUED, cut=b":"),
        silent,
        stream(done(2)),
    ) as gateway:
        s = open_session(gateway.url).session("s-1")
        assert s.execution("e-1", wait=True).text == "42"
        assert len(list(s.stream("…"))) == 2
