"""Exactly once, in order: two ends against a model, with everything that can go wrong between them.

Hypothesis sends on several streams both ways, carries any number of bytes at a time, breaks the
connection at any byte, kills the gateway before, between and after storing and acknowledging, and
closes streams. A gateway that starts again knows only what was stored. Windows and frames are
small here, so that all of their limits are met often.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from functools import partial
from unittest.mock import patch

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from interpreter.link import wire
from interpreter.link.wire import (
    CONTROL,
    Closed,
    Connected,
    Event,
    Message,
    Opened,
    Oversized,
    Wire,
)
from tests.link.ends import kept

WINDOW, FRAME_COST = 4096, 16
SMALL = {
    "WINDOW": WINDOW,
    "FRAME_COST": FRAME_COST,
    "MAX_PAYLOAD": 700,
    "PREFIX_KEPT": 200,
    "ACK_BYTES": 1500,
    "ACK_MESSAGES": 5,
    "_Stream": partial(wire._Stream, credit=WINDOW, allowance=WINDOW),
}
BUDGET = 3 * WINDOW
LARGEST = 2500
"""What the gateway of the model takes as one message."""

sizes = st.sampled_from([0, 30, 300, 670, 900, 2000, 2600, 6000, 20_000])
few = st.integers(1, 8)
some_bytes = st.sampled_from([1, 7, 18, 100, 1000, 3000]) | st.just(1 << 30)


def new_gateway(stored: int) -> Wire:
    return Wire(opens=True, received=stored, max_message=LARGEST, budget=BUDGET)


@dataclass
class Line:
    """What the host has sent on a stream and the gateway has not stored yet, oldest first."""

    unstored: deque[tuple[bytes, int] | None] = field(default_factory=deque)
    """The first part and the size of a message; None is the stream's end."""
    delivered: int = 0
    """How many of them this gateway has got."""
    closed: bool = False


