"""A wire on an asyncio transport: the gateway's end of a link.

`Link` turns what arrives into calls of the handlers that its owner registered, one per stream,
and gathers what is sent in one turn of the event loop into one write. It outlives connections:
what is sent meanwhile waits for the next one. It does not decide when to connect; its owner does,
and is told when a connection is gone.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, TypeVar, cast

from interpreter.link.frames import FrameError
from interpreter.link.wire import (
    BUDGET,
    CONTROL,
    Closed,
    Connected,
    Event,
    HungUp,
    Message,
    Opened,
    Oversized,
    Wire,
    json_object,
)

ACK_DELAY = 0.1
ANSWER_SECONDS = 20.0
"""How long a kernel host that could answer has for it."""
LARGE = 64 * 1024
"""Bytes of a command that waits until there is more room than it takes."""
STALLED = 10 * BUDGET
"""Bytes on one stream that are so long unacknowledged that the sandbox is given up. Large messages take
the budget and what they are themselves; a cell that comes behind them is sent all the same."""
CROWDED = BUDGET // 2
"""Bytes of commands that the sandbox has not acknowledged; no large one is added to them."""
FLAPPING = 3
"""More connections than this in that time are of the sandbox's own making."""

Incoming = Message | Oversized | Closed
Handler = Callable[[Incoming], None]
T = TypeVar("T")


class _Moment(NamedTuple):
    """How a link is at a moment: whether the other end could be heard now."""

    frozen: bool
    connected: bool
    greetings: int
    stored: int


