"""A cell outlives its connection, and is run once however often it is sent.

The server is a scripted one: a real gateway does not break off in the middle of an event on demand.
"""

from __future__ import annotations

import threading
import time

import pytest

from interpreter import AsyncClient, Client, Event, EventType, Result
from interpreter.client import ConnectionLost, GatewayUnreachable, backoff, cell_requests
from interpreter.errors import (
    ExecutionNotFound,
    InterpreterError,
    QueueFull,
    ShuttingDown,
    TooManySessions,
)

from .fake_gateway import (
    Exchange,
    FakeGateway,
    Step,
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


def keys(gateway: FakeGateway) -> list[str]:
    return [s.headers["idempotency-key"] for s in gateway.seen if s.method == "POST" and s.path == RUN]


AWAY = [
    hang_up,
    answer(b"<h1>Bad gateway</h1>", 502, "text/html"),
    error("shutting_down", 503, Retry_After="0"),
]


@pytest.mark.parametrize("first", [*AWAY, stream(cut=QUEUED[:8]), stream()])
def test_a_cell_whose_fate_is_unknown_is_sent_again_with_the_same_key(first: Step) -> None:
    with fake_gateway(answer(session()), first, hang_up, stream(QUEUED, done(2))) as gateway:
        events = list(open_session(gateway.url).session("s-1").stream("…"))
    assert [e.seq for e in events] == [1, 2]
    assert len(keys(gateway)) == 3
    assert len(set(keys(gateway))) == 1


@pytest.mark.parametrize("first", AWAY)
@pytest.mark.parametrize("timeout", [None, 500.0])
def test_a_cell_that_is_waited_for_is_sent_again_too(first: Step, timeout: float | None) -> None:
    with fake_gateway(answer(session()), first, hang_up, answer(execution(text="42"))) as gateway:
        result = open_session(gateway.url).session("s-1").run("…", timeout=timeout)
    assert result.text == "42"
    assert len(keys(gateway)) == 3
    assert len(set(keys(gateway))) == 1


async def test_a_submitted_cell_is_sent_again_async_too() -> None:
    with fake_gateway(answer(session()), *AWAY, answer(execution("queued"), 202)) as gateway:
        async with AsyncClient(gateway.url, "t") as client:
            assert (await (await client.session("s-1")).submit("…")).id == "e-1"
    assert gateway.seen[-1].body["wait"] is False
    assert len(set(keys(gateway))) == 1


def test_every_cell_has_a_key_of_its_own() -> None:
    with fake_gateway(answer(session()), *[answer(execution())] * 2, stream(QUEUED, done(2))) as gateway:
        s = open_session(gateway.url).session("s-1")
        s.run("…")
        s.submit("…")
        list(s.stream("…"))
    assert len(set(keys(gateway))) == 3


def test_a_gateway_that_starts_again_while_a_cell_is_sent_is_found() -> None:
    with fake_gateway(answer(session())) as gateway:
        s = open_session(gateway.url, reconnect=30).session("s-1")
    port = int(gateway.url.rpartition(":")[2])
    later = threading.Thread(target=lambda: results.append(s.run("…")))
    results: list[Result] = []
    later.start()
    with fake_gateway(answer(execution(text="42")), port=port):
        later.join()
    assert [r.text for r in results] == ["42"]


@pytest.mark.parametrize("streamed", [False, True])
def test_a_cell_that_may_have_run_says_so_when_the_gateway_stays_away(streamed: bool) -> None:
    with fake_gateway(answer(session()), hang_up) as gateway:
        s = open_session(gateway.url, reconnect=0.3).session("s-1")
        gateway.steps.extend([hang_up] * 10)
        with pytest.raises(ConnectionLost, match="may have run") as caught:
            list(s.stream("…")) if streamed else s.run("…")
    assert "s-1" in caught.value.hint


def test_what_was_lost_once_is_not_said_to_have_never_been_sent() -> None:
    tries = backoff.Backoff(0.0, repeatable=True)
    tries._failing_since = time.monotonic()
    tries._lost = ConnectionLost("It broke.")
    with pytest.raises(ConnectionLost):
        tries.pause_after(GatewayUnreachable("No answer."))


def test_a_gateway_that_says_when_to_come_back_is_listened_to_within_reason() -> None:
    tries = backoff.Backoff(30.0, repeatable=False)
    error = ShuttingDown("It stops.")
    error.retry_after = 1.0
    assert tries.pause_after(error) == 1.0
    error.retry_after = 60.0
    assert tries.pause_after(error) == backoff.LONGEST_PAUSE


def test_a_cell_that_never_left_says_that_nobody_answers() -> None:
    with fake_gateway(answer(session())) as gateway:
        s = open_session(gateway.url, reconnect=0.3).session("s-1")
    with pytest.raises(GatewayUnreachable):
        s.run("…")


def test_what_a_stopping_gateway_refused_is_asked_of_the_next_one() -> None:
    refused = error("shutting_down", 503, Retry_After="0")
    with fake_gateway(refused, answer(session(), 201)) as gateway:
        assert open_session(gateway.url).create_session().id == "s-1"
    assert gateway.requests == ["POST /v1/sessions"] * 2


def test_a_session_is_not_asked_for_twice_when_the_answer_is_lost() -> None:
    with fake_gateway(hang_up) as gateway, pytest.raises(ConnectionLost):
        open_session(gateway.url).create_session()
    assert gateway.requests == ["POST /v1/sessions"]


@pytest.mark.parametrize(("code", "kind"), [("too_many_sessions", TooManySessions)])
def test_a_refusal_says_when_to_come_back(code: str, kind: type[InterpreterError]) -> None:
    with fake_gateway(error(code, 429, Retry_After="7")) as gateway, pytest.raises(kind) as caught:
        open_session(gateway.url).create_session()
    assert caught.value.retry_after == 7.0


def test_a_gateway_that_never_stops_stopping_is_an_error() -> None:
    with (
        fake_gateway(*[error("shutting_down", 503, Retry_After="0")] * 20) as gateway,
        pytest.raises(ShuttingDown),
    ):
        open_session(gateway.url, reconnect=0.3).create_session()


def test_a_gateway_that_stays_away_ends_in_an_error_that_names_the_execution() -> None:
    with fake_gateway(answer(session()), stream(QUEUED, cut=b":")) as gateway:
        s = open_session(gateway.url, reconnect=0.3).session("s-1")
        gateway.steps.extend([hang_up] * 10)
        with pytest.raises(ConnectionLost, match="e-1") as caught:
            list(s.stream("…"))
    assert caught.value.execution_id == "e-1"


def test_a_wait_that_cannot_go_on_names_the_execution_too() -> None:
    with fake_gateway(answer(session())) as gateway:
        s = open_session(gateway.url, reconnect=0.3).session("s-1")
        gateway.steps.extend([hang_up] * 10)
        with pytest.raises(ConnectionLost, match="e-1"):
            s.execution("e-1", wait=True)


def test_a_machine_that_does_not_answer_at_all_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(backoff.time, "monotonic", lambda: clock[0])
    tries = backoff.Backoff(30.0, repeatable=True)

    def try_for_ever() -> None:
        while True:
            tries.trying()
            clock[0] += 5.0  # the time a connection may take
            clock[0] += tries.pause_after(GatewayUnreachable("No answer."))

    with pytest.raises(GatewayUnreachable):
        try_for_ever()
    assert 30.0 <= clock[0] <= 45.0


def test_a_wait_that_is_cut_now_and_then_is_never_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(backoff.time, "monotonic", lambda: clock[0])
    tries = backoff.Backoff(30.0, repeatable=True)
    for _ in range(10):
        tries.trying()
        clock[0] += 60.0
        assert tries.pause_after(ConnectionLost("A proxy cut it.")) == backoff.FIRST_PAUSE


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
    monkeypatch.setattr(cell_requests, "KEEP_ALIVE_LIMIT", 0.1)
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


def test_a_cell_that_is_waited_for_in_silence_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cell_requests, "KEEP_ALIVE_LIMIT", 0.1)
    with fake_gateway(answer(session()), silent, answer(execution(text="42"))) as gateway:
        assert open_session(gateway.url).session("s-1").run("…").text == "42"
    assert len(keys(gateway)) == 2
    assert len(set(keys(gateway))) == 1
