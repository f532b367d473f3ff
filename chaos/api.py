"""The gateway as a client sees it that does not give up: what was cut off is asked again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from chaos.gateway import Gateway
from chaos.model import Violation

PATIENCE = 120.0
"""Seconds that an answer may take, with all the restarts in between."""
Event = tuple[int, str, dict[str, Any]]


class Api:
    """Calls that survive the gateway. `cut_off` counts how often one had to be made again."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self.cut_off = 0
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=20)
        self._http = httpx.AsyncClient(timeout=PATIENCE, trust_env=False, limits=limits)

    async def close(self) -> None:
        await self._http.aclose()

    def _options(self, headers: dict[str, str] | None) -> dict[str, Any]:
        return {"headers": {"Authorization": f"Bearer {self._gateway.token}", **(headers or {})}}

    async def once(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        """Raises httpx.TransportError when the connection breaks."""
        await self._gateway.up.wait()
        answer = await self._http.request(
            method, self._gateway.url + path, json=body, **self._options(headers)
        )
        if answer.status_code == 500:
            raise Violation(f"{method} {path}: {answer.text}")
        return answer.status_code, answer.json() if answer.content else None

    async def ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        """Asks until there is an answer."""
        try:
            async with asyncio.timeout(PATIENCE):
                while True:
                    try:
                        status, answer = await self.once(method, path, body, headers)
                    except httpx.TransportError:
                        self.cut_off += 1
                        await asyncio.sleep(0.01)
                        continue
                    if status == 503 and answer["error"]["code"] == "shutting_down":
                        await asyncio.sleep(0.05)
                        continue
                    return status, answer
        except TimeoutError:
            raise Violation(f"{method} {path} got no answer in {PATIENCE:g} s") from None

    @asynccontextmanager
    async def stream(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> AsyncIterator[tuple[int, AsyncIterator[Event]]]:
        """(status, events); raises httpx.TransportError when the connection breaks."""
        await self._gateway.up.wait()
        wanted = {"Accept": "text/event-stream", **(headers or {})}
        url = self._gateway.url + path
        async with self._http.stream(method, url, json=body, **self._options(wanted)) as answer:
            if answer.status_code == 500:
                raise Violation(f"{method} {path}: {await answer.aread()!r}")
            yield answer.status_code, _events(answer)


async def _events(answer: httpx.Response) -> AsyncIterator[Event]:
    """(seq, type, data), one after the other; half an event at the end is none."""
    rest = b""
    async for chunk in answer.aiter_bytes():
        *whole, rest = (rest + chunk).split(b"\n\n")
        for text in whole:
            fields = dict(line.split(b": ", 1) for line in text.split(b"\n") if b": " in line)
            if b"data" in fields:
                yield int(fields[b"id"]), fields[b"event"].decode(), json.loads(fields[b"data"])
