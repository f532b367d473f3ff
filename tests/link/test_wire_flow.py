"""Windows, acknowledgements and sizes, with the real numbers."""

from __future__ import annotations

import pytest

from interpreter.link.frames import FrameError
from interpreter.link.wire import (
    ACK_MESSAGES,
    ARRIVING,
    BUDGET,
    CONTROL,
    WINDOW,
    Closed,
    Event,
    Message,
    Opened,
    Oversized,
    Wire,
)
from tests.link.ends import MEGABYTE, Ends, held, kept


def parts(events: list[Event]) -> list[list[bytes]]:
    return [event.parts for event in events if isinstance(event, Message)]


def flood(ends: Ends, stream: int) -> int:
    """Sends on a stream until its budget is full; returns how many messages that took."""
    count = 0
    while ends.host.writable(stream):
        ends.host.send(stream, [b"%d" % count, bytes(100_000)])
        count += 1
    return count


def test_a_flood_on_one_stream_does_not_stop_another() -> None:
    ends = Ends()
    iopub, control = ends.open(channel="iopub"), ends.open(channel="control")
    flood(ends, iopub)
    ends.exchange()
    assert held(ends.gateway) <= WINDOW + MEGABYTE
    ends.at_gateway.clear()
    ends.host.send(control, [b"still here"])
    ends.gateway.send(iopub, [b"so is this"])
    ends.exchange()
    assert parts(ends.at_gateway) == [[b"still here"]]
    assert parts(ends.at_host) == [[b"so is this"]]


def test_two_floods_share_the_connection() -> None:
    ends = Ends()
    first, second = ends.open(channel="iopub"), ends.open(channel="shell")
    flood(ends, first)
    ends.host.send(second, [b"first in line"])
    ends.gateway.connect()
    ends.host.connect()
    ends.host.receive(ends.gateway.take())
    events = ends.gateway.receive(ends.host.take())
    streams = [event.stream for event in events if isinstance(event, Message)]
    assert streams.index(second) <= 3


def test_a_stream_that_was_opened_without_a_connection_is_there_before_it_is_asked_about() -> None:
    ends = Ends()
    for _ in range(2):
        ends.gateway.disconnect()
        stream = ends.gateway.open({"command": "c"})
        ends.gateway.send_json({"do": "run", "stream": stream})
        ends.reconnect()
        opened, asked = ends.at_host[-2:]
        assert isinstance(opened, Opened)
        assert isinstance(asked, Message)


def test_a_stream_goes_on_when_its_messages_are_handled() -> None:
    ends = Ends()
    stream = ends.open(channel="iopub")
    count = flood(ends, stream)
    ends.exchange()
    assert len(ends.at_gateway) < count
    ends.gateway.handled(ends.at_gateway[-1].number)
    ends.exchange(handle=True)
    assert [part[0] for part in parts(ends.at_gateway)] == [b"%d" % i for i in range(count)]


def test_what_is_kept_falls_to_nothing_when_all_is_acknowledged() -> None:
    ends = Ends()
    stream = ends.open(channel="iopub")
    flood(ends, stream)
    ends.exchange(handle=True)
    ends.gateway.acknowledge()
    ends.host.acknowledge()
    ends.exchange()
    assert kept(ends.host) == kept(ends.gateway) == 0
    assert ends.host.writable(stream)


def test_many_small_messages_are_acknowledged_without_being_asked() -> None:
    ends = Ends()
    stream = ends.open(channel="shell")
    for _ in range(10 * ACK_MESSAGES):
        ends.host.send(stream, [b"x"])
    ends.exchange(handle=True)
    assert kept(ends.host) < ACK_MESSAGES * 20


def test_a_message_larger_than_window_and_budget_passes() -> None:
    ends = Ends(max_message=64 * MEGABYTE)
    stream = ends.open(channel="iopub")
    large = bytes(WINDOW + BUDGET + MEGABYTE)
    ends.host.send(stream, [b"large", large])
    ends.gateway.send(stream, [b"also large", large])
    ends.exchange()
    assert parts(ends.at_gateway) == [[b"large", large]]
    assert parts(ends.at_host) == [[b"also large", large]]


@pytest.mark.parametrize("limit", [10_000, 300_000, MEGABYTE])
def test_an_oversized_message_arrives_as_its_first_parts_and_the_next_is_whole(limit: int) -> None:
    ends = Ends(max_message=limit)
    stream = ends.open(channel="iopub")
    body = bytes(20 * MEGABYTE)
    ends.host.send(stream, [b"<IDS|MSG>", b"header", body])
    ends.host.send(stream, [b"after it"])
    ends.exchange()
    oversized, after = ends.at_gateway
    assert isinstance(oversized, Oversized)
    assert oversized.parts == [b"<IDS|MSG>", b"header"]
    assert oversized.size > len(body)
    assert parts([after]) == [[b"after it"]]
    assert held(ends.gateway) < MEGABYTE


