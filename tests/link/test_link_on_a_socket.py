"""The gateway's end on a real unix socket, with an honest host or a hostile one at the other."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interpreter.link.connection import STALLED, Incoming, Link
from interpreter.link.frames import HEADER, Kind, encode, join_parts
from interpreter.link.wire import BUDGET, CONTROL, Message, Wire
from tests.link.ends import MEGABYTE, kept
from tests.link.forged import any_frame, hello, likely_frame

SECONDS = 20.0
GOODBYE = encode(Kind.HELLO, 0, 0, b"{}")


@dataclass
class Peer:
    """A link on one end of a socket, and the other end in the test's hand."""

    link: Link
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    gone: asyncio.Future[str]
    problems: list[dict[str, Any]] = field(default_factory=list)
    """What the event loop had to say."""

    async def exchange(self, host: Wire, until: Callable[[], bool]) -> None:
        """Is an honest host until something holds."""
        async with asyncio.timeout(SECONDS):
            while not until():
                self.writer.write(host.take())
                try:
                    async with asyncio.timeout(0.01):
                        data = await self.reader.read(1 << 20)
                except TimeoutError:
                    continue
                assert data, f"the gateway hung up: {self.link._problem}"
                for event in host.receive(data):
                    if not hasattr(event, "facts"):
                        host.handled(event.number)


@asynccontextmanager
async def linked(wire: Wire | None = None) -> AsyncIterator[Peer]:
    loop = asyncio.get_running_loop()
    gone: asyncio.Future[str] = loop.create_future()
    problems: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: problems.append(context))
    ours, theirs = socket.socketpair()
    _, link = await loop.create_connection(
        lambda: Link(wire or Wire(opens=True), gone.set_result), sock=ours
    )
    reader, writer = await asyncio.open_connection(sock=theirs)
    try:
        yield Peer(link, reader, writer, gone, problems)
    finally:
        link.close()
        writer.close()
        await asyncio.wait_for(gone, SECONDS)


def data(stream: int, number: int, *parts: bytes) -> bytes:
    return encode(Kind.DATA, stream, number, join_parts(parts))


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"GET / HTTP/1.1\r\nHost: gateway\r\n\r\n", "over the limit"),
        (HEADER.pack(2**32 - 1, 4, 1, 1), "over the limit"),
        (HEADER.pack(0, 99, 1, 1), "no frame kind"),
        (data(0, 1, b"{}"), "not a HELLO"),
        (hello(version=2), "version"),
        (hello() + data(5, 1, b"x"), "no stream 5"),
        (hello() + encode(Kind.OPEN, 5, 1, b"{}"), "only the gateway opens"),
        (hello() + data(CONTROL, 1, b"not JSON"), "JSON"),
        (hello() + data(CONTROL, 1, b"[" * 100_000), "JSON"),
        (hello() + data(CONTROL, 1, b'{"notice": "\\ud800"}'), "JSON"),
        (hello() + encode(Kind.ACK, 0, 1), "never sent"),
    ],
)
async def test_a_broken_rule_ends_the_connection_and_its_owner_is_told_why(
    sent: bytes, reason: str
) -> None:
    async with linked() as peer:
        peer.writer.write(sent)
        gone = await asyncio.wait_for(peer.gone, SECONDS)
        assert gone.startswith("the sandbox broke the rules of the link")
        assert reason in gone
        assert peer.link.broken
        await asyncio.wait_for(peer.reader.read(), SECONDS)
        assert peer.reader.at_eof()
        assert not peer.problems


async def test_a_sandbox_that_hangs_up_can_be_connected_to_again() -> None:
    async with linked() as peer:
        told: list[dict[str, Any]] = []
        peer.link.on_notice = told.append
        peer.writer.write(hello() + data(CONTROL, 1, b'{"a": 1}') + GOODBYE)
        assert "hung up" in await asyncio.wait_for(peer.gone, SECONDS)
        assert told == [{"a": 1}], "what came before that was received"
        assert not peer.link.broken
        assert not peer.link.closed
        with pytest.raises(TimeoutError):  # it is not connected as long as the next has not greeted
            await asyncio.wait_for(peer.link.connected(), 0.1)


@settings(max_examples=60, derandomize=True, deadline=None)
@given(st.lists(any_frame | likely_frame | st.binary(max_size=30), max_size=20))
def test_whatever_a_sandbox_sends_the_link_ends_with_a_reason(sent: list[bytes]) -> None:
    async def attack() -> None:
        async with linked() as peer:
            peer.writer.write(hello() + b"".join(sent))
            peer.writer.write_eof()
            assert await asyncio.wait_for(peer.gone, SECONDS)
            assert not peer.problems

    asyncio.run(attack())


