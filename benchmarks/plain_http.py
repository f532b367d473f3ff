"""HTTP with next to no cost of its own, so that what is measured is the gateway.

One connection that stays open, TCP_NODELAY, a request in one write. No redirects, no
compression, no chunks: answers with a Content-Length only.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
from typing import Any
from urllib.parse import urlsplit

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
END = b"\r\n\r\n"
ANSWER_SECONDS = 300.0


class Address:
    """Where a server is and how to talk to it."""

    def __init__(self, url: str, token: str | None = None) -> None:
        parts = urlsplit(url)
        self.host, self.port = str(parts.hostname), int(parts.port or 80)
        self._headers = f"Host: {self.host}:{self.port}\r\nContent-Type: application/json\r\n"
        self.token = token
        if token:
            self._headers += f"Authorization: Bearer {token}\r\n"

    def request(self, method: str, path: str, body: Any = None, accept: str | None = None) -> bytes:
        data = b"" if body is None else json.dumps(body).encode()
        more = f"Accept: {accept}\r\n" if accept else ""
        head = (
            f"{method} {path} HTTP/1.1\r\n{self._headers}{more}Content-Length: {len(data)}{END.decode()}"
        )
        return head.encode() + data


class Connection:
    """For one caller who waits."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.socket = socket.create_connection((address.host, address.port), ANSWER_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, request: bytes) -> Any:
        """The answer's JSON."""
        self.socket.sendall(request)
        data = b""
        while (end := data.find(END)) < 0:
            data += self._receive()
        head, data = data[:end], data[end + len(END) :]
        length = _length(head)
        while len(data) < length:
            data += self._receive()
        return _check(head, data)

    def _receive(self) -> bytes:
        data = self.socket.recv(64 * 1024)
        if not data:
            raise ConnectionError("the server closed the connection")
        return data

    def close(self) -> None:
        self.socket.close()


class AsyncConnection:
    """For one of many callers on an event loop."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, address: Address) -> AsyncConnection:
        # asyncio sets TCP_NODELAY by itself.
        return cls(*await asyncio.open_connection(address.host, address.port))

    async def ask(self, request: bytes) -> Any:
        self._writer.write(request)
        head = await self._reader.readuntil(END)
        length = _length(head)
        return _check(head, await self._reader.readexactly(length) if length else b"")

    def close(self) -> None:
        self._writer.close()


def _length(head: bytes) -> int:
    match = _LENGTH.search(head)
    return int(match[1]) if match else 0


def _check(head: bytes, body: bytes) -> Any:
    if not head.startswith(b"HTTP/1.1 2"):
        raise RuntimeError(f"{head.splitlines()[0].decode()}: {body.decode(errors='replace')[:1000]}")
    return json.loads(body) if body else None
