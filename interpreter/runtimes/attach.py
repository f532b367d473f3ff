"""Requests to the engine that last: a container's stdin and stdout, and the wait for its end.

Attaching takes over an HTTP connection: after the engine's answer the bytes of the container flow on
it, outwards as they are, inwards in pieces that say whether they are stdout or stderr.
"""

from __future__ import annotations

import asyncio
import os
import struct
from typing import cast

from interpreter.runtimes.engine import Engine
from interpreter.runtimes.question import MOST_HEADER, EngineRefused, ask, request

PIECE = struct.Struct(">BxxxI")
STDOUT = 1
STDERR_KEPT = 4096
NONCE = 16
"""As many as the kernel host sends back."""


class Attachment(asyncio.Protocol):
    """The protocol of an attach stream: hands on the bytes of the link to another protocol.

    The key and some new bytes open each connection in both directions: what the container sent before
    them was for an earlier connection.
    """

    def __init__(self, request: bytes, key: bytes, link: asyncio.Protocol) -> None:
        self._request = request
        self._opening = key + os.urandom(NONCE)
        self._link = link
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._accepted = False
        self._opened = False
        self._before = b""
        self._piece_left = 0
        self._piece_is_link = False
        self.stderr = b""
        """The last that the kernel host said there."""
        self.problem: str | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        if not self._accepted:
            self._buffer += data
            self._read_answer()
        elif self._opened and self._piece_is_link and len(data) <= self._piece_left:
            # Most of a flood comes this way: nothing to cut, nothing to copy.
            self._piece_left -= len(data)
            self._link.data_received(data)
        else:
            self._buffer += data
            self._read_pieces()

    def _read_answer(self) -> None:
        assert self._transport is not None
        head, blank, rest = bytes(self._buffer).partition(b"\r\n\r\n")
        if not blank:
            if len(self._buffer) > MOST_HEADER:
                self._transport.abort()
            return
        status = head.split(b" ", 2)[1:2]
        if status not in ([b"101"], [b"200"]):
            self.problem = head.split(b"\r\n", 1)[0].decode(errors="replace")
            self._transport.abort()
            return
        self._accepted = True
        self._buffer = bytearray(rest)
        self._transport.write(self._opening)
        self._link.connection_made(self._transport)
        self._read_pieces()

    def _read_pieces(self) -> None:
        buffer, at = self._buffer, 0
        while at < len(buffer):
            if not self._piece_left:
                if len(buffer) - at < PIECE.size:
                    break
                kind, self._piece_left = PIECE.unpack_from(buffer, at)
                self._piece_is_link = kind == STDOUT
                at += PIECE.size
            taken = bytes(buffer[at : at + self._piece_left])
            at += len(taken)
            self._piece_left -= len(taken)
            if not self._piece_is_link:
                self.stderr = (self.stderr + taken)[-STDERR_KEPT:]
            elif taken:
                self._take(taken)
        del buffer[:at]

    def _take(self, data: bytes) -> None:
        if self._opened:
            self._link.data_received(data)
            return
        _, found, rest = (self._before + data).partition(self._opening)
        if found:
            self._opened = True
            if rest:
                self._link.data_received(rest)
        else:
            self._before = (self._before + data)[-len(self._opening) :]

    def pause_writing(self) -> None:
        self._link.pause_writing()

    def resume_writing(self) -> None:
        self._link.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._accepted:
            # The link has not heard of a connection yet: it hears of one that ended at once.
            assert self._transport is not None
            self._link.connection_made(self._transport)
            exc = EngineRefused(self.problem or "the engine hung up")
        self._link.connection_lost(exc)


async def attach(
    engine: Engine, container: str, key: bytes, link: asyncio.Protocol
) -> tuple[asyncio.Transport, Attachment]:
    path = f"/containers/{container}/attach?stream=1&stdin=1&stdout=1&stderr=1"
    upgrade = "Connection: Upgrade\r\nUpgrade: tcp\r\n"
    attachment = Attachment(request(engine, "POST", path, upgrade), key, link)
    return await engine.connect(lambda: attachment), attachment


async def exit_code(engine: Engine, container: str) -> int | None:
    """Waits until the container does not run any more; None when it is not there at all."""
    answer = await ask(engine, "POST", f"/containers/{container}/wait?condition=not-running")
    if answer is None:
        return None
    try:
        return int(answer["StatusCode"])
    except (KeyError, TypeError, ValueError):
        raise EngineRefused("the engine does not say how the container ended") from None
