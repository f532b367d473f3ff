"""From nothing to a first result: a new session with a spare ready, and a new kernel elsewhere.

Ours ends with the answer to `1+1`; theirs with the `execute_result` message. Before every round
both sides are left to come to rest, so that a spare stands ready and no start is in another's way.
"""

from __future__ import annotations

import asyncio
import time

from benchmarks import gateway, kernel_gateway, rest
from benchmarks.figures import Figure, Target


def measure(quick: bool) -> list[Figure]:
    rounds = 2 if quick else 12
    ours: list[float] = []
    theirs: list[float] = []
    with gateway.running() as us, kernel_gateway.running() as them:
        while len(theirs) < rounds:
            rest.wait_for(us.pid)
            took = _ours(us)
            if took is None:
                continue
            rest.wait_for(us.pid)
            rest.wait_for(them.pid)
            ours.append(took)
            theirs.append(asyncio.run(_theirs(them)))
    name = "session create → first result"
    return [Figure(name, "ms", ours, theirs, kernel_gateway.NAME, Target("≤", 0.25))]


def _ours(server: gateway.Gateway) -> float | None:
    """Milliseconds; None when there was no spare."""
    start = time.perf_counter()
    session = server.ask("POST", "/v1/sessions", {})
    answer = server.run(session["id"], "1+1")
    took = time.perf_counter() - start
    assert answer["text"] == "2", answer
    server.delete(session["id"])
    return took * 1000 if session["warm"] else None


async def _theirs(server: kernel_gateway.KernelGateway) -> float:
    start = time.perf_counter()
    kernel = server.create()
    channels = await kernel_gateway.Channels.open(server.address, kernel)
    result = 0.0
    async for message in channels.run("1+1"):
        if message["msg_type"] == "execute_result":
            result = time.perf_counter()
    await channels.close()
    server.delete(kernel)
    assert result
    return (result - start) * 1000
