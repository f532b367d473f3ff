"""A wire on an asyncio transport: the gateway's end of a link.

`Link` turns what arrives into calls of the handlers that its owner registered, one per stream,
and gathers what is sent in one turn of the event loop into one write. It does not decide when
to connect; its owner does, and is told when the connection is gone.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

from interpreter.link.frames import FrameError
from interpreter.link.wire import CONTROL, Closed, Connected, Message, Opened, Oversized, Wire

ACK_DELAY = 0.1

Incoming = Message | Oversized | Closed
Handler = Callable[[Incoming], None]


class Link(asyncio.Protocol):
    """The gateway's end of the link into one sandbox.

    Every handler gets the messages of its stream in order, and calls `handled` with a message's
    number when what it carried is stored.
    """

    def __init__(self, wire: Wire, on_gone: Callable[[str], None]) -> None:
        self.wire = wire
        self.facts: dict[str, Any] = {}
        self._on_gone = on_gone
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._handlers: dict[int, Handler] = {}
        self._flush_scheduled = False
        self._ack_timer: asyncio.TimerHandle | None = None
        self._connected: asyncio.Future[None] = self._loop.create_future()
        self._problem = "the link was closed"
        self._commands: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._next_command = 1
        self.on_notice: Callable[[dict[str, Any]], None] = lambda notice: None

    # -- asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.wire.connect()
        self._flush()

    def data_received(self, data: bytes) -> None:
        try:
            for event in self.wire.receive(data):
                if isinstance(event, Connected):
                    self.facts = event.facts
                    if not self._connected.done():
                        self._connected.set_result(None)
                elif isinstance(event, Opened):
                    raise FrameError("only the gateway opens streams")
                elif event.stream == CONTROL:
                    self._control(event)
                elif handler := self._handlers.get(event.stream):
                    handler(event)
                else:
                    self.handled(event.number)
        except FrameError as e:
            self._problem = f"the sandbox broke the rules of the link: {e}"
            if self._transport is not None:
                self._transport.abort()
        self._schedule_flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self.wire.disconnect()
        if self._ack_timer is not None:
            self._ack_timer.cancel()
            self._ack_timer = None
        reason = str(exc) if exc else self._problem
        if not self._connected.done():
            self._connected.set_exception(ConnectionError(reason))
            self._connected.exception()
        for answer in self._commands.values():
            if not answer.done():
                answer.set_exception(ConnectionError(reason))
        self._on_gone(reason)

    # -- the owner's side

    async def connected(self) -> None:
        """Waits for the other end's HELLO; raises ConnectionError."""
        await asyncio.shield(self._connected)

    def on_stream(self, stream: int, handler: Handler) -> None:
        self._handlers[stream] = handler

    def open(self, info: dict[str, Any], handler: Handler) -> int:
        stream = self.wire.open(info)
        self._handlers[stream] = handler
        self._schedule_flush()
        return stream

    def forget(self, stream: int) -> None:
        self._handlers.pop(stream, None)

    def send(self, stream: int, parts: Sequence[bytes]) -> None:
        self.wire.send(stream, parts)
        self._schedule_flush()

    def handled(self, number: int) -> None:
        self.wire.handled(number)
        if self.wire.owes_ack and self._ack_timer is None:
            self._ack_timer = self._loop.call_later(ACK_DELAY, self._acknowledge)
        self._schedule_flush()

    async def command(self, do: str, **arguments: Any) -> dict[str, Any]:
        """Asks the kernel host for something and returns its answer; raises ConnectionError."""
        if self._transport is None:
            raise ConnectionError(self._problem)
        number = self._next_command
        self._next_command += 1
        answer: asyncio.Future[dict[str, Any]] = self._loop.create_future()
        self._commands[number] = answer
        try:
            self.wire.send_json({"id": number, "do": do, **arguments})
            self._schedule_flush()
            return await answer
        finally:
            self._commands.pop(number, None)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # -- inside

    def _control(self, event: Incoming) -> None:
        if isinstance(event, Message) and len(event.parts) == 1:
            try:
                value = json.loads(event.parts[0])
            except (ValueError, RecursionError):
                raise FrameError("a control message is not JSON") from None
            if not isinstance(value, dict):
                raise FrameError("a control message is not a JSON object")
            if "id" not in value:
                self.on_notice(value)
            elif isinstance(value["id"], int):
                answer = self._commands.get(value["id"])
                if answer is not None and not answer.done():
                    answer.set_result(value)
        self.handled(event.number)

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
        if self._transport is not None and (data := self.wire.take()):
            self._transport.write(data)
