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

CELLS = 20


def measure(quick: bool) -> list[Figure]:
    return asyncio.run(_measure(rounds=2 if quick else 15, cells=5 if quick else CELLS))


async def _measure(rounds: int, cells: int) -> list[Figure]:
    ours: list[float] = []
    theirs: list[float] = []
    with gateway.running() as us, kernel_gateway.running() as them:
        session, kernel = us.create(), them.create()
        near = await kernel_gateway.Channels.open(us.address, session)
        far = await kernel_gateway.Channels.open(them.address, kernel)
        for _ in range(rounds + 1):
            ours.append(await _cell(near, cells))
            theirs.append(await _cell(far, cells))
        await near.close()
        await far.close()
        them.delete(kernel)
        us.delete(session)
    name = "cell over the WebSocket"
    return [Figure(name, "ms", ours[1:], theirs[1:], kernel_gateway.NAME, Target("≤", 0.35))]


async def _cell(channels: kernel_gateway.Channels, cells: int) -> float:
    """The median milliseconds from the request until the reply and idle are there."""
    took = []
    for _ in range(cells):
        start = time.perf_counter()
        async for _message in channels.run(CODE):
            pass
        took.append(time.perf_counter() - start)
    return median(took) * 1000
