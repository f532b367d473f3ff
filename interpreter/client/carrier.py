"""Taking calls to the gateway and answers back: all the input and output of `sync`.

There are three ways to go: until it is answered, as bytes as they come, and as events over as many
connections as it takes. `async_carrier` has the same three.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
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


class Carrier:
    """For programs that wait. May be used from several threads."""

    def __init__(self, wire: Wire, reconnect: float, transport: httpx.BaseTransport | None) -> None:
        self.wire = wire
        self.reconnect = reconnect
        self._http = httpx.Client(transport=transport, **wire.settings())
        self.close = weakref.finalize(self, self._http.close)

    def send(self, call: Call[T]) -> T:
        backoff = Backoff(self.reconnect, repeatable=call.repeatable)
        while True:
            backoff.trying()
            try:
                return self._send_once(call)
            except InterpreterError as e:
                pause = backoff.pause_after(e)
            time.sleep(pause)

    def _send_once(self, call: Call[T]) -> T:
        try:
            response = self._http.request(**self.wire.request(call))
        except httpx.TransportError as e:
            raise with_hint(self.wire.explain(e)) from None
        return call.read(response.status_code, response.headers, response.content)

    def read(self, call: Call[None]) -> Iterator[bytes]:
        with self.opened(call) as response:
            yield from response.iter_raw()

    @contextmanager
    def opened(self, call: Call[None]) -> Iterator[httpx.Response]:
        """The beginning of an answer, to be read with `iter_raw`."""
        try:
            with self._http.stream(**self.wire.request(call)) as response:
                if response.status_code >= 400:
                    call.read(response.status_code, response.headers, response.read())
                yield response
        except httpx.TransportError as e:
            raise with_hint(self.wire.explain(e)) from None

    def follow(self, follow: Follow) -> Iterator[Event]:
        while not follow.finished:
            try:
                for chunk in self.read(follow.call()):
                    yield from follow.feed(chunk)
                pause = follow.ended()
            except InterpreterError as e:
                pause = follow.failed(e)
            time.sleep(pause)
