"""Where a cell's time goes: `1+1` through one more layer of ours at a time.

Each row is the whole way up to its layer; what a layer costs is the difference to the row before
it. The kernel is the same in all of them.
"""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, ExitStack, closing
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import direct, gateway, kernels
from benchmarks.bare_zmq import BareZmq
from benchmarks.cell import CELLS, CODE, in_turns
from benchmarks.figures import Figure
from benchmarks.plain_http import Connection
from benchmarks.relayed import Relayed
from interpreter import Client
from interpreter.config import Config
from interpreter.models import ExecutionCreate, SessionCreate
from interpreter.orchestrator import LiveSession, Orchestrator
from interpreter.runtimes import prepared
from interpreter.store import Store


def measure(quick: bool) -> list[Figure]:
    with ExitStack() as stack:
        enter = stack.enter_context
        loop = enter(closing(asyncio.new_event_loop()))
        first, second = enter(direct.running(2))
        bare = enter(closing(BareZmq(first.file)))
        kernel = enter(closing(direct.Waiting(second.file)))
        inside = AsyncExitStack()
        stack.callback(lambda: loop.run_until_complete(inside.aclose()))
        relayed, session = loop.run_until_complete(_open(inside))
        server = enter(gateway.running())
        opened = server.create()
        plain = enter(closing(Connection(server.address)))
        request = server.cell(opened, CODE)
        sdk = enter(Client(server.url, server.token)).session(opened)

        def awaited(run: Callable[[], Coroutine[Any, Any, object]]) -> Callable[[], object]:
            return lambda: loop.run_until_complete(run())

        numbers = itertools.count()

        async def submitted() -> object:
            return await session.submit_now(f"e-{next(numbers):016x}", ExecutionCreate(code=CODE)).done

        sides: dict[str, Callable[[], object]] = {
            "kernel, bare sockets": lambda: bare.run(CODE),
            "kernel, jupyter_client": lambda: kernel.run(CODE),
            "kernel, sandbox, link": awaited(lambda: relayed.run(CODE)),
            "… and orchestrator, store": awaited(submitted),
            "… and HTTP": lambda: plain.ask(request),
            "… and SDK": lambda: sdk.run(CODE),
        }
        times = in_turns(sides, rounds=2 if quick else 30, repeat=5 if quick else CELLS)
    figures, before = [], 0.0
    for name, values in times.items():
        note = f"{median(values) - before:+.2f} ms" if before else ""
        figures.append(Figure(f"layers: {name}", "ms", values, note=note))
        if name != "kernel, jupyter_client":  # beside our way, not on it
            before = median(values)
    return figures


async def _open(stack: AsyncExitStack) -> tuple[Relayed, LiveSession]:
    """A sandbox driven over its link alone, and a session of an orchestrator without a gateway."""
    data = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="interpreter-bench-")))
    config = Config(data_dir=str(data), kernels_dir=str(kernels.folder()), spares=0, on_shutdown="stop")
    runtime = await prepared(config, print)
    store = await Store.open(data / "interpreter.db")
    stack.push_async_callback(store.close)
    orchestrator = Orchestrator(config, store, runtime)
    await orchestrator.start()
    stack.push_async_callback(orchestrator.close)
    session = await orchestrator.create(SessionCreate())
    workspace = data / "relayed"
    workspace.mkdir()
    relayed = await Relayed.open(runtime, config, workspace)
    stack.push_async_callback(relayed.close)
    return relayed, session
