"""Many sessions: asked for at once, idle together, and found again by the next gateway.

Their environment has nothing preloaded, so that two hundred of them fit into a small machine.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import psutil  # type: ignore[import-untyped]

from benchmarks import gateway, rest
from benchmarks.cell import CODE
from benchmarks.figures import Figure, Target
from interpreter import Client

BARE = """
default_environment = "bare"
spares = 2
max_sessions = 1000
max_creating = 4
memory_overcommit = 1000
cpu_overcommit = 1000
queue_seconds = 900
[environments.bare]
[limits]
memory_mb = 512
disk_mb = 64
"""
AT_ONCE, IDLE = 50, 200
WATCHED_SECONDS = 10.0
LITTLE_CPU, FEW_WAKES = 5.0, 1.0
"""In a second."""


def measure(quick: bool) -> list[Figure]:
    at_once, idle = (3, 4) if quick else (AT_ONCE, IDLE)
    watched = 1.0 if quick else WATCHED_SECONDS
    with gateway.running(settings_file=BARE) as server:
        rest.wait_for(server.pid)
        asked = _at_once(server, at_once)
        crowd = [server.create() for _ in range(idle - at_once)]
        rest.wait_for(server.pid)
        memory = [
            server.ask("GET", f"/v1/sessions/{session}")["usage"]["memory_bytes"] / 1e6
            for session in crowd[-20:]
        ]
        cpu, wakes, resident = _watch(server.pid, watched)
    alone, together = _restarts(1 if quick else 5, at_once)
    with_none = "the start of a gateway that has none"
    return [
        Figure(f"{at_once} sessions at once → each one's first result", "ms", asked),
        Figure(f"memory of one of {idle} idle sessions", "MB", memory, note="nothing preloaded"),
        Figure(
            f"CPU of the gateway with {idle} idle sessions",
            "ms/s", [cpu], [LITTLE_CPU], "five thousandths of a processor", Target("≤", 1),
        ),
        Figure(
            f"wake-ups of the gateway with {idle} idle sessions",
            "1/s", [wakes], [FEW_WAKES], "one in a second, for all of them", Target("≤", 1),
        ),
        Figure(f"memory of the gateway with {idle} idle sessions", "MB", [resident]),
        Figure(
            f"restart with {at_once} sessions → all usable",
            "ms", together, alone, with_none, Target("≤", 3),
        ),
    ]  # fmt: skip


def _at_once(server: gateway.Gateway, count: int) -> list[float]:
    """Milliseconds until each had its first result, all asked for at the same moment."""
    start = time.perf_counter()

    def one(_: int) -> float:
        with Client(server.url, server.token, timeout=900) as client:
            session = client.create_session()
            assert session.run(CODE).text == "2"
            return (time.perf_counter() - start) * 1000

    with ThreadPoolExecutor(count) as threads:
        return sorted(threads.map(one, range(count)))


def _watch(pid: int, seconds: float) -> tuple[float, float, float]:
    """Milliseconds of CPU and wake-ups in a second, and megabytes, of a process left to itself."""
    process = psutil.Process(pid)
    before, woken = process.cpu_times(), process.num_ctx_switches().voluntary
    time.sleep(seconds)
    after = process.cpu_times()
    used = after.user + after.system - before.user - before.system
    wakes = process.num_ctx_switches().voluntary - woken
    return max(0.0, used) * 1000 / seconds, wakes / seconds, process.memory_info().rss / 1e6


def _restarts(rounds: int, count: int) -> tuple[list[float], list[float]]:
    """Milliseconds from the start of a gateway until it answers, and until all sessions of another do,
    one after the other in each round."""
    alone, together = [], []
    with _own() as empty, _own() as full:
        with empty.started() as server:
            server.ask("GET", "/healthz")
        with full.started() as server:
            sessions = [server.create() for _ in range(count)]
            rest.wait_for(server.pid)
        for _ in range(rounds):
            start = time.perf_counter()
            with empty.started() as server:
                server.ask("GET", "/healthz")
                alone.append((time.perf_counter() - start) * 1000)
            start = time.perf_counter()
            with full.started() as server:
                for session in sessions:
                    assert server.run(session, CODE)["text"] == "2"
                together.append((time.perf_counter() - start) * 1000)
        with full.started() as server:
            for session in sessions:
                server.delete(session)
    return alone, together


@contextmanager
def _own() -> Iterator[gateway.Restarted]:
    with gateway.folder(BARE.replace("spares = 2", "spares = 0")) as place:
        yield gateway.Restarted(Path(place))