async def test_a_connection_that_ends_early_is_an_error_for_whoever_waits() -> None:
    async with linked() as peer:
        waiting = asyncio.create_task(peer.link.connected())
        asking = asyncio.create_task(peer.link.command("start"))
        await asyncio.sleep(0)
        peer.writer.close()
        with pytest.raises(ConnectionError, match="the link was closed"):
            await asyncio.wait_for(waiting, SECONDS)
        await asyncio.wait_for(peer.link.lost(), SECONDS)
        assert not asking.done(), "there can be another connection"
        peer.link.close()
        with pytest.raises(ConnectionError, match="the link was closed"):
            await asyncio.wait_for(asking, SECONDS)
        with pytest.raises(ConnectionError):
            await peer.link.command("start")


async def test_a_peer_that_says_nothing_costs_nothing() -> None:
    async with linked() as peer:
        before = time.process_time()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(peer.link.connected(), 0.5)
        assert time.process_time() - before < 0.1
        assert not peer.gone.done()


async def test_a_peer_that_says_one_byte_at_a_time_is_understood() -> None:
    async with linked() as peer:
        for byte in hello(facts={"pid": 7}):
            peer.writer.write(bytes([byte]))
            await asyncio.sleep(0)
        await asyncio.wait_for(peer.link.connected(), SECONDS)
        assert peer.link.facts == {"pid": 7}


async def test_a_command_is_answered() -> None:
    async with linked() as peer:
        peer.writer.write(hello())
        await peer.link.connected()
        notices: list[Any] = []
        peer.link.on_notice = notices.append
        asking = asyncio.create_task(peer.link.command("signal", signal=2))
        await asyncio.sleep(0)
        number = peer.link._next_command - 1
        answer = {"id": number, "sent": True}
        peer.writer.write(data(CONTROL, 1, b'{"id": 999}') + data(CONTROL, 2, b'{"use": 1}'))
        peer.writer.write(data(CONTROL, 3, json.dumps(answer).encode()))
        assert await asyncio.wait_for(asking, SECONDS) == answer
        assert notices == [{"use": 1}]


async def test_large_commands_wait_for_room_instead_of_breaking_the_link() -> None:
    host = Wire(opens=False)
    host.connect()
    async with linked() as peer:
        await peer.exchange(host, lambda: bool(peer.link.wire._greeted))
        text = "語" * 1_000_000
        asking = [asyncio.create_task(peer.link.command("input", text=text)) for _ in range(12)]
        await asyncio.sleep(0)
        assert peer.link.crowded
        assert peer.link.wire.kept(CONTROL) < 13_000_000, (
            "as many bytes as the text has, and few of them"
        )
        small = asyncio.create_task(peer.link.command("signal", signal=2))
        await peer.exchange(host, lambda: host.received == 13)
        assert not peer.link.broken
        for task in (*asking, small):
            task.cancel()


async def test_commands_that_are_far_longer_as_json_do_not_break_the_link() -> None:
    host = Wire(opens=False, max_message=64 * MEGABYTE)
    host.connect()
    async with linked() as peer:
        await peer.exchange(host, lambda: bool(peer.link.wire._greeted))
        text = "\1" * 4 * MEGABYTE
        large = [asyncio.create_task(peer.link.command("run", text=text)) for _ in range(2)]
        small = [asyncio.create_task(peer.link.command("signal", signal=2)) for _ in range(3)]
        await asyncio.sleep(0)
        assert peer.link.wire.kept(CONTROL) > BUDGET, "one is sent whatever it takes"
        await peer.exchange(host, lambda: host.received == 5)
        assert not peer.link.broken
        for task in (*large, *small):
            task.cancel()


async def test_a_sandbox_that_does_not_acknowledge_commands_is_given_up() -> None:
    async with linked() as peer:
        peer.writer.write(hello())
        await peer.link.connected()
        large = asyncio.create_task(peer.link.command("run", text="\1" * 4 * MEGABYTE))
        await asyncio.sleep(0)
        peer.writer.transport.pause_reading()
        with pytest.raises(ConnectionError, match="does not answer"):
            await asyncio.wait_for(peer.link.command("stop", within=0.1), SECONDS)
        assert peer.link.broken
        with pytest.raises(ConnectionError):
            await large


async def test_only_what_its_owner_has_stored_is_acknowledged() -> None:
    host = Wire(opens=False)
    host.connect()
    async with linked() as peer:
        got: list[int] = []
        peer.link.on_passed = got.append
        await peer.exchange(host, lambda: bool(peer.link.wire._greeted))
        stream = peer.link.open({"channel": "iopub"}, lambda event: got.append(event.number))
        await peer.exchange(host, lambda: stream in host.streams)
        host.send(stream, [b"an output"])
        host.send_json({"id": 1, "sent": True})
        await peer.exchange(host, lambda: got == [1, 2])
        await asyncio.sleep(0.15)  # longer than acknowledgements are gathered
        await peer.exchange(host, lambda: True)
        assert len(host._sent) == 2
        peer.link.handled(2)
        await peer.exchange(host, lambda: not host._sent)
        assert kept(host) == 0


