"""A peer that sends whatever it likes causes FrameError and nothing else, and fills no memory."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interpreter.link.frames import MAX_PAYLOAD, FrameError, Kind, encode, join_parts
from interpreter.link.wire import (
    ARRIVING,
    CONTROL,
    FRAME_COST,
    MAX_STREAMS,
    PREFIX_KEPT,
    WINDOW,
    Closed,
    Connected,
    Event,
    Opened,
    Wire,
)
from tests.link.ends import MEGABYTE, Ends, held, kept
from tests.link.forged import HELLO, SHELL, any_frame, hello, likely_frame

LARGEST = 2 * MEGABYTE

quick = settings(max_examples=150, derandomize=True, deadline=None)


def attacked() -> Wire:
    """A gateway's end that has opened one stream, was sent nothing yet and waits for anything."""
    ends = Ends(max_message=LARGEST)
    assert ends.open(channel="shell") == SHELL
    ends.gateway.send(SHELL, [b"a request"])
    ends.exchange()
    return ends.gateway


def until_refused(wire: Wire, body: bytes) -> list[Event]:
    """Sends the same message until that is against the rules; what arrived is never handled."""
    events: list[Event] = []
    while True:
        try:
            events += wire.receive(encode(Kind.DATA, SHELL, wire.received + 1, body))
        except FrameError:
            return events


@contextmanager
def memory_below(limit: int) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < limit


@quick
@given(st.lists(any_frame | likely_frame, max_size=40), st.booleans())
def test_any_frames_at_all_end_in_a_frame_error_or_in_order(sent: list[bytes], gateway: bool) -> None:
    if gateway:
        wire = attacked()
    else:
        wire = Wire(opens=False, max_message=LARGEST)
        wire.connect()
        wire.receive(hello())
    count = wire.received
    try:
        for frame in sent:
            for event in wire.receive(frame):
                assert not isinstance(event, Connected)
                count += 1
                assert event.number == count
                if gateway:
                    assert event.stream in (CONTROL, SHELL)
                    assert not isinstance(event, Opened)
    except FrameError:
        pass
    assert held(wire) <= len(wire._streams) * (WINDOW + LARGEST + MAX_PAYLOAD)


json_values = st.recursive(
    st.sampled_from([None, True, -1, 0, 1, 7, 2**63, 2**70, 0.5, float("nan"), "", "x", "\ud800"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.just("a"), inner),
    max_leaves=4,
)
nonsense = st.dictionaries(
    st.sampled_from(list(HELLO)),
    json_values | st.dictionaries(st.sampled_from(["0", "1", "-1", "x", "9" * 30, "²"]), json_values),
)


@quick
@given(nonsense, st.booleans())
def test_a_hello_of_nonsense_is_understood_or_refused(changes: dict[str, Any], opens: bool) -> None:
    wire = Wire(opens=opens)
    wire.connect()
    try:
        (event,) = wire.receive(hello(**changes))
    except FrameError:
        return
    assert isinstance(event, Connected)
    assert len(event.streams) <= MAX_STREAMS


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xff\xfe",
        b"[" * 200_000,
        b'{"received":' + b"9" * 100_000 + b"}",
        b"[]",
        b"{}",
        json.dumps({**HELLO, "facts": {"name": "\ud800"}}).encode(),
        json.dumps(HELLO).encode("utf-16"),
    ],
    ids=["empty", "binary", "deep", "huge number", "list", "nothing said", "half a pair", "UTF-16"],
)
def test_a_hello_that_is_not_one_is_refused(payload: bytes) -> None:
    wire = Wire(opens=True)
    wire.connect()
    with pytest.raises(FrameError):
        wire.receive(encode(Kind.HELLO, 0, 0, payload))


@pytest.mark.parametrize(
    ("frame", "problem"),
    [
        (encode(Kind.DATA, 7, 1, join_parts([])), "no stream 7"),
        (encode(Kind.PART, 7, 0, b"x"), "no stream 7"),
        (encode(Kind.CLOSE, 7, 1, b"{}"), "no stream 7"),
        (encode(Kind.OPEN, 7, 1, b"{}"), "only the gateway opens"),
        (encode(Kind.OPEN, SHELL, 1, b"{}"), "only the gateway opens"),
        (encode(Kind.DATA, SHELL, 2, join_parts([])), "came after message 0"),
        (encode(Kind.DATA, SHELL, 0, join_parts([])), "came after message 0"),
        (encode(Kind.DATA, SHELL, 2**64 - 1, join_parts([])), "came after message 0"),
        (encode(Kind.DATA, SHELL, 1, b""), "too short"),
        (encode(Kind.PART, SHELL, 0, b""), "an empty PART"),
        (encode(Kind.CREDIT, SHELL, WINDOW), "more credit"),
        (encode(Kind.CREDIT, SHELL, 2**64 - 1), "more credit"),
        (encode(Kind.ACK, 0, 3), "never sent"),
        (encode(Kind.ACK, 0, 2**64 - 1), "never sent"),
        (encode(Kind.CLOSE, CONTROL, 1, b"{}"), "only the kernel host closes"),
        (encode(Kind.CLOSE, SHELL, 1, b"[]"), "JSON object"),
        (hello(), "a second HELLO"),
    ],
)
def test_a_broken_rule_is_named(frame: bytes, problem: str) -> None:
    with pytest.raises(FrameError, match=problem):
        attacked().receive(frame)


