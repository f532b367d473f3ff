"""The five sockets that every kernel has, bound here in a kernel's place.

Nothing is dropped: what a client of the application has not read yet waits for it, and it is the output
limit of the session that bounds how much that can be.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import zmq
import zmq.asyncio
from msgspec import Struct

from interpreter.provisioner.frames import BadMessage, Message, Signer

KINDS = {
    "shell": zmq.ROUTER,
    "iopub": zmq.XPUB,
    "stdin": zmq.ROUTER,
    "control": zmq.ROUTER,
    "hb": zmq.ROUTER,
}
"""In the order of the numbers that ipc sockets have."""
TOPIC = b"kernel"

Take = Callable[[Message, list[bytes]], None]


class Address(Struct):
    """Where the sockets are; a port of 0 is any that is free."""

    transport: str
    ip: str
    ports: dict[str, int]

    def url(self, channel: str) -> str:
        port = self.ports[channel]
        if self.transport == "ipc":
            return f"ipc://{self.ip}-{port}"
        return f"tcp://{self.ip}:{port or '*'}"


class Sockets:
    """Has to be made and used in one thread."""

    def __init__(
        self, address: Address, signer: Signer, take: Take, on_bad: Callable[[str], None]
    ) -> None:
        """`take` is called with each message of a client, and who sent it."""
        self._signer = signer
        self._take = take
        self._on_bad = on_bad
        self._context = zmq.asyncio.Context()
        self._all: dict[str, zmq.asyncio.Socket] = {}
        self.address = Address(address.transport, address.ip, dict(address.ports))
        try:
            for channel, kind in KINDS.items():
                self._bind(channel, kind)
        except BaseException:
            self.close()
            raise
        reading = [self._receive(channel) for channel in ("shell", "stdin", "control")]
        self._tasks = [asyncio.create_task(c) for c in (*reading, self._welcome(), self._beat())]

    def _bind(self, channel: str, kind: int) -> None:
        socket = self._all[channel] = self._context.socket(kind)
        socket.linger = 1000
        socket.set_hwm(0)
        if kind == zmq.ROUTER:
            socket.router_handover = 1
        else:
            # A client is subscribed when we say so, and told that before it is told anything else.
            socket.setsockopt(zmq.XPUB_MANUAL, 1)
        socket.bind(self.address.url(channel))
        if self.address.transport == "tcp":
            bound = socket.get_string(zmq.LAST_ENDPOINT)
            self.address.ports[channel] = int(bound.rpartition(":")[2])

    def publish(self, parts: Sequence[bytes]) -> None:
        self._all["iopub"].send_multipart(self._signer.wrap([TOPIC], parts))

    def send(self, channel: str, to: Sequence[bytes], parts: Sequence[bytes]) -> None:
        """To one client; nothing happens if it is gone."""
        self._all[channel].send_multipart(self._signer.wrap(to, parts))

    async def _receive(self, channel: str) -> None:
        while True:
            received = await self._all[channel].recv_multipart()
            try:
                sender, parts = self._signer.unwrap(received)
                self._take(Message(channel, parts), sender)
            except BadMessage as e:
                self._on_bad(str(e))

    async def _welcome(self) -> None:
        """Clients that know of it wait for this, to be sure that they miss nothing from here on."""
        while True:
            event = await self._all["iopub"].recv()
            if event[:1] == b"\x01":
                self._all["iopub"].setsockopt(zmq.SUBSCRIBE, event[1:])
                subscription = event[1:].decode(errors="replace")
                self.publish(message("iopub_welcome", {"subscription": subscription}))
            elif event[:1] == b"\x00":
                self._all["iopub"].setsockopt(zmq.UNSUBSCRIBE, event[1:])

    async def _beat(self) -> None:
        while True:
            self._all["hb"].send_multipart(await self._all["hb"].recv_multipart())

    def close(self) -> None:
        for task in getattr(self, "_tasks", ()):
            task.cancel()
        for socket in self._all.values():
            socket.close()
        self._context.term()
        if self.address.transport == "ipc":
            for channel in self._all:
                Path(self.address.url(channel).removeprefix("ipc://")).unlink(missing_ok=True)


def message(type: str, content: dict[str, object], parent: bytes = b"{}") -> list[bytes]:
    """The parts of a message that is no kernel's."""
    header = {
        "msg_id": secrets.token_hex(16),
        "msg_type": type,
        "username": "interpreter",
        "session": "interpreter",
        "date": datetime.now(UTC).isoformat().replace("+00:00", "Z"),
        "version": "5.3",
    }
    return [msgspec.json.encode(header), parent, b"{}", msgspec.json.encode(content)]