async def test_what_an_earlier_gateway_left_waits_until_its_streams_are_taken_up() -> None:
    host, earlier = Wire(opens=False), Wire(opens=True)
    host.connect()
    earlier.connect()
    host.receive(earlier.take())
    earlier.receive(host.take())
    stream = earlier.open({"channel": "iopub"})
    host.receive(earlier.take())
    host.connect()
    sent = [b"%d" % i for i in range(100)]
    for name in sent:
        host.send(stream, [name, bytes(10_000)])
    async with linked() as peer:
        # HELLO and the messages come in one read.
        host.receive(await peer.reader.read(1 << 20))
        peer.writer.write(host.take())
        await asyncio.wait_for(peer.link.connected(), SECONDS)
        await asyncio.sleep(0.05)
        got: list[bytes] = []

        def take(event: Incoming) -> None:
            assert isinstance(event, Message)
            got.append(event.parts[0])
            peer.link.handled(event.number)

        peer.link.on_stream(stream, take)
        assert not got
        peer.link.begin()
        await peer.exchange(host, lambda: len(got) >= len(sent) and not host._sent)
        assert got == sent


async def test_a_sandbox_that_does_not_read_is_not_read_from() -> None:
    async with linked() as peer:
        peer.writer.write(hello())
        await peer.link.connected()
        transport = peer.link._transport
        assert transport is not None
        transport.set_write_buffer_limits(high=2000)
        peer.writer.transport.pause_reading()
        number = 0
        everything = asyncio.Event()

        def passed(received: int) -> None:
            peer.link.handled(received)
            if received == number:
                everything.set()

        async def until(done: Callable[[], bool]) -> None:
            nonlocal number
            async with asyncio.timeout(SECONDS):
                while not done():
                    for _ in range(64):
                        number += 1
                        peer.writer.write(data(CONTROL, number, b"{}"))
                    await asyncio.sleep(0)

        await until(lambda: not transport.is_reading())
        assert transport.get_write_buffer_size() < 10_000
        peer.link.on_passed = passed
        received = peer.link.wire.received
        await until(lambda: number > received + 10_000)
        assert peer.link.wire.received == received
        peer.writer.transport.resume_reading()
        await asyncio.wait_for(everything.wait(), SECONDS)


async def test_a_sandbox_that_never_acknowledges_is_given_up() -> None:
    async with linked() as peer:
        peer.writer.write(hello())
        await peer.link.connected()
        stream = peer.link.open({"channel": "shell"}, lambda event: None)
        for _ in range(STALLED // MEGABYTE + 1):
            peer.link.send(stream, [bytes(MEGABYTE)])
        assert "does not acknowledge" in await asyncio.wait_for(peer.gone, SECONDS)


async def test_a_message_that_its_handler_fails_at_ends_the_link_with_a_reason() -> None:
    async with linked() as peer:
        peer.writer.write(hello())
        await peer.link.connected()

        def fail(event: Incoming) -> None:
            raise KeyError("no such thing")

        stream = peer.link.open({"channel": "shell"}, fail)
        peer.writer.write(data(stream, 1, b"x"))
        gone = await asyncio.wait_for(peer.gone, SECONDS)
        assert "KeyError('no such thing')" in gone
        assert len(peer.problems) == 1


async def test_a_host_that_does_not_answer_though_it_could_is_given_up() -> None:
    async with linked() as peer:
        peer.writer.write(hello())
        await peer.link.connected()
        with pytest.raises(ConnectionError, match="does not answer"):
            await peer.link.command("signal", within=0.1)
        assert peer.link.broken
        assert "does not answer" in await asyncio.wait_for(peer.gone, SECONDS)


async def test_time_in_which_a_host_cannot_be_heard_does_not_count() -> None:
    host = Wire(opens=False)
    host.connect()
    async with linked() as peer:
        await peer.exchange(host, lambda: host.has_output or peer.link.facts is not None)
        await asyncio.sleep(0)
        peer.link.frozen = True
        asked = asyncio.create_task(peer.link.command("processes", within=0.05))
        done, _ = await asyncio.wait({asked}, timeout=0.4)
        assert not done, "it is frozen"
        # What it sends is not stored, as when the disk is full: it may be waiting for that.
        peer.link.on_passed = lambda number: None
        host.send_json({"notice": 1})
        await peer.exchange(host, lambda: peer.link.wire.received == 1)
        peer.link.frozen = False
        done, _ = await asyncio.wait({asked}, timeout=0.4)
        assert not done, "it is not read from"
        peer.link.handled(1)
        with pytest.raises(ConnectionError, match="does not answer"):
            await asked


async def test_a_host_that_hangs_up_again_and_again_is_given_up() -> None:
    hung_up = asyncio.Event()
    link = Link(Wire(opens=True), lambda reason: hung_up.set())
    asked: asyncio.Task[dict[str, Any]] | None = None
    async with asyncio.timeout(SECONDS):
        while asked is None or not asked.done():
            ours, theirs = socket.socketpair()
            with theirs:
                theirs.send(hello() + GOODBYE)
                hung_up.clear()
                await asyncio.get_running_loop().create_connection(lambda: link, sock=ours)
                await hung_up.wait()
            asked = asked or asyncio.create_task(link.command("processes", within=0.1))
            await asyncio.sleep(0.001)
    with pytest.raises(ConnectionError, match="does not answer"):
        asked.result()
