"""What the tests of faults share: cells over plain HTTP, and a look at what runs on the machine."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil

from tests.conftest import Gateway


def wait_for(condition: Callable[[], Any], seconds: float = 30) -> Any:
    """What the condition returns as soon as that is something."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(0.02)
    raise AssertionError("it did not happen in time")


class Sessions:
    """Short ways to say what is asked of a gateway."""

    def __init__(self, client: httpx.Client) -> None:
        self.client = client

    def create(self, **settings: Any) -> str:
        answer = self.client.post("/v1/sessions", json=settings)
        assert answer.status_code in (201, 202), answer.text
        return str(answer.json()["id"])

    def read(self, id: str) -> dict[str, Any]:
        return dict(self.client.get(f"/v1/sessions/{id}").json())

    def all(self) -> dict[str, dict[str, Any]]:
        return {s["id"]: s for s in self.client.get("/v1/sessions").json()["sessions"]}

    def run(self, id: str, code: str, **options: Any) -> dict[str, Any]:
        path = f"/v1/sessions/{id}/executions"
        return dict(self.client.post(path, json={"code": code, **options}).json())

    def begin(self, id: str, code: str, **options: Any) -> str:
        """Runs a cell without waiting for it; returns its id."""
        begun = self.run(id, code, wait=False, **{"timeout": 300, **options})
        assert "id" in begun, begun
        return str(begun["id"])

    def cell(self, id: str, cell: str, wait: bool = False) -> dict[str, Any]:
        path = f"/v1/sessions/{id}/executions/{cell}"
        return dict(self.client.get(path, params={"wait": str(wait).lower()}).json())

    def cells(self, id: str) -> list[dict[str, Any]]:
        return list(self.client.get(f"/v1/sessions/{id}/executions").json()["executions"])

    def printed(self, id: str, cell: str) -> str:
        return self.client.get(f"/v1/sessions/{id}/executions/{cell}/output").text

    def numbers(self, id: str) -> list[int]:
        """Of all events so far."""
        text = self.client.get(f"/v1/sessions/{id}/events", params={"follow": "false"}).text
        return [int(line[4:]) for line in text.splitlines() if line.startswith("id: ")]


@contextlib.contextmanager
def sessions(gateway: Gateway) -> Iterator[Sessions]:
    with gateway.client() as client:
        yield Sessions(client)


def processes_of(sandbox: str) -> list[psutil.Process]:
    """Every process of a sandbox, in this order: its kernel host before all that it started."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("INTERPRETER_SANDBOX") == sandbox:
                found.append(process)
    return found


def kernel_of(sandbox: str, pid_inside: int) -> psutil.Process:
    """The kernel, by the number that it has in its own namespace."""
    for process in processes_of(sandbox):
        status = Path(f"/proc/{process.pid}/status").read_text()
        numbers = next(line for line in status.splitlines() if line.startswith("NSpid:")).split()
        if int(numbers[-1]) == pid_inside:
            return process
    raise AssertionError(f"no process {pid_inside} in {sandbox}")


def zygote_of(sandbox: str, kernel: psutil.Process) -> psutil.Process:
    (found,) = (
        process
        for process in processes_of(sandbox)
        if "interpreter.sandbox.zygote" in process.cmdline() and process != kernel
    )
    return found


def state_is(s: Sessions, id: str, *states: str) -> Callable[[], bool]:
    return lambda: s.read(id)["state"] in states
