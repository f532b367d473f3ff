"""Sessions as containers: next to the same image run by hand with a stock kernel in it.

Both sides have the same limits and no network. By hand means through the same engine's API, a
connection over unix sockets in a folder that the container shares, and jupyter_client.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import docker
import psutil  # type: ignore[import-untyped]

from benchmarks import direct, gateway
from benchmarks.cell import CELLS, CODE, in_turns
from benchmarks.figures import Figure, Target
from benchmarks.plain_http import Connection
from interpreter import Client
from interpreter.runtimes import payload
from interpreter.runtimes.engine import endpoint

IMAGE = "interpreter/python"
FITTED = "interpreter/fitted"
PYTHON = "/opt/kernel/bin/python"
PRELOAD = ["numpy", "pandas", "matplotlib.pyplot"]
OURS = (
    "import os; from interpreter.sandbox import zygote; zygote.preload({preload}); "
    "from interpreter.sandbox import kernel; kernel.run('/k/c.json', '/tmp', os.dup(2))"
)
STOCK = ["-m", "ipykernel_launcher", "-f", "/k/c.json"]
IDLE_SESSIONS = 10


def measure(quick: bool) -> list[Figure]:
    rounds = 1 if quick else 7
    with ExitStack() as stack:
        enter = stack.enter_context
        api = enter(closing(docker.APIClient(endpoint().host, version="auto")))
        server = enter(gateway.running(runtime="docker", spares="0"))
        fitted = _fitted(api)
        times = _starts(server, api, rounds)
        session = server.create()
        kernel = enter(
            closing(
                direct.Waiting(enter(by_hand(api, fitted, ["-P", "-c", OURS.format(preload=PRELOAD)])))
            )
        )
        plain = enter(closing(Connection(server.address)))
        request = server.cell(session, CODE)
        sides: dict[str, Callable[[], object]] = {
            "http": lambda: plain.ask(request),
            "zmq": lambda: kernel.run(CODE),
        }
        cells = in_turns(sides, rounds=2 if quick else 30, repeat=5 if quick else CELLS)
        memory = _idle_memory(server, 2 if quick else IDLE_SESSIONS)
    run, zmq = "docker run of the image, stock ipykernel", "the same kernel in a container, by ZMQ"
    cold, restart, by_run = times["cold"], times["restart"], times["run"]
    note = "pandas and pyplot loaded"
    return [
        Figure("container: create → first result", "ms", cold, by_run, run, Target("≤", 1.15)),
        Figure("container: restart → first result", "ms", restart, by_run, run, Target("≤", 0.25)),
        Figure("container: cell over HTTP", "ms", cells["http"], cells["zmq"], zmq, Target("≤", 1.3)),
        Figure("container: memory of an idle session", "MB", [memory], note=note),
    ]


def _starts(server: gateway.Gateway, api: Any, rounds: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {"cold": [], "run": [], "restart": []}
    with Client(server.url, server.token) as client:
        for _ in range(rounds + 1):
            took = {"cold": 0.0, "run": 0.0, "restart": 0.0}
            start = time.perf_counter()
            session = client.session()
            session.run(CODE)
            took["cold"] = time.perf_counter() - start
            start = time.perf_counter()
            with by_hand(api, IMAGE, STOCK) as file, closing(direct.Waiting(file)) as kernel:
                kernel.run(CODE)
                took["run"] = time.perf_counter() - start
            start = time.perf_counter()
            session.restart()
            session.run(CODE)
            took["restart"] = time.perf_counter() - start
            session.delete()
            for name, seconds in took.items():
                times[name].append(seconds * 1000)
    return {name: values[1:] for name, values in times.items()}  # the first round only warms up


def _fitted(api: Any) -> str:
    """The newest image that the runtime made of ours."""
    found = [image for image in api.images(FITTED) if image["RepoTags"]]
    return str(max(found, key=lambda image: image["Created"])["Id"])


@contextmanager
def by_hand(api: Any, image: str, command: list[str]) -> Iterator[str]:
    """The connection file of a kernel in a container that nobody but this function looks after."""
    folder = tempfile.mkdtemp(prefix="k-", dir="/tmp")
    os.chmod(folder, 0o777)
    inside = {"transport": "ipc", "ip": "/k/c", "key": "", "signature_scheme": "hmac-sha256"}
    ports = {f"{name}_port": n for n, name in enumerate(("shell", "iopub", "stdin", "hb", "control"), 1)}
    Path(folder, "c.json").write_text(json.dumps({**inside, **ports}))
    Path(folder, "host.json").write_text(json.dumps({**inside, **ports, "ip": f"{folder}/c"}))
    memory = 2048 * 1024 * 1024
    made = api.create_container(
        image, entrypoint=[PYTHON], command=command, user="1000:1000", detach=True,
        environment={"HOME": "/tmp", "PYTHONPATH": payload.IN_SANDBOX, "MPLCONFIGDIR": "/tmp"},
        host_config=api.create_host_config(
            network_mode="none", read_only=True, tmpfs={"/tmp": "rw,exec,size=1g"}, cap_drop=["ALL"],
            binds=[f"{folder}:/k"], mem_limit=memory, memswap_limit=memory, pids_limit=256,
            cpu_period=20_000, cpu_quota=20_000,
        ),
    )["Id"]  # fmt: skip
    try:
        api.start(made)
        yield f"{folder}/host.json"
    finally:
        api.remove_container(made, force=True)
        shutil.rmtree(folder, ignore_errors=True)


def _idle_memory(server: gateway.Gateway, count: int) -> float:
    """Megabytes that one idle session takes, shared pages counted once."""
    before = psutil.virtual_memory().available
    sessions = [server.create() for _ in range(count)]
    for session in sessions:
        server.run(session, "import pandas, matplotlib.pyplot")
    used = before - psutil.virtual_memory().available
    for session in sessions:
        server.delete(session)
    return float(used / count / 1e6)