class Link(asyncio.Protocol):
    """The gateway's end of the link into one sandbox.

    Every handler gets the messages of its stream in order. The owner calls `handled` with a
    message's number when everything up to it is stored; `on_passed` tells it the numbers of
    those that no handler gets. On a sandbox that an earlier gateway left, nothing is handed out
    before the owner has taken up the streams and calls `begin`.
    """

    def __init__(self, wire: Wire, on_gone: Callable[[str], None]) -> None:
        self.wire = wire
        self.facts: dict[str, Any] = {}
        self.broken = False
        """Whether the sandbox did what no further connection can mend."""
        self.closed = False
        self.frozen = False
        """Whether the sandbox cannot say anything, because its owner has paused it."""
        self._on_gone = on_gone
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._handlers: dict[int, Handler] = {}
        self._flush_scheduled = False
        self._ack_timer: asyncio.TimerHandle | None = None
        self._connected: asyncio.Future[None] = self._loop.create_future()
        self._lost = asyncio.Event()
        self._acknowledged = asyncio.Event()
        """Set when the sandbox may have acknowledged something, or there is nothing to wait for."""
        self._problem = "the link was closed"
        self._commands: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._next_command = 1
        self._held: list[Incoming] | None = None
        self._greetings = 0
        self._writing_paused = False
        self.on_notice: Callable[[dict[str, Any]], None] = lambda notice: None
        self.on_passed: Callable[[int], None] = self.handled

    # -- asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._lost.clear()
        if self.closed:
            self._transport.abort()
            return
        self.wire.connect()
        self._choose_reading()
        self._flush()

    def data_received(self, data: bytes) -> None:
        try:
            try:
                self._take_in(self.wire.receive(data))
            except HungUp as e:
                self._take_in(e.before)
                self._problem = str(e)
                self.disconnect()
        except Exception as e:
            self._fail(e)
        self._acknowledged.set()
        self._schedule_flush()

    def _take_in(self, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, Connected):
                self._greet(event)
            elif isinstance(event, Opened):
                raise FrameError("only the gateway opens streams")
            elif self._held is not None:
                self._held.append(event)
            else:
                self._hand_out(event)

    def pause_writing(self) -> None:
        # A sandbox that does not read what it is sent is not read from either.
        self._writing_paused = True
        self._choose_reading()

    def resume_writing(self) -> None:
        self._writing_paused = False
        self._choose_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._writing_paused = False
        self.wire.disconnect()
        if self._ack_timer is not None:
            self._ack_timer.cancel()
            self._ack_timer = None
        reason = str(exc) if exc else self._problem
        if not self._connected.done():
            self._connected.set_exception(ConnectionError(reason))
            self._connected.exception()
        # Whoever waits from now on waits for the next connection, which may take its time.
        self._connected = self._loop.create_future()
        self._lost.set()
        self._on_gone(reason)

    # -- the owner's side

    async def connected(self) -> None:
        """Waits for the other end's HELLO; raises ConnectionError."""
        await asyncio.shield(self._connected)

    async def lost(self) -> None:
        """Waits until a connection that there was is gone."""
        await self._lost.wait()

    def on_stream(self, stream: int, handler: Handler) -> None:
        self._handlers[stream] = handler

    def begin(self) -> None:
        """Every stream that is to have a handler has it: hands out what is here, reads on."""
        held, self._held = self._held or [], None
        try:
            for event in held:
                self._hand_out(event)
        except Exception as e:
            self._fail(e)
        self._choose_reading()

    def open(self, info: dict[str, Any], handler: Handler) -> int:
        stream = self.wire.open(info)
        self._handlers[stream] = handler
        self._schedule_flush()
        return stream

    def forget(self, stream: int) -> None:
        self._handlers.pop(stream, None)

    def send(self, stream: int, parts: Sequence[bytes], *, now: bool = False) -> None:
        """Sends a message with the others of this turn of the loop, or `now`."""
        if self.wire.kept(stream) >= STALLED:
            self._break("the sandbox does not acknowledge what it is sent")
            return
        self.wire.send(stream, parts)
        if now:
            self._write()
        else:
            self._schedule_flush()

    def handled(self, number: int) -> None:
        self.wire.handled(number)
        if self.wire.owes_ack and self._ack_timer is None:
            self._ack_timer = self._loop.call_later(ACK_DELAY, self._acknowledge)
        self._schedule_flush()

    async def command(
        self, do: str, *, within: float = ANSWER_SECONDS, **arguments: Any
    ) -> dict[str, Any]:
        """Asks the kernel host for something and returns its answer, however many connections it takes.

        Raises ConnectionError when the link is closed, or the kernel host does not answer.
        """
        if self.closed or self.broken:
            raise ConnectionError(self._problem)
        number = self._next_command
        self._next_command += 1
        said = json.dumps({"id": number, "do": do, **arguments}, ensure_ascii=False)
        data = said.encode(errors="surrogatepass")
        while not self._has_room(len(data)):
            # A large one may have to wait for others like it; a small one only if nothing is read.
            await self.heard(self._room(len(data)), within if len(data) <= LARGE else math.inf)
        answer: asyncio.Future[dict[str, Any]] = self._loop.create_future()
        self._commands[number] = answer
        try:
            self.send(CONTROL, [data])
            return await self.heard(answer, within)
        finally:
            self._commands.pop(number, None)

    @property
    def crowded(self) -> bool:
        """Whether the sandbox has much to acknowledge of what it was asked."""
        return self.wire.kept(CONTROL) > CROWDED

    def _has_room(self, size: int) -> bool:
        """Whether a command can be added to those that are not acknowledged. However large it is, one is
        sent when there is no other: as JSON it can be several times as long as what it says."""
        kept = self.wire.kept(CONTROL)
        return not kept or (kept + size <= BUDGET and (size <= LARGE or not self.crowded))

    async def _room(self, size: int) -> None:
        while not self._has_room(size) and not self.closed:
            self._acknowledged.clear()
            await self._acknowledged.wait()
        if self.closed:
            raise ConnectionError(self._problem)

    async def acknowledged(self) -> None:
        """Returns when the sandbox may have acknowledged something."""
        if self.closed:
            raise ConnectionError(self._problem)
        self._acknowledged.clear()
        await self._acknowledged.wait()

    async def heard(self, answer: Awaitable[T], within: float = ANSWER_SECONDS) -> T:
        """Waits for what the kernel host is to say. One that could and does not is of no use any more:
        its link is broken, and ConnectionError is raised.

        Time does not count while the sandbox is frozen, the connection is lost, or nothing is read
        because what was read cannot be stored.
        """
        waiting = asyncio.ensure_future(answer)
        try:
            while True:
                before = self._moment()
                await asyncio.wait({waiting}, timeout=None if within == math.inf else within)
                if waiting.done():
                    return waiting.result()
                if self._was_silent_since(before):
                    self._break(f"the sandbox does not answer: it said nothing for {within:g} s")
                    raise ConnectionError(self._problem)
        finally:
            waiting.cancel()

    def disconnect(self) -> None:
        """Ends the connection; there can be another."""
        if self._transport is not None:
            self._transport.abort()

    def close(self) -> None:
        """Ends the link, and with it every command that waits for an answer."""
        self.closed = True
        for answer in self._commands.values():
            if not answer.done():
                answer.set_exception(ConnectionError(self._problem))
        self.disconnect()
        self._lost.set()
        self._acknowledged.set()

    # -- inside

    def _greet(self, event: Connected) -> None:
        self.facts = event.facts
        if not self._greetings and event.streams.keys() - self._handlers.keys():
            self._held = []
            self._choose_reading()
        self._greetings += 1
        if not self._connected.done():
            self._connected.set_result(None)

    def _moment(self) -> _Moment:
        connected = self._transport is not None and self._connected.done()
        return _Moment(self.frozen, connected, self._greetings, self.wire.stored)

    def _was_silent_since(self, before: _Moment) -> bool:
        now = self._moment()
        if before.frozen or now.frozen:
            return False
        if self.wire.received > now.stored == before.stored:
            return False  # it is not read from
        if now.greetings == before.greetings:
            return before.connected and now.connected
        return now.greetings - before.greetings > FLAPPING

    def _hand_out(self, event: Incoming) -> None:
        if event.stream == CONTROL:
            self._control(event)
        elif handler := self._handlers.get(event.stream):
            handler(event)
        else:
            self.on_passed(event.number)

    def _control(self, event: Incoming) -> None:
        if isinstance(event, Message) and len(event.parts) == 1:
            value = json_object(event.parts[0])
            if "id" not in value:
                self.on_notice(value)
            elif isinstance(value["id"], int):
                answer = self._commands.get(value["id"])
                if answer is not None and not answer.done():
                    answer.set_result(value)
        self.on_passed(event.number)

    def _fail(self, problem: Exception) -> None:
        if isinstance(problem, FrameError):
            self._break(f"the sandbox broke the rules of the link: {problem}")
        else:
            self._break(f"a message of the sandbox could not be dealt with: {problem!r:.200}")
            raise problem

    def _break(self, problem: str) -> None:
        self._problem = problem
        self.broken = True
        connected = self._transport is not None
        self.close()
        if not connected:
            self._loop.call_soon(self._on_gone, problem)

    def _choose_reading(self) -> None:
        if self._transport is None:
            return
        if self._writing_paused or self._held is not None:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def _acknowledge(self) -> None:
        self._ack_timer = None
        self.wire.acknowledge()
        self._flush()

    def _schedule_flush(self) -> None:
        if not self._flush_scheduled:
            self._flush_scheduled = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_scheduled = False
        self._write()

    def _write(self) -> None:
        if self._transport is not None and (data := self.wire.take()):
            self._transport.write(data)
