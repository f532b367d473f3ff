"""One end of a link: what it remembers between the bytes.

The gateway holds one `Wire`, the kernel host in the sandbox another. A wire does no I/O: bytes
that arrived go into `receive`, bytes to send come out of `take`. It outlives connections: after
each reconnect both ends say HELLO with the number of the last message they received, and what
the other end has not received is sent again. A message is thus delivered once, in the order of
its stream, however often the connection breaks. A message is kept until it is acknowledged,
which the receiver does when it has stored what the message carried (`handled`); a receiver that
was killed before that gets the message again.

Every stream has a window of its own: a sender stops when the window is used up, so that a
flood on one stream neither delays another nor fills the receiver's memory.

    gateway = Wire(opens=True)                  host = Wire(opens=False)
    gateway.connect(); host.connect()
    host.receive(gateway.take()); gateway.receive(host.take())      # HELLO both ways
    shell = gateway.open({"kernel": "k1", "channel": "shell"})
    gateway.send(shell, [b"hello"])
    host.receive(gateway.take())   # → [Opened(shell, …), Message(shell, [b"hello"], 2)]
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from interpreter.link.frames import (
    MAX_PAYLOAD,
    Frame,
    FrameError,
    FrameReader,
    Kind,
    encode,
    join_parts,
    split_parts,
)

VERSION = 1
CONTROL = 0
"""The stream that is always open: commands to the kernel host, and its answers."""
WINDOW = 4 * 1024 * 1024
FRAME_COST = 256
"""What a frame takes from a window besides its payload, so that tiny ones are not free."""
BUDGET = 16 * 1024 * 1024
MAX_STREAMS = 1024
PREFIX_KEPT = 64 * 1024
"""How much of an oversized message is kept, to tell what it was."""
ARRIVING = 4
"""How many messages of the largest size may be arriving at once; the next is cut off."""
ACK_BYTES = 512 * 1024
ACK_MESSAGES = 64


GOODBYE = b"{}"


class HungUp(FrameError):
    """A HELLO in the middle that says nothing: the other end waits for another connection.

    Said where a connection cannot be ended otherwise: on a container's stdout.
    """


class Connected(NamedTuple):
    """The other end said HELLO; `facts` is what it said of itself."""

    facts: dict[str, Any]
    streams: dict[int, dict[str, Any]]


class Opened(NamedTuple):
    """The gateway opened a stream."""

    stream: int
    info: dict[str, Any]
    number: int


class Message(NamedTuple):
    """A whole message. Its receiver calls `handled(number)` in order of the numbers."""

    stream: int
    parts: list[bytes]
    number: int
    size: int


class Oversized(NamedTuple):
    """A message over the limit: its size, and the first parts as far as they were kept."""

    stream: int
    parts: list[bytes]
    number: int
    size: int


class Closed(NamedTuple):
    """The other end closed a stream; nothing more comes on it."""

    stream: int
    info: dict[str, Any]
    number: int


Event = Connected | Opened | Message | Oversized | Closed


@dataclass(slots=True)
class _Outgoing:
    """A message on its way: `at` is how much of it this connection has carried."""

    kind: Kind
    body: bytes
    at: int = 0


@dataclass(slots=True)
class _Stream:
    info: dict[str, Any]
    queue: deque[_Outgoing] = field(default_factory=deque)
    kept_bytes: int = 0
    """Bytes queued or not yet acknowledged."""
    credit: int = WINDOW
    """Bytes the other end still takes."""
    allowance: int = WINDOW
    """Bytes the other end may still send."""
    unhandled: int = 0
    """What whole messages that were received and not handled take from the window."""
    arriving: bytearray = field(default_factory=bytearray)
    """The message of which only PARTs are here yet."""
    size: int = 0
    """Bytes of that message; more than `arriving` holds when it was cut off."""
    cut: bool = False
    closed: bool = False


class Wire:
    """One end of a link. `opens` is true for the gateway, which alone opens streams."""

    def __init__(
        self,
        *,
        opens: bool,
        received: int = 0,
        max_message: int = 32 * 1024 * 1024,
        budget: int = BUDGET,
        facts: dict[str, Any] | None = None,
    ) -> None:
        self.facts = facts or {}
        self._opens = opens
        self._fresh = True
        """Whether this end remembers nothing of an earlier connection of its peer's."""
        self._max_message = max_message
        self._budget = budget
        self._streams: dict[int, _Stream] = {CONTROL: _Stream({})}
        self._next_stream = 1
        self._reader = FrameReader()
        self._greeted = False
        self._out: list[bytes] = []
        # Outgoing: numbers are given when a message's last frame is put on the connection.
        self._sent: deque[tuple[int, int, _Outgoing]] = deque()
        self._last_sent = 0
        self._forgotten = 0
        self._ready: deque[int] = deque()
        """Streams with something queued and credit to send it."""
        # Incoming.
        self.received = received
        self._handled = received
        self._acked = received
        self._unhandled: deque[tuple[int, int, int]] = deque()
        self._handled_bytes = 0
        self._arriving = 0
        """Bytes held of messages that are not whole, over all streams."""

    # -- the life of a connection

    def connect(self) -> None:
        """Starts over on a new connection: HELLO first, then what was not received.

        The gateway speaks first; the kernel host answers when it knows what it may forget.
        """
        self.disconnect()
        self._reader = FrameReader()
        for stream in self._streams.values():
            self._start_message(stream)
        if self._opens:
            self._say_hello()

    def disconnect(self) -> None:
        """The connection is gone: what is sent from now on waits for the next one."""
        self._greeted = False
        self._out = []

    def hang_up(self) -> bytes:
        """Ends the connection; returns what tells the other end, if it was greeted at all."""
        said = encode(Kind.HELLO, 0, 0, GOODBYE) if self._greeted else b""
        self.disconnect()
        return said

    def _say_hello(self) -> None:
        for stream in self._streams.values():
            stream.allowance = max(0, WINDOW - stream.unhandled)
        self._acked = self._handled
        hello = {
            "version": VERSION,
            "received": self.received,
            "handled": self._handled,
            "windows": {str(i): s.allowance for i, s in self._streams.items()},
            "streams": {str(i): s.info for i, s in self._streams.items() if i != CONTROL},
            "facts": self.facts,
        }
        self._out.append(encode(Kind.HELLO, 0, 0, json.dumps(hello).encode()))

    @property
    def streams(self) -> dict[int, dict[str, Any]]:
        return {i: s.info for i, s in self._streams.items() if i != CONTROL}

    # -- outgoing

    def open(self, info: dict[str, Any]) -> int:
        """A new stream. Only the gateway opens streams, and so knows every id there can be.

        A gateway that starts again learns from the first HELLO which ids there are already.
        """
        assert self._opens
        assert not self._fresh
        stream = self._next_stream
        self._next_stream += 1
        self._streams[stream] = _Stream(info)
        self._queue(stream, _Outgoing(Kind.OPEN, json.dumps(info).encode()))
        return stream

    def close(self, stream: int, info: dict[str, Any]) -> None:
        """Ends a stream after everything queued on it. Only the kernel host closes streams."""
        assert not self._opens
        self._queue(stream, _Outgoing(Kind.CLOSE, json.dumps(info).encode()))

    def send(self, stream: int, parts: Sequence[bytes | memoryview]) -> None:
        body = join_parts(parts)
        state = self._streams[stream]
        if state.queue or not self._greeted or not 0 < len(body) <= min(state.credit, MAX_PAYLOAD):
            self._queue(stream, _Outgoing(Kind.DATA, body))
            return
        # Most messages are one frame that can go at once.
        state.kept_bytes += len(body)
        state.credit -= len(body) + FRAME_COST
        self._last_sent += 1
        self._out.append(encode(Kind.DATA, stream, self._last_sent, body))
        self._sent.append((self._last_sent, stream, _Outgoing(Kind.DATA, body, len(body))))

    def send_json(self, value: Any) -> None:
        """A command, an answer or a notice on the control stream."""
        self.send(CONTROL, [json.dumps(value).encode()])

    def writable(self, stream: int) -> bool:
        """Whether another message should be taken in for this stream now."""
        state = self._streams[stream]
        return state.kept_bytes < self._budget

    def kept(self, stream: int) -> int:
        """Bytes of this stream that are still to be sent, or to be acknowledged."""
        return self._streams[stream].kept_bytes

    def _queue(self, stream: int, message: _Outgoing) -> None:
        state = self._streams[stream]
        state.queue.append(message)
        state.kept_bytes += len(message.body)
        if len(state.queue) == 1:
            self._ready.append(stream)
        self._fill()

    def _fill(self) -> None:
        """Puts on the connection what the windows allow, one frame of each stream in turn."""
        if not self._greeted:
            return
        waiting = self._ready
        while waiting:
            stream = waiting.popleft()
            state = self._streams[stream]
            message = state.queue[0]
            left = len(message.body) - message.at
            if left and state.credit <= 0:
                continue  # comes back with the next CREDIT
            size = min(left, MAX_PAYLOAD, max(state.credit, 0))
            piece = memoryview(message.body)[message.at : message.at + size]
            message.at += size
            state.credit -= size + FRAME_COST
            if message.at < len(message.body):
                self._out.append(encode(Kind.PART, stream, 0, piece))
                waiting.append(stream)
                continue
            self._last_sent += 1
            self._out.append(encode(message.kind, stream, self._last_sent, piece))
            self._sent.append((self._last_sent, stream, message))
            state.queue.popleft()
            if state.queue:
                waiting.append(stream)

    @property
    def has_output(self) -> bool:
        """Whether there are bytes to write to the connection now."""
        return bool(self._out)

    def take(self) -> bytes:
        """The bytes to write to the connection now."""
        if not self._out:
            return b""
        out, self._out = self._out, []
        return out[0] if len(out) == 1 else b"".join(out)

    # -- incoming

    def receive(self, data: bytes | bytearray | memoryview) -> list[Event]:
        """What the bytes bring. Raises FrameError; the connection is then to be closed.

        What came before the error was received all the same: the error has it as `before`.
        """
        events: list[Event] = []
        try:
            for frame in self._reader.feed(data):
                if (event := self._take_in(frame)) is not None:
                    events.append(event)
        except FrameError as e:
            e.before = events
            raise
        return events

    def _take_in(self, frame: Frame) -> Event | None:
        if not self._greeted:
            return self._hello(frame)
        if frame.kind is Kind.ACK:
            self._forget(frame.number)
        elif frame.kind is Kind.CREDIT:
            self._credit(frame)
        elif frame.kind is Kind.HELLO:
            if frame.payload == GOODBYE:
                raise HungUp("the other end hung up")
            raise FrameError("a second HELLO on one connection")
        else:
            return self._incoming(frame)
        return None

    def _hello(self, frame: Frame) -> Connected:
        if frame.kind is not Kind.HELLO:
            raise FrameError("the first frame is not a HELLO")
        hello = json_object(frame.payload)
        if hello.get("version") != VERSION:
            raise FrameError(f"the other end does not speak version {VERSION} of this format")
        received, handled = hello.get("received"), hello.get("handled")
        if type(received) is not int or type(handled) is not int or not 0 <= handled <= received < 2**63:
            raise FrameError("HELLO does not say what was received and handled")
        peer_streams = _stream_table(hello.get("streams"), dict)
        peer_windows = _stream_table(hello.get("windows"), int)
        if self._fresh and self._opens:
            # This gateway started again: it takes over the streams of the one before.
            for number, info in peer_streams.items():
                if number != CONTROL and number not in self._streams:
                    self._streams[number] = _Stream(info)
                    self._next_stream = max(self._next_stream, number + 1)
            self._last_sent = received
        if received > self._last_sent:
            raise FrameError("the other end received what was never sent")
        if received < self._forgotten:
            raise FrameError("the other end no longer knows what it had acknowledged")
        self._fresh = False
        self._forget(handled)
        self._greeted = True
        if self._opens:
            # What was handled since our HELLO.
            self.acknowledge()
            for number, state in self._streams.items():
                self._grant(number, state)
        else:
            self._say_hello()
        # What the other end has not received goes out again, before what is still queued.
        while self._sent and self._sent[-1][0] > received:
            _, stream, message = self._sent.pop()
            if stream in self._streams:
                self._streams[stream].queue.appendleft(message)
        self._ready.clear()
        self._last_sent = received
        for number, state in self._streams.items():
            for message in state.queue:
                message.at = 0
            state.credit = min(WINDOW, max(0, peer_windows.get(number, WINDOW)))
            if state.queue:
                self._ready.append(number)
        if self._ready and self._ready[0] == CONTROL:
            # What is asked for there is about a stream that may still have to be opened.
            self._ready.rotate(-1)
        self._fill()
        facts = hello.get("facts")
        return Connected(facts if isinstance(facts, dict) else {}, self.streams)

    def _incoming(self, frame: Frame) -> Event | None:
        if frame.kind is Kind.OPEN:
            if self._opens:
                raise FrameError("only the gateway opens streams")
            if len(self._streams) >= MAX_STREAMS:
                raise FrameError("too many streams")
            if frame.stream in self._streams:
                raise FrameError(f"stream {frame.stream} is open already")
            self._streams[frame.stream] = _Stream(json_object(frame.payload))
        state = self._streams.get(frame.stream)
        if state is None:
            raise FrameError(f"there is no stream {frame.stream}")
        if state.closed:
            raise FrameError(f"stream {frame.stream} is closed")
        state.allowance -= len(frame.payload) + FRAME_COST
        if state.allowance < -FRAME_COST:
            raise FrameError(f"stream {frame.stream} sent more than its window")
        if frame.kind is Kind.PART:
            if not frame.payload:
                raise FrameError("an empty PART")
            self._gather(state, frame.payload)
            self._grant(frame.stream, state)
            return None
        if frame.number != self.received + 1:
            raise FrameError(f"message {frame.number} came after message {self.received}")
        self.received = frame.number
        if state.size or len(frame.payload) > self._max_message:
            self._gather(state, frame.payload)
            body, total, cut = bytes(state.arriving), state.size, state.cut
            self._start_message(state)
        else:
            body, total, cut = frame.payload, len(frame.payload), False
        state.unhandled += len(body) + FRAME_COST
        self._unhandled.append((frame.number, frame.stream, len(body) + FRAME_COST))
        if frame.kind is Kind.OPEN:
            return Opened(frame.stream, state.info, frame.number)
        if frame.kind is Kind.CLOSE:
            if not self._opens or frame.stream == CONTROL:
                raise FrameError("only the kernel host closes streams")
            state.closed = True
            return Closed(frame.stream, json_object(body), frame.number)
        if cut:
            return Oversized(frame.stream, split_parts(body, partial=True), frame.number, total)
        return Message(frame.stream, split_parts(body), frame.number, total)

    def _gather(self, state: _Stream, payload: bytes) -> None:
        """Adds to the message that is arriving; of one that is too large only the start is kept."""
        held = len(state.arriving)
        state.size += len(payload)
        room = ARRIVING * self._max_message - self._arriving
        if state.size > self._max_message or len(payload) > room:
            state.cut = True
        if state.cut:
            state.arriving += payload[: max(0, PREFIX_KEPT - held)]
            del state.arriving[PREFIX_KEPT:]
        else:
            state.arriving += payload
        self._arriving += len(state.arriving) - held

    def _start_message(self, state: _Stream) -> None:
        self._arriving -= len(state.arriving)
        state.arriving, state.size, state.cut = bytearray(), 0, False

    def handled(self, number: int) -> None:
        """Everything up to this number is stored: the other end may forget it."""
        while self._unhandled and self._unhandled[0][0] <= number:
            _, stream, size = self._unhandled.popleft()
            self._handled_bytes += size
            state = self._streams.get(stream)
            if state is not None:
                state.unhandled -= size
                if state.closed:
                    self._drop(stream)
                else:
                    self._grant(stream, state)
        self._handled = max(self._handled, number)
        if self._handled_bytes >= ACK_BYTES or self._handled - self._acked >= ACK_MESSAGES:
            self.acknowledge()

    @property
    def stored(self) -> int:
        """The number up to which every message was handled."""
        return self._handled

    @property
    def owes_ack(self) -> bool:
        return self._handled > self._acked

    def acknowledge(self) -> None:
        """Tells the other end at once what was handled; otherwise it is told in bulk."""
        if self._greeted and self.owes_ack:
            self._out.append(encode(Kind.ACK, 0, self._handled))
            self._acked = self._handled
            self._handled_bytes = 0

    def _grant(self, stream: int, state: _Stream) -> None:
        grant = WINDOW - state.unhandled - state.allowance
        if grant >= WINDOW // 4 and self._greeted:
            state.allowance += grant
            self._out.append(encode(Kind.CREDIT, stream, grant))

    def _credit(self, frame: Frame) -> None:
        state = self._streams.get(frame.stream)
        if state is None:
            return  # it crossed with our CLOSE
        if state.credit + frame.number > WINDOW:
            raise FrameError("more credit than a window")
        state.credit += frame.number
        if state.queue and frame.stream not in self._ready:
            self._ready.append(frame.stream)
        self._fill()

    def _forget(self, number: int) -> None:
        if number > self._last_sent:
            raise FrameError("an acknowledgement of what was never sent")
        self._forgotten = max(self._forgotten, number)
        while self._sent and self._sent[0][0] <= number:
            _, stream, message = self._sent.popleft()
            state = self._streams.get(stream)
            if state is None:
                continue  # the other end closed it meanwhile
            state.kept_bytes -= len(message.body)
            if message.kind is Kind.CLOSE:
                self._drop(stream)

    def _drop(self, stream: int) -> None:
        self._start_message(self._streams.pop(stream))


def json_object(payload: bytes) -> dict[str, Any]:
    """A JSON object that the other end sent: not large, and of text that can be stored."""
    if len(payload) > MAX_PAYLOAD:
        raise FrameError(f"JSON of {len(payload)} bytes is over the limit of {MAX_PAYLOAD}")
    try:
        text = payload.decode()
        value = json.loads(text)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()  # refuses half of a surrogate pair
    except (ValueError, RecursionError):
        raise FrameError("a payload that should be JSON is not") from None
    if not isinstance(value, dict):
        raise FrameError("a payload that should be a JSON object is not")
    return value


def _stream_table(value: Any, kind: type) -> dict[int, Any]:
    """A JSON object from stream ids to values of one kind."""
    if not isinstance(value, dict) or len(value) > MAX_STREAMS:
        raise FrameError("HELLO has no list of streams")
    table: dict[int, Any] = {}
    for key, entry in value.items():
        if not (key.isdecimal() and len(key) < 10) or type(entry) is not kind:
            raise FrameError("HELLO has a list of streams that makes no sense")
        table[int(key)] = entry
    return table
