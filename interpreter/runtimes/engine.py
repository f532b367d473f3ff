"""The Docker engine: where it is, calls to it that never block the event loop, streams into it.

Where it is, is decided as Docker's own command does: `DOCKER_HOST`, else `DOCKER_CONTEXT`, else the
current context. Calls go through the Docker SDK on a few threads. What lasts as long as a
container (its attach stream, the wait for its end) is an asyncio connection and no thread.
"""

from __future__ import annotations

import asyncio
import functools
import os
import ssl
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import ParamSpec, TypeVar
from urllib.parse import urlsplit

import docker
from docker.errors import APIError, DockerException
from docker.tls import TLSConfig

from interpreter.errors import ConfigurationError
from interpreter.runtimes.tunnel import Tunnel

P = ParamSpec("P")
T = TypeVar("T")

THREADS = 8
CALL_SECONDS = 120
ANSWER_SECONDS = 5
DEFAULT_HOST = "unix:///var/run/docker.sock"


@dataclass(frozen=True)
class Endpoint:
    """Where an engine is, and who said so."""

    host: str
    tls: TLSConfig | None
    origin: str

    @property
    def local(self) -> bool:
        """Whether it is on this machine, as far as its address tells."""
        return self.host.startswith("unix://")


def endpoint(environ: Mapping[str, str] = os.environ) -> Endpoint:
    """The engine that a Docker user would expect. Raises ConfigurationError."""
    if host := environ.get("DOCKER_HOST"):
        tls = docker.utils.kwargs_from_env(dict(environ)).get("tls")
        return Endpoint(host, tls, "DOCKER_HOST")
    name = environ.get("DOCKER_CONTEXT") or None
    try:
        context = docker.context.ContextAPI.get_context(name)
    except DockerException as e:
        raise ConfigurationError(f"Docker's context cannot be read: {e}.") from None
    if context is None:
        raise ConfigurationError(
            f"There is no Docker context '{name}'.", "'docker context ls' shows those there are."
        )
    if context.name == "default":
        return Endpoint(DEFAULT_HOST, None, "the default")
    return Endpoint(context.Host, context.TLSConfig, f"the context {context.name}")


class Engine:
    """A connection to one engine. `open` it before use, `close` it after."""

    def __init__(self, endpoint: Endpoint, tunnel: Tunnel | None) -> None:
        self.endpoint = endpoint
        self._tunnel = tunnel
        self._address = tunnel.address if tunnel else endpoint.host
        self._pool = ThreadPoolExecutor(THREADS, "docker")
        self.api = docker.APIClient(
            self._address.replace("tcp://", "https://") if endpoint.tls else self._address,
            version="auto",
            timeout=CALL_SECONDS,
            tls=endpoint.tls or False,
        )

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
            secure = _ssl_context(self.endpoint.tls) if self.endpoint.tls else None
            port = parts.port or (2376 if secure else 2375)
            transport, _ = await loop.create_connection(
                protocol,
                parts.hostname or "",
                port,
                ssl=secure,
                server_hostname=parts.hostname if secure and secure.check_hostname else None,
            )
        return transport

    async def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        await asyncio.to_thread(self.api.close)
        if self._tunnel is not None:
            await self._tunnel.close()


def _why(error: Exception) -> str:
    """Why nobody answers, without the words of four libraries around it."""
    said = str(error)
    for sign in ("FileNotFoundError", "ConnectionRefusedError", "Connection refused"):
        if sign in said:
            return "nothing listens there"
    if "Permission denied" in said:
        return "this user may not use it"
    return said or "it takes too long"


def _ssl_context(tls: TLSConfig) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=tls.ca_cert or None)
    if not tls.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if tls.cert:
        context.load_cert_chain(*tls.cert)
    return context


def explain(error: Exception) -> str:
    """What an engine's refusal says, in one line."""
    said = error.explanation if isinstance(error, APIError) and error.explanation else str(error)
    return " ".join(str(said).split())[:500]