class TwoEnds(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.small = patch.multiple(wire, **SMALL)
        self.small.start()
        self.host = Wire(opens=False, budget=BUDGET)
        self.gateway = new_gateway(0)
        self.to_host, self.to_gateway = bytearray(), bytearray()
        self.connected = False
        self.host_noticed = True
        self.lines: dict[int, Line] = {CONTROL: Line()}
        """The host's view of its streams."""
        self.requests: dict[int, deque[bytes]] = {CONTROL: deque()}
        """What this gateway sent on each stream and the host has not got yet."""
        self.ended: set[int] = set()
        """Streams whose end this gateway has got: it sends no more on them."""
        self.got: deque[tuple[int, int]] = deque()
        """Number and stream of what this gateway got and has not stored."""
        self.stored = 0
        self.count = 0
        self.opened: set[int] = set()
        """Streams that the host has heard of."""

    @initialize()
    def first_connection(self) -> None:
        self.connect()
        self.carry_everything()
        for _ in range(3):
            self.open_a_stream()
        self.carry_everything()

    # -- what can happen

    @rule()
    def connect(self) -> None:
        """The gateway connects, perhaps while the host still believes in the old connection."""
        self.to_host.clear()
        self.to_gateway.clear()
        self.host.connect()
        self.gateway.connect()
        self.connected = self.host_noticed = True
        self.gather()

    @precondition(lambda self: self.connected)
    @rule(down=some_bytes, up=some_bytes, noticed=st.booleans())
    def disconnect(self, down: int, up: int, noticed: bool) -> None:
        self.carry(down, up)
        self.to_host.clear()
        self.to_gateway.clear()
        self.gateway.disconnect()
        if noticed:
            self.host.disconnect()
        self.connected = False

    @rule(down=some_bytes, stored=few, noticed=st.booleans())
    def kill_the_gateway(self, down: int, stored: int, noticed: bool) -> None:
        """With kill -9, after it stored something and before it acknowledged that."""
        self.store(stored, acknowledge=False)
        if self.connected:
            self.disconnect(down, 0, noticed)
        self.gateway = new_gateway(self.stored)
        self.got.clear()
        self.ended.clear()
        for line in self.lines.values():
            line.delivered = 0
        self.requests = {stream: deque() for stream in self.lines}

    @precondition(lambda self: not self.gateway._fresh and len(self.gateway.streams) < 6)
    @rule()
    def open_a_stream(self) -> None:
        """Also while there is no connection; and something is asked about it at once."""
        stream = self.gateway.open({"channel": "any"})
        assert stream not in self.lines
        self.requests[stream] = deque()
        self.opened.discard(stream)
        about = b"about %d" % stream
        self.gateway.send(CONTROL, [about])
        self.requests[CONTROL].append(about)
        self.gather()

    @rule(data=st.data(), size=sizes, times=few)
    def host_sends(self, data: st.DataObject, size: int, times: int) -> None:
        stream = data.draw(st.sampled_from([s for s, line in self.lines.items() if not line.closed]))
        for _ in range(times):
            if self.host.writable(stream):
                name = self.name()
                self.host.send(stream, [name, bytes(size)])
                self.lines[stream].unstored.append((name, size))

    @rule(data=st.data(), size=sizes, times=few)
    def gateway_sends(self, data: st.DataObject, size: int, times: int) -> None:
        open_here = {CONTROL, *self.gateway.streams} - self.ended
        stream = data.draw(st.sampled_from(sorted(open_here)))
        for _ in range(times):
            if self.gateway.writable(stream):
                name = self.name()
                self.gateway.send(stream, [name, bytes(size)])
                self.requests[stream].append(name)

    @precondition(lambda self: len(self.lines) > 1)
    @rule(data=st.data())
    def host_closes_a_stream(self, data: st.DataObject) -> None:
        stream = data.draw(st.sampled_from([s for s in self.lines if s != CONTROL]))
        if not self.lines[stream].closed:
            self.host.close(stream, {"exit_code": stream})
            self.lines[stream].unstored.append(None)
            self.lines[stream].closed = True

    @rule(down=some_bytes, up=some_bytes)
    def carry(self, down: int, up: int) -> None:
        """So many bytes arrive, in one read each."""
        self.gather()
        if down and self.to_host:
            chunk = bytes(self.to_host[:down])
            del self.to_host[:down]
            for event in self.host.receive(chunk):
                self.at_host(event)
        if up and self.to_gateway:
            chunk = bytes(self.to_gateway[:up])
            del self.to_gateway[:up]
            for event in self.gateway.receive(chunk):
                self.at_gateway(event)
        self.gather()

    @rule()
    def carry_everything(self) -> None:
        self.gather()
        while self.to_host or self.to_gateway:
            self.carry(1 << 30, 1 << 30)

    @precondition(lambda self: self.got)
    @rule(count=few, acknowledge=st.booleans())
    def store_and_handle(self, count: int, acknowledge: bool) -> None:
        self.store(count, acknowledge=True)
        if acknowledge:
            self.gateway.acknowledge()
        self.gather()

    # -- what must hold

    @invariant()
    def a_stream_holds_no_more_than_a_window_and_a_message(self) -> None:
        for stream in self.gateway._streams.values():
            assert len(stream.arriving) <= LARGEST
            assert stream.unhandled + len(stream.arriving) <= WINDOW + LARGEST + FRAME_COST
        for stream in (*self.gateway._streams.values(), *self.host._streams.values()):
            assert -FRAME_COST <= stream.credit <= WINDOW
            assert -FRAME_COST <= stream.allowance <= WINDOW
        for end in (self.gateway, self.host):
            assert end._arriving == sum(len(stream.arriving) for stream in end._streams.values())

    def teardown(self) -> None:
        try:
            self.come_to_rest()
        finally:
            self.small.stop()

    def come_to_rest(self) -> None:
        """Whatever happened: on a connection that holds, everything arrives and nothing is kept."""
        self.connect()
        for _ in range(1000):
            self.carry_everything()
            self.store(1 << 30, acknowledge=True)
            self.host.acknowledge()
            self.gateway.acknowledge()
            self.gather()
            if not self.to_host and not self.to_gateway:
                break
        else:
            raise AssertionError("the link does not come to rest")
        assert all(not line.unstored for line in self.lines.values())
        assert all(not self.requests[stream] for stream in (CONTROL, *self.gateway.streams))
        assert kept(self.host) == kept(self.gateway) == 0
        assert not self.host._sent
        assert not self.gateway._sent
        assert set(self.lines) == {CONTROL, *self.host.streams} == {CONTROL, *self.gateway.streams}

    # -- inside

    def name(self) -> bytes:
        self.count += 1
        return b"message %d" % self.count

    def gather(self) -> None:
        down, up = self.gateway.take(), self.host.take()
        if self.connected:
            self.to_host += down
            self.to_gateway += up

    def at_host(self, event: Event) -> None:
        if isinstance(event, Connected):
            return
        if isinstance(event, Opened):
            assert event.stream not in self.lines
            self.lines[event.stream] = Line()
            self.opened.add(event.stream)
        else:
            assert isinstance(event, Message)
            assert event.parts[0] == self.requests[event.stream].popleft()
            about, _, stream = event.parts[0].partition(b" ")
            assert about != b"about" or int(stream) in self.opened, "the host does not know of it yet"
        self.host.handled(event.number)

    def at_gateway(self, event: Event) -> None:
        if isinstance(event, Connected):
            assert set(event.streams) >= set(self.lines) - {CONTROL} - self.ended
            return
        line = self.lines[event.stream]
        expected = line.unstored[line.delivered]
        line.delivered += 1
        self.got.append((event.number, event.stream))
        if expected is None:
            assert isinstance(event, Closed)
            assert event.info == {"exit_code": event.stream}
            self.ended.add(event.stream)
            return
        name, size = expected
        body = 4 + 2 * 8 + len(name) + size
        assert isinstance(event, Oversized if body > LARGEST else Message)
        assert event.size == body
        assert event.parts == ([name] if body > LARGEST else [name, bytes(size)])

    def store(self, count: int, *, acknowledge: bool) -> None:
        for _ in range(min(count, len(self.got))):
            self.stored, stream = self.got.popleft()
            line = self.lines[stream]
            line.delivered -= 1
            if line.unstored.popleft() is None:
                del self.lines[stream]
            if acknowledge:
                self.gateway.handled(self.stored)


def test_every_message_is_delivered_once_and_in_order_whatever_breaks() -> None:
    numbers = settings(max_examples=200, stateful_step_count=50, derandomize=True, deadline=None)
    run_state_machine_as_test(TwoEnds, settings=numbers)
