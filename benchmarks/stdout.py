"""100 MB printed by a cell and streamed to a client, every byte accounted for.

Ours is read from the socket with the SDK's own event parser, and through the whole SDK; Kernel
Gateway, with its limits off, through its WebSocket. Both clients decode JSON with msgspec.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing

from benchmarks import gateway, kernel_gateway, rest
from benchmarks.figures import Figure, Target
from interpreter import Client
from interpreter.client.sse import EventParser
from interpreter.models import Event, EventType

LINE = 1000
CODE = "for i in range({lines}): print(f'{{i:0999}}')"
CHUNK = 1024 * 1024


def measure(quick: bool) -> list[Figure]:
    rounds, lines = (1, 1000) if quick else (5, 100_000)
    code = CODE.format(lines=lines)
    raw: list[float] = []
    sdk: list[float] = []
    theirs: list[float] = []
    with gateway.running() as us, kernel_gateway.running(*kernel_gateway.NO_LIMITS) as them:
        session, kernel = us.create(), them.create()
        for _ in range(rounds):
            for pid in (us.pid, them.pid):
                rest.wait_for(pid)
            raw.append(_rate(lines, lambda: _raw(us, session, code)))
            rest.wait_for(us.pid)
            theirs.append(_rate(lines, lambda: asyncio.run(_theirs(them, kernel, code))))
            rest.wait_for(them.pid)
            sdk.append(_rate(lines, lambda: _sdk(us, session, code)))
    note = f"limits off; {lines * LINE // 1_000_000} MB, nothing lost"
    return [
        Figure("stdout, streamed", "MB/s", raw, theirs, kernel_gateway.NAME, Target("≥", 1.5), note),
        Figure("stdout, by the SDK", "MB/s", sdk, theirs, kernel_gateway.NAME, note=note),
    ]


def _rate(lines: int, run: Callable[[], list[str]]) -> float:
    """Megabytes a second, once it is certain that all of it came, in order."""
    start = time.perf_counter()
    pieces = run()
    took = time.perf_counter() - start
    expected = "".join(f"{i:0999}\n" for i in range(lines))
    text = "".join(pieces)
    if text != expected:
        raise AssertionError(f"{len(text):,} of {len(expected):,} characters came, or in another order")
    return len(text) / 1e6 / took


def _raw(server: gateway.Gateway, session: str, code: str) -> list[str]:
    with closing(http.client.HTTPConnection(server.address.host, server.address.port)) as connection:
        headers = {
            "Authorization": f"Bearer {server.token}",
            "Content-Type": "application/json",
            "Accept": "text/event-stream",
        }
        body = json.dumps({"code": code, "timeout": 300})
        connection.request("POST", f"/v1/sessions/{session}/executions", body, headers)
        answer, parser = connection.getresponse(), EventParser()

        def events() -> Iterator[Event]:
            while chunk := answer.read1(CHUNK):
                yield from parser.feed(chunk)

        return _texts(events())


def _sdk(server: gateway.Gateway, session: str, code: str) -> list[str]:
    with Client(server.url, server.token) as client:
        return _texts(client.session(session).stream(code, timeout=300))


def _texts(events: Iterator[Event]) -> list[str]:
    return [event.data["text"] for event in events if event.type is EventType.stream]


async def _theirs(server: kernel_gateway.KernelGateway, kernel: str, code: str) -> list[str]:
    channels = await kernel_gateway.Channels.open(server.address, kernel)
    texts = [
        message["content"]["text"]
        async for message in channels.run(code)
        if message["msg_type"] == "stream"
    ]
    await channels.close()
    return texts
