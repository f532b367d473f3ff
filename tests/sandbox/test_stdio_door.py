"""A link over stdin and stdout: where a connection begins, and how it ends without an end."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from interpreter.link.wire import Connected, Event, HungUp, Message, Wire
from interpreter.sandbox.doors import NONCE, StdioDoor
from interpreter.sandbox.reactor import Reactor
from interpreter.sandbox.uplink import Uplink

KEY = bytes(range(100, 132))


class Inside:
    """The kernel host's end on this process's own stdin and stdout, which are pipes meanwhile."""

    def __init__(self, stdin: int, stdout: int) -> None:
        self.stdin, self.stdout = stdin, stdout
        self.reactor = Reactor()
        self.got: list[Event] = []
        self.uplink = Uplink(StdioDoor(KEY), self.reactor, self.got.append)

    def turn(self, sent: bytes) -> bytes:
        """What comes out after something went in."""
        os.write(self.stdin, sent)
        self.reactor.turn(1)
        self.uplink.flush()
        try:
            return os.read(self.stdout, 1 << 20)
        except BlockingIOError:
            return b""


@contextmanager
def sandbox() -> Iterator[Inside]:
    kept = [os.dup(0), os.dup(1)]
    (stdin, feed), (read, stdout) = os.pipe(), os.pipe()
    os.dup2(stdin, 0)
    os.dup2(stdout, 1)
    os.set_blocking(read, False)
    try:
        yield Inside(feed, read)
    finally:
        os.dup2(kept[0], 0)
        os.dup2(kept[1], 1)
        for fd in (stdin, feed, read, stdout, *kept):
            os.close(fd)


def connect(inside: Inside, wire: Wire, nonce: bytes) -> list[Any]:
    wire.connect()
    said = inside.turn(KEY + nonce + wire.take())
    _, opening, rest = said.partition(KEY + nonce)
    assert opening, "the host sends back what began the connection"
    return wire.receive(rest)


def test_an_answer_to_a_connection_that_broke_is_told_from_that_to_the_next() -> None:
    with sandbox() as inside:
        wire = Wire(opens=True)
        first, second = b"1" * NONCE, b"2" * NONCE
        wire.connect()
        late = inside.turn(KEY + first + wire.take())
        assert (KEY + first) in late
        assert (KEY + second) not in late
        assert isinstance(connect(inside, wire, second)[0], Connected)


def test_what_begins_a_connection_can_come_byte_by_byte() -> None:
    with sandbox() as inside:
        wire = Wire(opens=True)
        wire.connect()
        whole = b"the rest of something" + KEY + b"3" * NONCE + wire.take()
        said = b"".join(inside.turn(bytes([byte])) for byte in whole)
        assert isinstance(wire.receive(said.partition(KEY + b"3" * NONCE)[2])[0], Connected)


def test_late_bytes_of_an_earlier_connection_end_the_new_one_and_the_gateway_is_told() -> None:
    with sandbox() as inside:
        wire = Wire(opens=True)
        connect(inside, wire, b"4" * NONCE)
        stream = wire.open({"kernel": "k1", "channel": "shell"})
        wire.send(stream, [b"first"])
        said = inside.turn(b"\xff" * 40 + wire.take())
        with pytest.raises(HungUp):
            wire.receive(said)
        assert inside.turn(b"more of it") == b""
        connect(inside, wire, b"5" * NONCE)
        inside.turn(wire.take())
        assert [e.parts for e in inside.got if isinstance(e, Message)] == [[b"first"]], "once"
