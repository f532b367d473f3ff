"""Engines of the tests' own, and gateways that are to find them."""

from __future__ import annotations

import contextlib
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import docker
import httpx
import pytest

from tests.conftest import Gateway
from tests.engines.own_engine import OwnEngine

MakeGateway = Callable[..., Gateway]


@pytest.fixture
def make_gateway(data_root: Path) -> Iterator[MakeGateway]:
    """Makes gateways of the Docker runtime, whose environment says where the engine is."""
    with contextlib.ExitStack() as stack:

        def make(environ: dict[str, str], **settings: str) -> Gateway:
            folder = Path(tempfile.mkdtemp(dir=data_root))
            gateway = Gateway(folder, **{"runtime": "docker", "spares": "0", **settings})
            # What the tests' own engine left in the environment is not meant for this one.
            gateway.environ = {"DOCKER_HOST": "", "DOCKER_CONTEXT": "", **environ}
            stack.callback(stop, gateway)
            return gateway

        yield make


def stop(gateway: Gateway) -> None:
    """Deletes the sessions of a gateway and ends it, whatever became of it."""
    if gateway.process is None or not (gateway.data / "token").exists():
        return
    if gateway.process.poll() is not None:
        gateway.start()
    gateway.stop()


def end(gateway: Gateway) -> None:
    """Ends a gateway in order; its sessions go on."""
    assert gateway.process is not None
    gateway.process.send_signal(signal.SIGTERM)
    assert gateway.process.wait(60) == 0


def run(client: httpx.Client, session: str, code: str, **options: Any) -> dict[str, Any]:
    answer = client.post(f"/v1/sessions/{session}/executions", json={"code": code, **options})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def new_session(client: httpx.Client) -> dict[str, Any]:
    answer = client.post("/v1/sessions")
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


def refusal(gateway: Gateway) -> str:
    """What a gateway says that does not start."""
    with pytest.raises(RuntimeError, match="no gateway"):
        gateway.start()
    return gateway.log.read_text()


@pytest.fixture
def own_engine(engine: docker.APIClient) -> Iterator[Callable[..., OwnEngine]]:
    """Makes an engine of the test's own that has the image; one at a time, for they share its data."""
    made: list[OwnEngine] = []

    def make(*flags: str, **options: Any) -> OwnEngine:
        own = OwnEngine(*flags, **options)
        made.append(own)
        own.start().have_image_of(engine)
        return own

    yield make
    for own in made:
        own.close()
