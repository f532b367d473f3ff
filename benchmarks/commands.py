"""A command in a container: over our API, next to `docker exec` in the same container.

Ours is the whole answer, theirs is the first byte, asked for at the engine's API without the docker
program's own start. Both run `echo`, in turns.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from typing import Any

from benchmarks import gateway
from benchmarks.cell import in_turns
from benchmarks.figures import Figure, Target
from benchmarks.plain_http import Connection
from interpreter.runtimes.container import SANDBOX
from tests import engine

COMMAND = ["echo", "hello"]


def measure(quick: bool) -> list[Figure]:
    rounds, repeat = (2, 2) if quick else (15, 10)
    with ExitStack() as stack:
        api = stack.enter_context(engine.running())
        server = stack.enter_context(gateway.running(runtime="docker", spares="0"))
        session = server.create()
        (container,) = api.containers(filters={"label": f"{SANDBOX}={session}"})
        plain = stack.enter_context(closing(Connection(server.address)))
        request = server.address.request("POST", f"/v1/sessions/{session}/commands", {"argv": COMMAND})
        sides: dict[str, Callable[[], object]] = {
            "ours": lambda: _check(plain.ask(request)["stdout"]),
            "exec": lambda: _check(_by_exec(api, container["Id"])),
        }
        times = in_turns(sides, rounds, repeat)
        server.delete(session)
    against = "docker exec in the same container, first byte"
    return [
        Figure("container: a command over HTTP", "ms", times["ours"], times["exec"], against,
               Target("≤", 0.5)),
    ]  # fmt: skip


def _by_exec(api: Any, container: str) -> str:
    made = api.exec_create(container, COMMAND)["Id"]
    return bytes(next(iter(api.exec_start(made, stream=True)))).decode()


def _check(shown: str) -> None:
    if shown != "hello\n":
        raise RuntimeError(f"a command said {shown!r}")
