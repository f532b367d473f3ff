"""What a cell of `1+1` takes over the WebSocket of Jupyter's API: ours, and Kernel Gateway's.

Both are asked by the same client, in the older framing, which is the one that both have.
"""

from __future__ import annotations

import asyncio
import time
from statistics import median

from benchmarks import gateway, kernel_gateway
from benchmarks.cell import CODE
from benchmarks.figures import Figure, Target
from benchmarks.plain_http import Address

CELLS = 20


def measure(quick: bool) -> list[Figure]:
    rounds, cells = (2, 5) if quick else (15, CELLS)
    with gateway.running() as us, kernel_gateway.running() as them:
        session, kernel = us.create(), them.create()
        ours, theirs = asyncio.run(
            _in_turns((us.address, session), (them.address, kernel), rounds, cells)
        )
        them.delete(kernel)
        us.delete(session)
    name = "cell over the WebSocket"
    return [Figure(name, "ms", ours, theirs, kernel_gateway.NAME, Target("≤", 0.35))]


async def _in_turns(
    near: tuple[Address, str], far: tuple[Address, str], rounds: int, cells: int
) -> list[list[float]]:
    """The medians of every round, of both sides; the first round only warms up."""
    sides = [await kernel_gateway.Channels.open(*side) for side in (near, far)]
    times: list[list[float]] = [[], []]
    for number in range(rounds + 1):
        for channels, took in zip(sides, times, strict=True):
            median_ms = await _cell(channels, cells)
            if number:
                took.append(median_ms)
    for channels in sides:
        await channels.close()
    return times


async def _cell(channels: kernel_gateway.Channels, cells: int) -> float:
    """The median milliseconds from the request until the reply and idle are there."""
    took = []
    for _ in range(cells):
        start = time.perf_counter()
        async for _message in channels.run(CODE):
            pass
        took.append(time.perf_counter() - start)
    return median(took) * 1000