def test_a_close_with_more_to_say_than_a_frame_holds_is_refused_unread() -> None:
    gateway = attacked()
    gateway.receive(encode(Kind.PART, SHELL, 0, b'{"a": [' + b"[]," * 80_000))
    with pytest.raises(FrameError, match="over the limit"):
        gateway.receive(encode(Kind.CLOSE, SHELL, 1, b"[]," * 80_000 + b"0]}"))


def test_nothing_comes_after_a_close() -> None:
    gateway = attacked()
    (closed,) = gateway.receive(encode(Kind.CLOSE, SHELL, 1, b"{}"))
    assert isinstance(closed, Closed)
    with pytest.raises(FrameError, match="is closed"):
        gateway.receive(encode(Kind.PART, SHELL, 0, b"x"))
    gateway.handled(1)
    with pytest.raises(FrameError, match="no stream"):
        gateway.receive(encode(Kind.PART, SHELL, 0, b"x"))


def test_nothing_comes_before_hello() -> None:
    for kind in set(Kind) - {Kind.HELLO}:
        wire = Wire(opens=True)
        wire.connect()
        with pytest.raises(FrameError, match="not a HELLO"):
            wire.receive(encode(kind, 0, 1, b"{}"))


def test_a_peer_that_claims_to_know_the_future_or_to_have_forgotten_is_refused() -> None:
    ends = Ends()
    ends.open(channel="shell")
    ends.host.acknowledge()
    ends.exchange()
    for received, problem in ((2, "never sent"), (0, "no longer knows")):
        ends.gateway.connect()
        with pytest.raises(FrameError, match=problem):
            ends.gateway.receive(hello(received=received))


def test_messages_that_are_never_handled_stop_at_the_window() -> None:
    gateway = attacked()
    assert len(until_refused(gateway, join_parts([bytes(100_000)]))) == WINDOW // 100_000
    assert held(gateway) <= WINDOW


def test_tiny_messages_that_are_never_handled_stop_long_before_they_are_many() -> None:
    assert len(until_refused(attacked(), join_parts([]))) <= WINDOW // FRAME_COST


def test_an_endless_message_is_cut_off_and_never_held() -> None:
    gateway = attacked()
    part = encode(Kind.PART, SHELL, 0, bytes(MAX_PAYLOAD))
    with memory_below(LARGEST + 2 * MEGABYTE):
        for _ in range(400):
            assert gateway.receive(part) == []


def test_tiny_parts_take_no_more_memory_than_their_bytes() -> None:
    gateway = attacked()
    parts = encode(Kind.PART, SHELL, 0, b"xy") * 100
    with memory_below(200_000):
        for _ in range(200):
            gateway.receive(parts)


def test_streams_that_a_sandbox_makes_up_for_a_new_gateway_do_not_multiply_its_memory() -> None:
    gateway = Wire(opens=True, max_message=LARGEST)
    gateway.connect()
    gateway.receive(hello(streams={str(i): {} for i in range(1, MAX_STREAMS)}))
    with memory_below((ARRIVING + 1) * LARGEST + 100 * 2 * PREFIX_KEPT):
        for stream in range(1, 101):
            for _ in range(LARGEST // MAX_PAYLOAD - 1):
                gateway.receive(encode(Kind.PART, stream, 0, bytes(MAX_PAYLOAD)))


def test_more_streams_than_there_can_be_are_refused() -> None:
    gateway = Wire(opens=True)
    gateway.connect()
    with pytest.raises(FrameError):
        gateway.receive(hello(streams={str(i): {} for i in range(MAX_STREAMS + 1)}))


def test_a_peer_that_never_acknowledges_makes_the_gateway_keep_no_more_than_the_budget() -> None:
    gateway = attacked()
    while gateway.writable(SHELL):
        gateway.send(SHELL, [bytes(100_000)])
    assert kept(gateway) <= 17 * MEGABYTE
