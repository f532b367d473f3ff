"""What the tests of named workspaces share: making and using them over plain HTTP."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from tests.conftest import Gateway


class Named:
    """A gateway's workspaces, and sessions that use them."""

    def __init__(self, gateway: Gateway, client: httpx.Client) -> None:
        self.gateway = gateway
        self.client = client

    def create(self, name: str | None = None, **settings: Any) -> str:
        name = name or f"ws-{secrets.token_hex(4)}"
        answer = self.client.post("/v1/workspaces", json={"name": name, "disk_mb": 64, **settings})
        assert answer.status_code == 201, answer.text
        assert answer.headers["Location"] == f"/v1/workspaces/{name}"
        return name

    def read(self, name: str) -> dict[str, Any]:
        answer = self.client.get(f"/v1/workspaces/{name}")
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def delete(self, name: str) -> dict[str, Any]:
        answer = self.client.delete(f"/v1/workspaces/{name}")
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def ask(self, workspace: str, **settings: Any) -> httpx.Response:
        """For a session."""
        return self.client.post("/v1/sessions", json={"workspace": workspace, **settings})

    def session(self, workspace: str, **settings: Any) -> dict[str, Any]:
        answer = self.ask(workspace, **settings)
        assert answer.status_code in (201, 202), answer.text
        return dict(answer.json())

    def end(self, *ids: str) -> None:
        for id in ids:
            assert self.client.delete(f"/v1/sessions/{id}").status_code == 200

    def do(self, id: str, what: str) -> dict[str, Any]:
        answer = self.client.post(f"/v1/sessions/{id}/{what}")
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def run(self, id: str, code: str) -> str:
        """What a cell says, or the error's name."""
        answer = self.client.post(f"/v1/sessions/{id}/executions", json={"code": code})
        assert answer.is_success, answer.text
        cell = answer.json()
        return str(cell["error"]["ename"] if cell["error"] else cell["text"])

    def warm(self) -> None:
        """Returns when a sandbox stands ready."""
        deadline = time.monotonic() + 120
        while not self.client.get("/v1/status").json()["pools"][0]["ready"]:
            assert time.monotonic() < deadline
            time.sleep(0.05)


@contextmanager
def named(gateway: Gateway) -> Iterator[Named]:
    with gateway.client() as client:
        yield Named(gateway, client)
