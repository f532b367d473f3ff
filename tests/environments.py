"""Gateways with environments of a test's own, sessions in them, and gateways that refuse to start."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.conftest import Gateway


@contextmanager
def configured(data_root: Path, settings: str, **more: str) -> Iterator[Gateway]:
    """A gateway with these settings, as in interpreter.toml, and no spares."""
    gateway = _new(data_root, settings, more).start()
    try:
        yield gateway
    finally:
        gateway.stop()


def refusal(data_root: Path, settings: str, **more: str) -> str:
    """What a gateway says that does not start with these settings."""
    gateway = _new(data_root, settings, more)
    try:
        gateway.start()
    except RuntimeError:
        assert gateway.process is not None
        assert gateway.process.returncode != 0
        said = gateway.log.read_text()
        assert "Traceback" not in said
        # Lines are broken to the width of a screen.
        return " ".join(said.split())
    gateway.stop()
    raise AssertionError("the gateway started")


def _new(data_root: Path, settings: str, more: dict[str, str]) -> Gateway:
    data = Path(tempfile.mkdtemp(dir=data_root))
    file = data.parent / f"{data.name}.toml"
    file.write_text(settings)
    return Gateway(data, "--config", str(file), **{"runtime": "docker", "spares": "0", **more})


class Cells:
    """Runs cells in one session over plain HTTP."""

    def __init__(self, client: httpx.Client, created: dict[str, Any]) -> None:
        self.client = client
        self.created = created
        self.path = f"/v1/sessions/{created['id']}"

    def run(self, code: str, **options: Any) -> dict[str, Any]:
        answer = self.client.post(f"{self.path}/executions", json={"code": code, **options})
        assert answer.is_success, answer.text
        return dict(answer.json())

    def text(self, code: str, **options: Any) -> str:
        """What a cell that succeeds says."""
        result = self.run(code, **options)
        assert result["status"] == "ok", result
        return str(result["text"])

    def look(self) -> dict[str, Any]:
        return dict(self.client.get(self.path).json())

    def restart(self) -> None:
        answer = self.client.post(f"{self.path}/restart")
        assert answer.status_code == 200, answer.text


@contextmanager
def session(gateway: Gateway, environment: str, **request: Any) -> Iterator[Cells]:
    with gateway.client() as client:
        answer = client.post("/v1/sessions", json={"environment": environment, **request})
        assert answer.status_code == 201, answer.text
        cells = Cells(client, answer.json())
        try:
            yield cells
        finally:
            client.delete(cells.path)
