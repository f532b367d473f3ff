"""What a cell of `1+1` takes in processor time, process by process.

Times on a busy machine say little, but the work that is done stays the same. The sum of it is
what bounds how many cells a machine can run; the other side is a bare kernel and its client.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack, closing

import psutil  # type: ignore[import-untyped]

from benchmarks import direct, gateway, rest
from benchmarks.cell import CODE
from benchmarks.figures import Figure
from benchmarks.plain_http import Connection

PARTS = {
    "interpreter.cli": "the gateway",
    "interpreter.sandbox.zygote": "the kernel",
    "interpreter.sandbox": "the kernel host",
}
CLIENT = "the client"
Times = dict[str, float]


def measure(quick: bool) -> list[Figure]:
    rounds, cells = (2, 10) if quick else (8, 200)
    with ExitStack() as stack:
        enter = stack.enter_context
        server = enter(gateway.running())
        (bare,) = enter(direct.running())
        kernel = enter(closing(direct.Waiting(bare.file)))
        plain = enter(closing(Connection(server.address)))
        request = server.cell(server.create(), CODE)
        ours: list[Times] = []
        theirs: list[Times] = []
        for _ in range(rounds):
            ours.append(_of_one_cell(lambda: plain.ask(request), server.pid, cells))
            theirs.append(_of_one_cell(lambda: kernel.run(CODE), bare.pid, cells))
    against = "a bare kernel and its client"
    return [
        Figure("CPU of a cell", "ms", _totals(ours), _totals(theirs), against),
        Figure("CPU: the client", "ms", _column(ours, CLIENT), _column(theirs, CLIENT)),
        Figure("CPU: the gateway", "ms", _column(ours, "the gateway")),
        Figure("CPU: the kernel host", "ms", _column(ours, "the kernel host")),
        Figure("CPU: the kernel", "ms", _column(ours, "the kernel"), _column(theirs, "the kernel")),
    ]


def _of_one_cell(run: Callable[[], object], pid: int, cells: int) -> Times:
    """Milliseconds of a cell by part, with everything that is done after it was answered."""
    rest.wait_for(pid)
    before = _used(pid)
    for _ in range(cells):
        run()
    client = time.process_time()
    rest.wait_for(pid)
    waiting = time.process_time() - client
    after = _used(pid)
    after[CLIENT] -= waiting
    return {part: (after[part] - before.get(part, 0.0)) * 1000 / cells for part in after}


def _used(pid: int) -> Times:
    root = psutil.Process(pid)
    used = {CLIENT: time.process_time()}
    for process in [root, *root.children(recursive=True)]:
        try:
            command, times = process.cmdline(), process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        part = next((PARTS[word] for word in command if word in PARTS), "the rest")
        used[part] = used.get(part, 0.0) + times.user + times.system
    return used


def _totals(rounds: list[Times]) -> list[float]:
    return [sum(times.values()) for times in rounds]


def _column(rounds: list[Times], part: str) -> list[float]:
    return [times[part] for times in rounds]
