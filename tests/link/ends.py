"""Two ends of a link with the bytes between them, and how much an end holds."""

from __future__ import annotations

from typing import Any

from interpreter.link.wire import Connected, Event, Wire

MEGABYTE = 1024 * 1024


def held(wire: Wire) -> int:
    """The bytes that an end holds of what the other end sent."""
    streams = wire._streams.values()
    return (
        len(wire._reader._buffer)
        + sum(len(stream.arriving) for stream in streams)
        + sum(size for _, _, size in wire._unhandled)
    )


def kept(wire: Wire) -> int:
    """The bytes that an end keeps because they are not acknowledged."""
    return sum(stream.kept_bytes for stream in wire._streams.values())


class Ends:
    """A gateway's wire and a host's, connected; events are noted, and handled when asked to be."""

    def __init__(self, **gateway: Any) -> None:
        self.gateway = Wire(opens=True, **gateway)
        self.host = Wire(opens=False)
        self.at_gateway: list[Event] = []
        self.at_host: list[Event] = []
        self.reconnect()

    def reconnect(self) -> None:
        """A new connection; what was under way on the old one is lost."""
        self.host.connect()
        self.gateway.connect()
        self.exchange()

    def restart(self, received: int) -> None:
        """A new gateway in the place of one that was killed, which had stored so much."""
        self.gateway = Wire(opens=True, received=received)
        self.at_gateway = []
        self.reconnect()

    def open(self, **info: Any) -> int:
        stream = self.gateway.open(info)
        self.exchange()
        return stream

    def exchange(self, *, handle: bool = False) -> None:
        """Carries bytes both ways until there are none; `handle` handles what the gateway gets."""
        while True:
            down, up = self.gateway.take(), self.host.take()
            if not down and not up:
                return
            for event in self.host.receive(down):
                if not isinstance(event, Connected):
                    self.at_host.append(event)
                    self.host.handled(event.number)
            for event in self.gateway.receive(up):
                if not isinstance(event, Connected):
                    self.at_gateway.append(event)
                    if handle:
                        self.gateway.handled(event.number)
