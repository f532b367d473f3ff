"""What does not have to be waited for: a warm session, a paused one, another context. On Docker.

Each is compared with a cell of `1+1` in an open session of the same gateway, in the same round.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from statistics import median

from benchmarks import gateway, rest
from benchmarks.cell import CODE
from benchmarks.figures import Figure, Target
from benchmarks.plain_http import Connection
from tests import engine

CELLS = 20
FILL_SECONDS = 120.0
CELL = "a cell in an open session"


def measure(quick: bool) -> list[Figure]:
    rounds = 2 if quick else 15
    times: dict[str, list[float]] = {
        "cell": [],
        "warm": [],
        "paused": [],
        "by itself": [],
        "context": [],
    }
    with ExitStack() as stack:
        enter = stack.enter_context
        enter(engine.running())
        server = enter(gateway.running(runtime="docker", spares="2"))
        plain = enter(closing(Connection(server.address)))
        session = server.create()
        request = server.cell(session, CODE)
        while len(times["context"]) <= rounds:
            _wait_until_filled(server)
            rest.wait_for(server.pid)
            times["cell"].append(median(_timed(lambda: plain.ask(request)) for _ in range(CELLS)))
            took = _warm(server)
            if took is None:
                times["cell"].pop()
                continue
            times["warm"].append(took)
            rest.wait_for(server.pid)
            server.ask("POST", f"/v1/sessions/{session}/pause")
            server.ask("POST", f"/v1/sessions/{session}/resume")
            times["paused"].append(_timed(lambda: plain.ask(request)))
            server.ask("POST", f"/v1/sessions/{session}/pause")
            times["by itself"].append(_timed(lambda: plain.ask(request)))
            times["context"].append(_timed(lambda: _context(server, session)))
            server.ask("DELETE", f"/v1/sessions/{session}/contexts/b")
    cell, warm, paused, itself, context = (values[1:] for values in times.values())
    return [
        Figure("warm: create → first result", "ms", warm, cell, CELL, Target("≤", 3)),
        Figure("paused: first cell after resume", "ms", paused, cell, CELL, Target("≤", 5)),
        Figure("paused: a cell that resumes it", "ms", itself, cell, CELL),
        Figure("context: create → first result", "ms", context, cell, CELL),
    ]


def _timed(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return (time.perf_counter() - start) * 1000


def _wait_until_filled(server: gateway.Gateway) -> None:
    """Until as many stand ready as should: one that is still being made is waited for."""
    deadline = time.monotonic() + FILL_SECONDS
    while True:
        pools = server.ask("GET", "/v1/status")["pools"]
        if all(pool["ready"] >= pool["target"] and not pool["being_made"] for pool in pools):
            return
        if time.monotonic() > deadline:
            raise TimeoutError(f"the pools are not filled: {pools}")
        time.sleep(0.02)


def _warm(server: gateway.Gateway) -> float | None:
    """Milliseconds; None when none stood ready."""
    start = time.perf_counter()
    session = server.ask("POST", "/v1/sessions", {})
    answer = server.run(session["id"], CODE)
    took = (time.perf_counter() - start) * 1000
    assert answer["text"] == "2", answer
    server.delete(session["id"])
    return took if session["warm"] else None


def _context(server: gateway.Gateway, session: str) -> None:
    server.ask("POST", f"/v1/sessions/{session}/contexts", {"name": "b"})
    body = {"code": CODE, "context": "b"}
    answer = server.ask("POST", f"/v1/sessions/{session}/executions", body)
    assert answer["text"] == "2", answer
