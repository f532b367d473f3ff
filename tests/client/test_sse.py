"""The event parser: any split gives the same events, and no event is given out in part."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from interpreter.client.sse import EventParser
from interpreter.models import Event, EventType

from .fake_gateway import event

STREAM = b"".join(
    [
        event(1, "status", status="running"),
        b": keep-alive\n\n",
        event(2, "stream", name="stdout", text="räksmörgås\n\n🦐"),
        event(3, "display", None, output_type="display_data", data={"text/plain": "x"}),
    ]
)


def parse(*chunks: bytes) -> list[Event]:
    parser = EventParser()
    return [e for chunk in chunks for e in parser.feed(chunk)]


@given(st.lists(st.integers(0, len(STREAM))))
def test_any_split_gives_the_same_events(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(STREAM)]
    pieces = [STREAM[a:b] for a, b in itertools.pairwise(places)]
    assert parse(*pieces) == parse(STREAM)


def test_events_have_number_type_execution_and_data() -> None:
    first, second, third = parse(STREAM)
    assert (first.seq, first.type, first.execution_id) == (1, EventType.status, "e-1")
    assert second.data == {"name": "stdout", "text": "räksmörgås\n\n🦐"}
    assert third.execution_id is None


def test_an_event_that_was_cut_is_not_given_out() -> None:
    whole = event(1, "stream", name="stdout", text="a")
    assert all(parse(whole[:n]) == [] for n in range(len(whole)))


def test_an_event_of_a_newer_gateway_is_passed_over() -> None:
    assert [e.seq for e in parse(event(1, "newer"), event(2, "clear", wait=False))] == [2]


def test_carriage_returns_do_no_harm() -> None:
    assert parse(STREAM.replace(b"\n", b"\r\n")) == parse(STREAM)


def test_data_of_several_lines_is_joined() -> None:
    [found] = parse(b'id: 5\nevent: clear\ndata: {"wait":\ndata: true}\n\n')
    assert found.data == {"wait": True}
