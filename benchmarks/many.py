"""20 sessions at once, 50 cells each, all from one client process; against 20 bare kernels.

Sessions and kernels are warm. The plain client is the measure, as in `cell`; the SDK's own cost is
shown beside it, because client and gateway share the cores here.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial

from benchmarks import direct, gateway
from benchmarks.figures import Figure, Target
from benchmarks.plain_http import AsyncConnection
from interpreter import AsyncClient

CODE = "1+1"
ROUND_SECONDS = 300.0
"""A round that takes longer has lost a kernel."""
Run = Callable[[], Awaitable[object]]


def measure(quick: bool) -> list[Figure]:
    count, cells, rounds = (3, 5, 1) if quick else (20, 50, 5)
    with gateway.running() as server, direct.running(count) as bare:
        sessions = [server.create() for _ in range(count)]
        rates = asyncio.run(_measure(server, sessions, bare, cells, rounds))
    against = f"{count} kernels straight over ZMQ"
    what = f"{count} sessions, {cells} cells each"
    return [
        Figure(what, "cells/s", rates["http"], rates["zmq"], against, Target("≥", 0.75)),
        Figure(f"{what} by the SDK", "cells/s", rates["sdk"], rates["zmq"], against),
    ]


async def _measure(
    server: gateway.Gateway,
    sessions: Sequence[str],
    bare: Sequence[direct.Kernel],
    cells: int,
    rounds: int,
) -> dict[str, list[float]]:
    async with AsyncExitStack() as stack:
        sdk = await stack.enter_async_context(AsyncClient(server.url, server.token))
        sides: dict[str, list[Run]] = {"http": [], "zmq": [], "sdk": []}
        for session, one in zip(sessions, bare, strict=True):
            connection = await AsyncConnection.open(server.address)
            stack.callback(connection.close)
            kernel = direct.Awaiting(one.file)
            await kernel.open()
            stack.callback(kernel.close)
            opened = await sdk.session(session)
            sides["http"].append(partial(connection.ask, server.cell(session, CODE)))
            sides["zmq"].append(partial(kernel.run, CODE))
            sides["sdk"].append(partial(opened.run, CODE))
        rates: dict[str, list[float]] = {name: [] for name in sides}
        for number in range(rounds + 1):
            for name, runs in sides.items():
                rate = await _rate(runs, cells if number else 3)
                if number:  # the first round only warms up
                    rates[name].append(rate)
        return rates


async def _rate(runs: Sequence[Run], cells: int) -> float:
    """Cells a second, all loops running side by side."""

    async def loop(run: Run) -> None:
        for _ in range(cells):
            await run()

    start = time.perf_counter()
    async with asyncio.timeout(ROUND_SECONDS):
        await asyncio.gather(*(loop(run) for run in runs))
    return len(runs) * cells / (time.perf_counter() - start)
