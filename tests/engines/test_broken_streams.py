"""A connection that breaks is made again: the container goes on, and nothing is lost or doubled."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from tests.conftest import Gateway
from tests.e2e.conftest import read_events
from tests.engines.conftest import MakeGateway, new_session, run
from tests.engines.proxy import Proxy
from tests.mounts import soon

LINES = 20_000
DROPS = 6


@pytest.fixture
def proxy(engine: docker.APIClient) -> Iterator[Proxy]:
    proxy = Proxy(Path(os.environ["DOCKER_HOST"].removeprefix("unix://")))
    yield proxy
    proxy.close()


@pytest.fixture
def gateway(proxy: Proxy, make_gateway: MakeGateway) -> Gateway:
    return make_gateway({"DOCKER_HOST": proxy.address}, link="attach").start()


def test_every_line_arrives_once_and_in_order_however_often_the_stream_breaks(
    gateway: Gateway, proxy: Proxy
) -> None:
    code = (
        f"import time\nfor i in range({LINES}):\n    print(f'line {{i}}', flush=i % 50 == 0)\n"
        "    time.sleep(0.2 if i % 1000 == 0 else 0)\n'the end'"
    )
    with gateway.client() as client:
        path = f"/v1/sessions/{new_session(client)['id']}/executions"
        body = {"code": code, "wait": False, "timeout": 300, "max_output_bytes": 2**24}
        cell = client.post(path, json=body).json()["id"]
        drops, seen = 0, ""
        with client.stream("GET", f"{path}/{cell}/events") as answer:
            for _, kind, data in read_events(answer):
                if kind == "stream":
                    seen += data["text"]
                    back = gateway.log.read_text().count("is back")
                    if drops < DROPS and back == drops and seen.count("\n") > drops * LINES // DROPS:
                        proxy.drop()
                        drops += 1
        result = client.get(f"{path}/{cell}").json()
    expected = "".join(f"line {i}\n" for i in range(LINES))
    assert drops > 2
    assert seen == expected
    assert result["status"] == "ok"
    assert result["text"] == expected + "'the end'"


def test_a_cell_sent_while_there_is_no_connection_runs_once_when_there_is_one(
    gateway: Gateway, proxy: Proxy
) -> None:
    with gateway.client() as client:
        session = new_session(client)["id"]
        run(client, session, "runs = 0")
        for _ in range(3):
            proxy.drop()
            assert run(client, session, "runs += 1; runs", timeout=60)["status"] == "ok"
        assert run(client, session, "runs")["text"] == "3"
        proxy.drop()
        cell = {"code": "import time; time.sleep(600)", "timeout": 1}
        answer = client.post(f"/v1/sessions/{session}/executions", json=cell).json()
        assert answer["status"] == "timeout", (answer["error"], gateway.log.read_text())
        assert run(client, session, "runs")["text"] == "3"


def test_a_container_that_ends_while_there_is_no_connection_ends_its_session(
    gateway: Gateway, proxy: Proxy, engine: docker.APIClient
) -> None:
    with gateway.client() as client:
        session = new_session(client)["id"]
        (made,) = engine.containers(filters={"label": f"org.interpreter.sandbox={session}"})
        proxy.stall()
        proxy.drop()
        engine.kill(made["Id"])
        proxy.go_on()
        assert soon(lambda: client.get(f"/v1/sessions/{session}").json()["state"] == "failed")
        assert "killed by SIGKILL" in client.get(f"/v1/sessions/{session}").json()["reason"]
