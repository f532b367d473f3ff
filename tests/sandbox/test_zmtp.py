"""The kernel host's own ZMTP, against libzmq and against bytes that are not ZMTP."""

from __future__ import annotations

import os
import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq
from hypothesis import given
from hypothesis import strategies as st

from interpreter.sandbox.channels import Channel
from interpreter.sandbox.zmtp import COMMAND, GREETING, SUBSCRIBE_TO_ALL, Peer, ProtocolError, encode

READY = bytes((COMMAND, 6)) + b"\x05READY"


@pytest.fixture
def context() -> Iterator[zmq.Context[zmq.Socket[bytes]]]:
    with zmq.Context() as context:
        yield context


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="z-") as folder:
        yield Path(folder)


def bound(context: zmq.Context[zmq.Socket[bytes]], kind: int, path: Path) -> zmq.Socket[bytes]:
    sock = context.socket(kind)
    sock.linger = 0
    sock.bind(f"ipc://{path}")
    return sock


def connected(path: Path, peer: Peer) -> Channel:
    channel = Channel(socket.AF_UNIX, str(path), peer)
    assert channel.connect()
    return channel


def messages(channel: Channel, count: int) -> list[list[bytes]]:
    """That many messages, or what came within ten seconds."""
    found: list[list[bytes]] = []
    deadline = time.monotonic() + 10
    while len(found) < count and not channel.ended and time.monotonic() < deadline:
        found += channel.read() or []
    return found


def test_a_dealer_and_a_router_of_libzmq_understand_each_other(context, folder) -> None:
    router = bound(context, zmq.ROUTER, folder / "s")
    channel = connected(folder / "s", Peer(b"DEALER", b"host"))
    sizes = [0, 1, 255, 256, 300_000]
    channel.send([b"x" * size for size in sizes])
    assert channel.read() is None or not channel.ended
    waiting = time.monotonic() + 10
    while not router.poll(1) and time.monotonic() < waiting:
        channel.read()
        channel.flush()
    assert [len(part) for part in router.recv_multipart()] == [4, *sizes]
    router.send_multipart([b"host", b"", b"y" * 1_000_000])
    router.send_multipart([b"host", b"second"])
    assert messages(channel, 2) == [[b"", b"y" * 1_000_000], [b"second"]]
    channel.close()
    router.close()


def test_a_subscriber_gets_everything_libzmq_publishes_up_to_its_end(context, folder) -> None:
    publisher = bound(context, zmq.XPUB, folder / "s")
    channel = connected(folder / "s", Peer(b"SUB"))
    channel.send([SUBSCRIBE_TO_ALL])
    while not publisher.poll(1):
        channel.read()
    assert publisher.recv() == SUBSCRIBE_TO_ALL
    publisher.linger = 10_000
    for number in range(100):
        publisher.send_multipart([b"topic", str(number).encode()])
    assert messages(channel, 100) == [[b"topic", str(number).encode()] for number in range(100)]
    publisher.close()
    assert messages(channel, 1) == []
    assert channel.ended
    channel.close()


def test_nobody_listens_yet(folder) -> None:
    channel = Channel(socket.AF_UNIX, str(folder / "missing"), Peer(b"SUB"))
    assert not channel.connect()
    assert channel.read() is None
    assert not channel.ended


@given(
    st.lists(st.lists(st.binary(max_size=700), min_size=1, max_size=5), max_size=8),
    st.lists(st.integers(1, 400), max_size=40),
)
def test_messages_arrive_whole_however_the_bytes_are_cut(sent, cuts) -> None:
    data = GREETING + READY + b"".join(encode(parts) for parts in sent)
    peer, found = Peer(b"SUB"), []
    for size in [*cuts, len(data)]:
        piece, data = data[:size], data[size:]
        found += peer.receive(piece)
    assert found == sent
    assert peer.ready
    assert not peer.halfway


@given(st.binary(min_size=64, max_size=300).filter(lambda data: data[0] != 0xFF))
def test_bytes_that_are_not_zmtp_end_in_an_error(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        Peer(b"DEALER").receive(data)


def test_a_peer_that_is_not_zmtp_ends_its_channel(folder) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.fsencode(folder / "s"))
        listener.listen()
        channel = connected(folder / "s", Peer(b"DEALER", b"host"))
        other, _ = listener.accept()
        with other:
            other.sendall(b"HTTP/1.1 200 OK\r\n" * 10)
            assert messages(channel, 1) == []
            assert channel.ended
    channel.close()
