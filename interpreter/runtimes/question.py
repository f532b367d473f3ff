"""A question to the engine on an asyncio connection of its own.

It may take as long as whoever asks likes, it can be given up at any time, and it holds no thread: so
an engine that has stopped answering keeps nobody else from being answered.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import msgspec

from interpreter.runtimes.engine import Engine

MOST_HEADER = 64 * 1024
MOST_ANSWER = 16 * 1024 * 1024


class EngineRefused(ConnectionError):
    """The engine answered with an error instead of what was asked for, or broke off."""


async def ask(engine: Engine, method: str, path: str) -> Any | None:
    """The JSON that is the answer; None when there is no such thing. Raises OSError."""
    body = await answer(engine, method, path)
    if body is None:
        return None
    with contextlib.suppress(msgspec.MsgspecError):
        return msgspec.json.decode(body)
    # The engine sends the head at once, and the rest when there is something to tell.
    raise EngineRefused("the engine hung up in the middle of its answer")


async def answer(engine: Engine, method: str, path: str) -> bytes | None:
    """The same as it comes, which may be less than the whole if the engine hung up."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=MOST_HEADER)
    protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
    transport = await engine.connect(lambda: protocol)
    try:
        transport.write(request(engine, method, path, "Connection: close\r\n"))
        said = await _everything(reader)
    finally:
        transport.abort()
    head, _, body = said.partition(b"\r\n\r\n")
    status = head.split(b" ", 2)[1:2]
    if status == [b"404"]:
        return None
    if status != [b"200"]:
        raise EngineRefused(head.split(b"\r\n", 1)[0].decode(errors="replace") or "the engine hung up")
    if b"transfer-encoding: chunked" in head.lower():
        body = _joined(body)
    return body


async def _everything(reader: asyncio.StreamReader) -> bytes:
    said = b""
    while data := await reader.read(65536):
        said += data
        if len(said) > MOST_ANSWER:
            raise EngineRefused("the engine's answer has no end")
    return said


def _joined(body: bytes) -> bytes:
    """The pieces of a chunked body, as far as they are there."""
    whole = b""
    while body:
        size, _, rest = body.partition(b"\r\n")
        try:
            length = int(size.split(b";")[0], 16)
        except ValueError:
            break
        whole += rest[:length]
        body = rest[length + 2 :]
    return whole


def request(engine: Engine, method: str, path: str, headers: str) -> bytes:
    line = f"{method} /v{engine.api.api_version}{path} HTTP/1.1\r\nHost: docker\r\nContent-Length: 0\r\n"
    return f"{line}{headers}\r\n".encode()