def test_many_large_messages_at_once_are_cut_off_before_they_fill_the_memory() -> None:
    ends = Ends(max_message=2 * MEGABYTE)
    streams = [ends.open(channel=str(i)) for i in range(12)]
    ends.host.disconnect()  # so that all of them are waiting and share the next connection
    for stream in streams:
        ends.host.send(stream, [b"large", bytes(2 * MEGABYTE - 100)])
    peak = 0
    ends.host.connect()
    ends.gateway.connect()
    ends.host.receive(ends.gateway.take())
    data = ends.host.take()
    events: list[Event] = []
    for at in range(0, len(data), 100_000):
        events += ends.gateway.receive(data[at : at + 100_000])
        peak = max(peak, ends.gateway._arriving)
    kinds = [type(event) for event in events if not hasattr(event, "facts")]
    assert peak <= (ARRIVING + 1) * 2 * MEGABYTE
    assert len(kinds) == len(streams)
    assert set(kinds) == {Message, Oversized}
    assert kinds.count(Message) >= ARRIVING - 1


def test_a_message_half_sent_when_the_connection_broke_comes_whole_and_once() -> None:
    ends = Ends()
    stream = ends.open(channel="iopub")
    body = bytes(range(256)) * 8000
    ends.host.send(stream, [body])
    ends.gateway.receive(ends.host.take()[:1_000_000])
    ends.reconnect()
    assert parts(ends.at_gateway) == [[body]]
    ends.reconnect()
    assert len(ends.at_gateway) == 1


def test_a_gateway_that_was_killed_gets_again_what_it_had_not_stored() -> None:
    ends = Ends()
    stream = ends.open(channel="iopub")
    for i in range(10):
        ends.host.send(stream, [b"%d" % i])
    ends.exchange()
    stored = ends.at_gateway[3].number
    ends.gateway.handled(stored)
    ends.reconnect()  # what was received and not stored survives that too
    ends.restart(received=stored)
    assert [part[0] for part in parts(ends.at_gateway)] == [b"%d" % i for i in range(4, 10)]
    assert ends.gateway.streams == {stream: {"channel": "iopub"}}


def test_a_gateway_that_starts_again_uses_new_stream_ids() -> None:
    ends = Ends()
    ends.open(channel="iopub")
    ends.restart(received=0)
    assert ends.open(channel="shell") == 2


def test_a_gateway_that_forgot_what_it_acknowledged_is_refused() -> None:
    ends = Ends()
    stream = ends.open(channel="iopub")
    ends.host.send(stream, [b"x"])
    ends.exchange(handle=True)
    ends.gateway.acknowledge()
    ends.exchange()
    with pytest.raises(FrameError, match="no longer knows"):
        ends.restart(received=0)


def test_what_is_handled_while_the_connection_is_made_opens_the_window_again() -> None:
    ends = Ends()
    stream = ends.open(channel="iopub")
    for _ in range(4):
        ends.host.send(stream, [bytes(3 * MEGABYTE)])
    ends.exchange()
    assert len(ends.at_gateway) == 2
    ends.gateway.connect()  # says that the window is full
    ends.host.connect()
    ends.gateway.handled(2)
    ends.exchange(handle=True)
    assert len(ends.at_gateway) == 4


def test_a_closed_stream_ends_after_everything_that_was_sent_on_it() -> None:
    ends = Ends()
    stream = ends.open(channel="iopub")
    count = flood(ends, stream)
    ends.host.close(stream, {"exit_code": 1})
    ends.exchange(handle=True)
    ends.gateway.handled(ends.at_gateway[-1].number)
    ends.exchange(handle=True)
    assert len(ends.at_gateway) == count + 1
    assert ends.at_gateway[-1] == Closed(stream, {"exit_code": 1}, count + 1)
    ends.gateway.acknowledge()
    ends.exchange()
    assert ends.host.streams == ends.gateway.streams == {}


def test_requests_to_a_stream_that_was_closed_meanwhile_do_no_harm() -> None:
    ends = Ends()
    stream = ends.open(channel="shell")
    ends.host.close(stream, {})
    ends.gateway.send(stream, [b"too late"])
    ends.exchange(handle=True)
    ends.gateway.acknowledge()
    for _ in range(2 * ACK_MESSAGES):
        ends.gateway.send(CONTROL, [b"{}"])
    ends.exchange()
    ends.host.acknowledge()
    ends.exchange()
    ends.reconnect()
    assert kept(ends.gateway) == 0


def test_the_example_in_the_docstring_is_true() -> None:
    gateway, host = Wire(opens=True), Wire(opens=False)
    gateway.connect()
    host.connect()
    host.receive(gateway.take())
    gateway.receive(host.take())
    shell = gateway.open({"kernel": "k1", "channel": "shell"})
    gateway.send(shell, [b"hello"])
    _, message = host.receive(gateway.take())
    assert message == Message(shell, [b"hello"], 2, 4 + 8 + 5)
