"""An engine that is killed and started again, with its containers or without them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from interpreter.config import Config
from interpreter.models import ExecutionCreate, SessionCreate
from interpreter.orchestrator import maintenance
from interpreter.runtimes import prepared
from tests.engines.conftest import MakeGateway, end, new_session, run
from tests.engines.own_engine import OwnEngine
from tests.mounts import soon
from tests.orchestrator.conftest import Gateways

MakeEngine = Callable[..., OwnEngine]
CODE = """
import os, time
for i in range(2000):
    print(f'line {i}', flush=True)
    if i == 500:
        open('half', 'w').close()
    while i == 1000 and not os.path.exists('go'):
        time.sleep(0.01)
"""
EXPECTED = "".join(f"line {i}\n" for i in range(2000))


@pytest.mark.parametrize("link", ["socket", "attach"])
def test_sessions_go_on_where_the_engine_keeps_its_containers(
    own_engine: MakeEngine, make_gateway: MakeGateway, link: str
) -> None:
    own = own_engine("--live-restore")
    gateway = make_gateway({"DOCKER_HOST": own.host}, link=link).start()
    with gateway.client() as client:
        id = new_session(client)["id"]
        run(client, id, "x = 41")
        body = {"code": CODE, "wait": False, "timeout": 120}
        cell = client.post(f"/v1/sessions/{id}/executions", json=body).json()["id"]
        workspace = gateway.data / "workspaces" / id
        assert soon((workspace / "half").exists)
        own.kill()
        (workspace / "go").touch()
        own.start()
        path = f"/v1/sessions/{id}/executions/{cell}"
        result = client.get(path, params={"wait": "true"}).json()
        assert result["status"] == "ok", gateway.log.read_text()
        assert result["text"] == EXPECTED
        assert run(client, id, "x + 1")["text"] == "42"
        assert client.get(f"/v1/sessions/{id}").json()["state"] == "ready"
        assert run(client, new_session(client)["id"], "1")["text"] == "1"


@pytest.mark.parametrize("link", ["socket", "attach"])
def test_sessions_whose_containers_end_with_the_engine_say_so_and_keep_their_files(
    own_engine: MakeEngine, make_gateway: MakeGateway, link: str
) -> None:
    own = own_engine()
    gateway = make_gateway({"DOCKER_HOST": own.host}, link=link).start()
    with gateway.client() as client:
        id = new_session(client)["id"]
        run(client, id, "open('kept', 'w').write('here')")
        own.kill()
        own.start()
        assert soon(lambda: client.get(f"/v1/sessions/{id}").json()["state"] == "failed", seconds=60)
        reason = client.get(f"/v1/sessions/{id}").json()["reason"]
        assert "while the Docker engine was restarted" in reason
        assert (gateway.data / "workspaces" / id / "kept").read_text() == "here"
        assert run(client, new_session(client)["id"], "1")["text"] == "1"


def test_sessions_of_an_engine_that_is_down_at_start_are_left_alone_until_it_is_back(
    own_engine: MakeEngine, make_gateway: MakeGateway
) -> None:
    own = own_engine("--live-restore")
    gateway = make_gateway({"DOCKER_HOST": own.host}, runtime="auto").start()
    with gateway.client() as client:
        id = new_session(client)["id"]
        run(client, id, "x = 41; open('kept', 'w').close()")
    end(gateway)
    own.kill()
    gateway.start()
    assert "not Docker: No Docker engine answers" in gateway.log.read_text()
    with gateway.client() as client:
        session = client.get(f"/v1/sessions/{id}").json()
        assert (session["state"], session["runtime"]) == ("ready", "docker")
        assert "runs on docker" in session["reason"]
        answer = client.post(f"/v1/sessions/{id}/executions", json={"code": "1"})
        assert answer.status_code == 409
        assert "runs on docker" in answer.json()["error"]["message"]
        other = new_session(client)
        assert other["runtime"] == "embedded"
        client.delete(f"/v1/sessions/{other['id']}")
    end(gateway)
    own.start()
    gateway.start()
    with gateway.client() as client:
        assert run(client, id, "import os; x + 1, os.path.exists('kept')")["text"] == "(42, True)"
        assert client.get(f"/v1/sessions/{id}").json()["reason"] is None


@pytest.mark.parametrize("link", ["socket", "attach"])
async def test_sessions_are_kept_when_the_engine_is_away_while_they_are_looked_for(
    own_engine: MakeEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, link: str
) -> None:
    own = own_engine("--live-restore")
    monkeypatch.setenv("DOCKER_HOST", own.host)
    monkeypatch.setattr(maintenance, "PATIENCE", 0)
    config = Config(data_dir=str(tmp_path), runtime="docker", link=link, spares=0)  # type: ignore[arg-type]
    gateways = Gateways(config, await prepared(config, lambda sentence: None))
    await gateways.start()
    id = (await gateways.orchestrator.create(SessionCreate())).id
    cell = await gateways.orchestrator.get(id).submit(
        "e-0123456789abcdef", ExecutionCreate(code="x = 41")
    )
    await cell.done
    await gateways.end()
    own.kill()
    # As one that is started just before the engine goes away: it has prepared all that it needs of it.
    await gateways.start()
    session = gateways.orchestrator.get(id)
    assert not session.created.is_set()
    await asyncio.to_thread(own.start)
    cell = await session.submit("e-fedcba9876543210", ExecutionCreate(code="x + 1"))
    await cell.done
    assert cell.model().text == "42"
    await gateways.orchestrator.delete(id)
    await gateways.end()
    await gateways.runtime.close()
