"""The link as the kernel host sees it: the gateway that is connected now, or none.

What is to be sent waits for a moment unless it is urgent, so that the gateway is not woken for
every message of a kernel; and it waits in the wire while there is no gateway.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

from interpreter.link.frames import FrameError
from interpreter.link.wire import Connected, Event, Wire
from interpreter.sandbox.doors import CHUNK, Connection, SocketDoor, StdioDoor
from interpreter.sandbox.reactor import READ, WRITE, Reactor

HOLD_SECONDS = 0.005
LARGEST = 65 * 1024 * 1024
"""Bytes of a message: the largest that a gateway can be set to take from a client, and its header."""
HOLD_BYTES = 64 * 1024
"""Output waits this long for more of it, or until it is this much; the end of a cell does not
wait. Passing on each message by itself would wake this process and the gateway five times each
for a short cell."""


class Uplink:
    """The wire, and the connection it is on."""

    def __init__(
        self, door: SocketDoor | StdioDoor, reactor: Reactor, handle: Callable[[Event], None]
    ) -> None:
        self.wire = Wire(opens=False, max_message=LARGEST, facts={"pid": os.getpid()})
        self._door = door
        self._reactor = reactor
        self._handle = handle
        self._connection: Connection | None = None
        self._unsent = memoryview(b"")
        self._waits_to_send = False
        self._hung_up = False
        self._flush_at = math.inf
        self._held = 0
        on_ready = self._accept if isinstance(door, SocketDoor) else self._read_stdin
        reactor.watch(door.fileno(), on_ready)

    # -- sending

    def send(self, stream: int, parts: Sequence[bytes]) -> None:
        """Something that can wait; whoever knows better calls `flush_soon`."""
        self.wire.send(stream, parts)
        self._held += sum(map(len, parts))
        self.flush_soon(0.0 if self._held >= HOLD_BYTES else HOLD_SECONDS)

    def answer(self, command: dict[str, Any], **values: Any) -> None:
        self.wire.send_json({"id": command.get("id"), **values})
        self.flush_soon()

    def flush_soon(self, seconds: float = 0.0) -> None:
        self._flush_at = min(self._flush_at, time.monotonic() + seconds)

    @property
    def patience(self) -> float:
        """Seconds until something has to be sent."""
        return max(0.0, self._flush_at - time.monotonic())

    def flush(self) -> None:
        connection = self._connection
        self._flush_at, self._held = math.inf, 0
        if connection is None:
            return
        try:
            while True:
                if not self._unsent:
                    data = self.wire.take()
                    if not data:
                        break
                    self._unsent = memoryview(data)
                self._unsent = self._unsent[connection.write(self._unsent) :]
        except BlockingIOError:
            pass
        except OSError:
            self._disconnect()
            return
        if bool(self._unsent) != self._waits_to_send:
            self._waits_to_send = bool(self._unsent)
            self._choose_events(connection)

    def _choose_events(self, connection: Connection) -> None:
        if connection.read_fd == connection.write_fd:
            events = READ | (WRITE if self._waits_to_send else 0)
            self._reactor.watch(connection.read_fd, lambda: self._exchange(connection), events)
        elif self._waits_to_send:
            self._reactor.watch(connection.write_fd, self.flush_soon, WRITE)
        else:
            self._reactor.forget(connection.write_fd)

    # -- receiving

    def _accept(self) -> None:
        assert isinstance(self._door, SocketDoor)
        connection = self._door.accept()
        if connection is None:
            return
        if self._connection is not None:
            # What an earlier gateway managed to send before it died still counts.
            self._read(self._connection)
        self._begin(connection)
        self._reactor.watch(connection.read_fd, lambda: self._exchange(connection))

    def _exchange(self, connection: Connection) -> None:
        """The gateway sent something, or takes something again."""
        self._read(connection)
        if self._waits_to_send:
            self.flush_soon()

    def _read_stdin(self) -> None:
        assert isinstance(self._door, StdioDoor)
        data = self._door.read()
        if data is None:
            return
        if not data:
            # The engine has let go of stdin: nobody can come in any more.
            self._reactor.forget(self._door.fileno())
            self._disconnect()
            return
        data, new = self._door.split(data)
        if new is not None:
            self._begin(new)
        self._receive(data)

    def _begin(self, connection: Connection) -> None:
        self._disconnect()
        self._hung_up = False
        self._connection = connection
        self._unsent = memoryview(connection.key)
        self.wire.connect()

    def _read(self, connection: Connection) -> None:
        while (data := connection.read()) is not None:
            if not data:
                self._disconnect()
                return
            self._receive(data)
            if len(data) < CHUNK or connection is not self._connection:
                break

    def _receive(self, data: bytes) -> None:
        if self._connection is None or self._hung_up:
            return
        try:
            self._take_in(self.wire.receive(data))
        except FrameError as e:
            self._take_in(e.before)
            self._hang_up()
            return
        if self._held == 0 and self.wire.has_output:
            self.flush_soon()  # what the wire itself has to say

    def _take_in(self, events: Sequence[Event]) -> None:
        for event in events:
            if not isinstance(event, Connected):
                self._handle(event)
                self.wire.handled(event.number)

    def _hang_up(self) -> None:
        """What comes in makes no sense: an earlier connection may still have had something to say."""
        if isinstance(self._door, SocketDoor):
            self._disconnect()
            return
        # The gateway does not see an end here, and would wait for ever: it is told.
        self._hung_up = True
        self._unsent = memoryview(bytes(self._unsent) + self.wire.hang_up())
        self.flush_soon()

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if isinstance(self._door, SocketDoor):
            self._reactor.forget(connection.read_fd)
        elif self._waits_to_send:
            self._reactor.forget(connection.write_fd)
        connection.close()
        self._unsent, self._waits_to_send = memoryview(b""), False
        self.wire.disconnect()
