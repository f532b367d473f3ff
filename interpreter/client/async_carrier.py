"""Taking calls to the gateway and answers back: all the input and output of `aio`.

There are three ways to go: until it is answered, as bytes as they come, and as events over as many
connections as it takes. The same three as in `carrier`, with `await`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from typing import TypeVar

import httpx

from interpreter.client.backoff import Backoff
from interpreter.client.call import Call
from interpreter.client.errors import with_hint
from interpreter.client.follow import Follow
from interpreter.client.wire import Wire
from interpreter.errors import InterpreterError
from interpreter.models import Event

T = TypeVar("T")


class AsyncCarrier:
    """For programs that await."""

    def __init__(self, wire: Wire, reconnect: float, transport: httpx.AsyncBaseTransport | None) -> None:
        self.wire = wire
        self.reconnect = reconnect
        self._http = httpx.AsyncClient(transport=transport, **wire.settings())
        self.close = self._http.aclose

    async def send(self, call: Call[T]) -> T:
        backoff = Backoff(self.reconnect, repeatable=call.repeatable)
        while True:
            backoff.trying()
            try:
                return await self._send_once(call)
            except InterpreterError as e:
                pause = backoff.pause_after(e)
            await asyncio.sleep(pause)

    async def _send_once(self, call: Call[T]) -> T:
        request = self.wire.request(call)
        if call.content is not None:
            request["content"] = _in_threads(request["content"])
        try:
            response = await self._http.request(**request)
        except httpx.TransportError as e:
            raise with_hint(self.wire.explain(e)) from None
        return call.read(response.status_code, response.headers, response.content)

    async def read(self, call: Call[None]) -> AsyncGenerator[bytes, None]:
        async with self.opened(call) as response:
            async for chunk in response.aiter_raw():
                yield chunk

    @asynccontextmanager
    async def opened(self, call: Call[None]) -> AsyncIterator[httpx.Response]:
        try:
            async with self._http.stream(**self.wire.request(call)) as response:
                if response.status_code >= 400:
                    call.read(response.status_code, response.headers, await response.aread())
                yield response
        except httpx.TransportError as e:
            raise with_hint(self.wire.explain(e)) from None

    async def follow(self, follow: Follow) -> AsyncGenerator[Event, None]:
        while not follow.finished:
            try:
                async with aclosing(self.read(follow.call())) as chunks:
                    async for chunk in chunks:
                        for event in follow.feed(chunk):
                            yield event
                pause = follow.ended()
            except InterpreterError as e:
                pause = follow.failed(e)
            await asyncio.sleep(pause)


async def _in_threads(pieces: Iterator[bytes]) -> AsyncGenerator[bytes, None]:
    """Reading files takes its time, which others can use."""
    while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
        yield piece
