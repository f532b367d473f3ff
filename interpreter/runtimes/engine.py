"""The Docker engine: calls to it that never block the event loop, and streams into it.

Calls that change something go through the Docker SDK on a few threads. What lasts as long as a
container (its attach stream, the wait for its end), and what must not wait for a thread, is an
asyncio connection.
"""

from __future__ import annotations

import asyncio
import functools
import re
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar
from urllib.parse import urlsplit

import docker
from docker.errors import APIError, DockerException

from interpreter.errors import ConfigurationError
from interpreter.runtimes.endpoint import Endpoint, endpoint
from interpreter.runtimes.tunnel import Tunnel

__all__ = ["Endpoint", "Engine", "endpoint", "explain"]

P = ParamSpec("P")
T = TypeVar("T")

THREADS = 8
CALL_SECONDS = 120
ANSWER_SECONDS = 5
KEEPALIVE_SECONDS = 10


class Client(docker.APIClient):  # type: ignore[misc]
    """The SDK's client, deaf to what the environment says of other servers: proxies, authorities."""

    trust_env = property(lambda self: False, lambda self, value: None)


class Engine:
    """A connection to one engine. `open` it before use, `close` it after."""

    def __init__(self, endpoint: Endpoint, tunnel: Tunnel | None) -> None:
        self.endpoint = endpoint
        self._tunnel = tunnel
        self._address = tunnel.address if tunnel else endpoint.host
        self._secure = endpoint.tls.for_asyncio() if endpoint.tls else None
        self._pool = ThreadPoolExecutor(THREADS, "docker")
        self.api = Client(
            self._address.replace("tcp://", "https://") if endpoint.tls else self._address,
            version="auto",
            timeout=ANSWER_SECONDS,
            tls=endpoint.tls.for_sdk() if endpoint.tls else False,
        )
        self.api.timeout = CALL_SECONDS

    @classmethod
    async def open(cls, where: Endpoint) -> Engine:
        """Raises ConfigurationError when no engine answers there."""
        tunnel = await Tunnel.open(where.host) if where.host.startswith("ssh://") else None
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await asyncio.to_thread(cls, where, tunnel)
        except (DockerException, OSError, TimeoutError) as e:
            if tunnel is not None:
                await tunnel.close()
            raise ConfigurationError(
                f"No Docker engine answers at {where.host} ({where.origin}): {_why(e)}.",
                "Start it, or set DOCKER_HOST to where it is.",
            ) from None

    async def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Calls a method of `api` on one of the engine's threads.

        A call that has begun cannot be stopped half-way. So who is cancelled meanwhile hears of it
        when the call has ended, and can clean up what it made.
        """
        loop = asyncio.get_running_loop()
        work = loop.run_in_executor(self._pool, functools.partial(function, *args, **kwargs))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            await asyncio.wait({work})
            raise

    async def connect(self, protocol: Callable[[], asyncio.BaseProtocol]) -> asyncio.Transport:
        """A new connection to the engine's HTTP server."""
        loop = asyncio.get_running_loop()
        if self._address.startswith("unix://"):
            path = self._address.removeprefix("unix://")
            transport, _ = await loop.create_unix_connection(protocol, path)
        else:
            parts = urlsplit(self._address)
            transport, _ = await loop.create_connection(
                protocol, parts.hostname or "", parts.port or 0, ssl=self._secure
            )
            # An engine that is gone without a word is noticed in a minute or two.
            raw = transport.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_SECONDS)
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE_SECONDS)
        return transport

    async def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        await asyncio.to_thread(self.api.close)
        if self._tunnel is not None:
            await self._tunnel.close()


REASONS = {
    "FileNotFoundError": "nothing listens there",
    "ConnectionRefusedError": "nothing listens there",
    "Connection refused": "nothing listens there",
    "Permission denied": "this user may not use it",
    "CERTIFICATE_VERIFY_FAILED": "the engine's certificate is not trusted",
    "TLSV1_ALERT_UNKNOWN_CA": "the engine does not accept the gateway's certificate",
    "ALERT_BAD_CERTIFICATE": "the engine does not accept the gateway's certificate",
    "CERTIFICATE_REQUIRED": "the engine wants a certificate, and there is none to show",
    "HTTPS server": "it wants TLS: set DOCKER_TLS_VERIFY and DOCKER_CERT_PATH",
    "WRONG_VERSION_NUMBER": "it does not speak TLS",
    "timed out": "it takes too long",
}
"""Why nobody answers, found in the words of four libraries."""


def _why(error: Exception) -> str:
    said = str(error)
    for sign, reason in REASONS.items():
        if sign in said:
            return f"{reason} ({_cause(said)})" if "certificate" in reason else reason
    return said or "it takes too long"


def _cause(said: str) -> str:
    """What OpenSSL says, which tells a wrong name from an unknown authority."""
    found = re.search(r"\[SSL[^]]*\] ([^(]*)", said)
    return found[1].strip() if found else "TLS"


def explain(error: Exception) -> str:
    """What an engine's refusal says, in one line."""
    said = error.explanation if isinstance(error, APIError) and error.explanation else str(error)
    return " ".join(str(said).split())[:500]
