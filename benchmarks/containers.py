"""Sessions as containers: next to the same image run by hand with a stock kernel in it.

Both sides have the same limits and no network. By hand means through the same engine's API, a
connection over unix sockets in a folder that the container shares, and jupyter_client. The engine is
the one that the tests use: the one that runs here, or a private one.
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

from benchmarks import direct, gateway
from benchmarks.cell import CELLS, CODE, in_turns
from benchmarks.figures import Figure, Target
from benchmarks.plain_http import Connection
from interpreter.config import Config
from interpreter.models import Limits
from interpreter.runtimes import payload
from interpreter.runtimes.container import SANDBOX, environ, limits_for_engine
from tests import engine

IMAGE = "interpreter/python"
PYTHON = "/opt/kernel/bin/python"
OURS = (
    "import os; from interpreter.sandbox import zygote; zygote.preload({preload}); "
    "from interpreter.sandbox import kernel; kernel.run('/k/c.json', '/tmp', os.dup(2))"
)
STOCK = ["-m", "ipykernel_launcher", "-f", "/k/c.json"]
IDLE_SESSIONS = 10
USE = "import numpy, pandas, matplotlib.pyplot"
PRELOAD = ["numpy", "pandas", "matplotlib.pyplot"]
"""What the image says is to be loaded before there is a kernel."""


def measure(quick: bool) -> list[Figure]:
    with ExitStack() as stack:
        enter = stack.enter_context
        api = enter(engine.running())
        server = enter(gateway.running(runtime="docker", spares="0"))
        starts = _starts(server, api, rounds=1 if quick else 7)
        cells = _cells(server, api, rounds=2 if quick else 30, repeat=5 if quick else CELLS)
        memory = _idle_memory(server, 2 if quick else IDLE_SESSIONS)
    run, zmq = "docker run of the image, stock ipykernel", "the same kernel in a container, by ZMQ"
    cold, restart, by_run = starts["cold"], starts["restart"], starts["run"]
    return [
        Figure("container: create → first result", "ms", cold, by_run, run, Target("≤", 1.15)),
        Figure("container: restart → first result", "ms", restart, by_run, run, Target("≤", 0.25)),
        Figure("container: cell over HTTP", "ms", cells["http"], cells["zmq"], zmq, Target("≤", 1.3)),
        Figure("container: memory of an idle session", "MB", memory, note="pandas, pyplot loaded"),
    ]


def _starts(server: gateway.Gateway, api: Any, rounds: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {"cold": [], "run": [], "restart": []}

    def timed(name: str, run: Callable[[], None]) -> None:
        start = time.perf_counter()
        run()
        times[name].append((time.perf_counter() - start) * 1000)

    def restart(session: str) -> None:
        server.ask("POST", f"/v1/sessions/{session}/restart")
        server.run(session, CODE)

    for _ in range(rounds + 1):
        made: list[str] = []

        def cold(made: list[str] = made) -> None:
            made.append(server.create())
            server.run(made[0], CODE)

        timed("cold", cold)
        with ExitStack() as stack:
            timed("run", lambda stack=stack: _first_result(stack, api))  # type: ignore[misc]
        timed("restart", lambda made=made: restart(made[0]))  # type: ignore[misc]
        server.delete(made[0])
    return {name: values[1:] for name, values in times.items()}  # the first round only warms up


def _first_result(stack: ExitStack, api: Any) -> None:
    file = stack.enter_context(by_hand(api, IMAGE, STOCK))
    stack.enter_context(closing(direct.Waiting(file))).run(CODE)


def _cells(server: gateway.Gateway, api: Any, rounds: int, repeat: int) -> dict[str, list[float]]:
    """The same kernel on both sides, each in a container of its own."""
    session = server.create()
    ours = ["-P", "-c", OURS.format(preload=PRELOAD)]
    with ExitStack() as stack:
        file = stack.enter_context(by_hand(api, _fitted(api, session), ours))
        kernel = stack.enter_context(closing(direct.Waiting(file)))
        plain = stack.enter_context(closing(Connection(server.address)))
        request = server.cell(session, CODE)
        sides: dict[str, Callable[[], object]] = {
            "http": lambda: plain.ask(request),
            "zmq": lambda: kernel.run(CODE),
        }
        times = in_turns(sides, rounds, repeat)
    server.delete(session)
    return times


def _fitted(api: Any, session: str) -> str:
    """The image that the runtime made of ours: it has the kernel host's code in it."""
    (found,) = api.containers(filters={"label": f"{SANDBOX}={session}"})
    return str(found["ImageID"])


@contextmanager
def by_hand(api: Any, image: str, command: list[str]) -> Iterator[str]:
    """The connection file of a kernel in a container that nobody but this function looks after."""
    folder = tempfile.mkdtemp(prefix="k-", dir="/tmp")
    os.chmod(folder, 0o777)
    connection: dict[str, Any] = {"transport": "ipc", "key": "", "signature_scheme": "hmac-sha256"}
    for number, name in enumerate(("shell", "iopub", "stdin", "hb", "control"), 1):
        connection[f"{name}_port"] = number
    Path(folder, "c.json").write_text(json.dumps({**connection, "ip": "/k/c"}))
    Path(folder, "host.json").write_text(json.dumps({**connection, "ip": f"{folder}/c"}))
    limits = Config().limits
    made = api.create_container(
        image, entrypoint=[PYTHON], command=command, user="1000:1000", detach=True,
        environment={**environ("by-hand", limits), "HOME": "/tmp", "PYTHONPATH": payload.IN_SANDBOX},
        host_config=_host_config(api, folder, limits),
    )["Id"]  # fmt: skip
    try:
        api.start(made)
        yield f"{folder}/host.json"
    except Exception as e:
        e.add_note(f"The container's log:\n{api.logs(made).decode(errors='replace')[-4000:]}")
        raise
    finally:
        api.remove_container(made, force=True, v=True)
        shutil.rmtree(folder, ignore_errors=True)


def _host_config(api: Any, folder: str, limits: Limits) -> Any:
    return api.create_host_config(
        network_mode="none", read_only=True, tmpfs={"/tmp": "rw,exec,mode=1777,size=1g"},
        cap_drop=["ALL"], security_opt=["no-new-privileges"], binds=[f"{folder}:/k"], init=True,
        **limits_for_engine(limits),
    )  # fmt: skip


def _idle_memory(server: gateway.Gateway, count: int) -> list[float]:
    """Megabytes that each of so many idle sessions takes, as its control group counts them."""
    sessions = [server.create() for _ in range(count)]
    for session in sessions:
        server.run(session, USE)
    used = [
        server.ask("GET", f"/v1/sessions/{session}")["usage"]["memory_bytes"] for session in sessions
    ]
    for session in sessions:
        server.delete(session)
    return [value / 1e6 for value in used]
