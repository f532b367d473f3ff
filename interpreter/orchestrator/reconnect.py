"""Keeping a link connected for as long as its sandbox runs.

A connection can break while the sandbox goes on: the engine that carries it is restarted, a network
fails. Then the link is connected again, at once and after ever longer pauses. The link's own
numbers see to it that everything arrives once. That a sandbox is gone is not found out here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from interpreter.errors import InterpreterError
from interpreter.link.connection import Link

log = structlog.get_logger()

Connect = Callable[[], Awaitable[asyncio.Transport]]

HELLO_SECONDS = 10.0
FIRST_PAUSE = 0.05
LONGEST_PAUSE = 2.0
STEADY_SECONDS = 10.0
"""A connection that lasted so long was a good one: the next may follow it at once."""


async def keep_connected(link: Link, connect: Connect, sandbox: str) -> None:
    """Connects a link again whenever its connection is lost, until the link is closed."""
    loop = asyncio.get_running_loop()
    since, pause = loop.time(), 0.0
    while True:
        await link.lost()
        if loop.time() - since > STEADY_SECONDS:
            pause = 0.0
        if not link.closed:
            log.warning("the link into a sandbox is lost, connecting again", sandbox=sandbox)
        while not link.closed:
            await asyncio.sleep(pause)
            pause = min(max(2 * pause, FIRST_PAUSE), LONGEST_PAUSE)
            if await _connected(link, connect):
                break
        if link.closed:
            return
        since = loop.time()
        log.info("the link into a sandbox is back", sandbox=sandbox)


async def _connected(link: Link, connect: Connect) -> bool:
    transport: asyncio.Transport | None = None
    try:
        async with asyncio.timeout(HELLO_SECONDS):
            transport = await connect()
            await link.connected()
    except (InterpreterError, OSError, TimeoutError):
        if transport is not None:
            # Also one that the link has not heard of yet: two at once would mix what they carry.
            transport.abort()
        return False
    return True
