"""What a cell of `1+1` takes: over HTTP in an open session, and straight over ZMQ.

The promise is judged with a plain keep-alive connection, as any HTTP client has it. The SDK's own
time is shown beside it, and so is a kernel as ipykernel starts it, without our settings.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from statistics import median

from benchmarks import direct, gateway
from benchmarks.figures import Figure, Target
from benchmarks.plain_http import Connection
from interpreter import Client

CODE = "1+1"
CELLS = 20
"""Of one side, before it is the other side's turn."""


def measure(quick: bool) -> list[Figure]:
    with ExitStack() as stack:
        enter = stack.enter_context
        server = enter(gateway.running())
        (bare,) = enter(direct.running())
        kernel = enter(closing(direct.Waiting(bare.file)))
        stock = enter(closing(direct.Waiting(enter(direct.running_stock()))))
        session = server.create()
        plain = enter(closing(Connection(server.address)))
        request = server.cell(session, CODE)
        sdk = enter(Client(server.url, server.token)).session(session)
        sides: dict[str, Callable[[], object]] = {
            "http": lambda: plain.ask(request),
            "zmq": lambda: kernel.run(CODE),
            "sdk": lambda: sdk.run(CODE),
            "stock": lambda: stock.run(CODE),
        }
        times = in_turns(sides, rounds=2 if quick else 30, repeat=5 if quick else CELLS)
    same, plain_kernel = "the same kernel straight over ZMQ", "ipykernel as it comes, straight over ZMQ"
    return [
        Figure("cell over HTTP", "ms", times["http"], times["zmq"], same, Target("≤", 1.3)),
        Figure("cell by the SDK", "ms", times["sdk"], times["zmq"], same),
        Figure("cell over HTTP", "ms", times["http"], times["stock"], plain_kernel),
    ]


def in_turns(sides: dict[str, Callable[[], object]], rounds: int, repeat: int) -> dict[str, list[float]]:
    """The median milliseconds of every side in every round; the first round only warms up."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(rounds + 1):
        for name, run in sides.items():
            took = []
            for _ in range(repeat):
                start = time.perf_counter()
                run()
                took.append(time.perf_counter() - start)
            if number:
                times[name].append(median(took) * 1000)
    return times
