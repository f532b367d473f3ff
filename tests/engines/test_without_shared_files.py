"""An engine that sees none of the gateway's files: workspaces are volumes of the engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from tests.conftest import Gateway
from tests.engines.conftest import MakeGateway, new_session, refusal, run
from tests.engines.own_engine import OwnEngine
from tests.engines.proxy import Proxy
from tests.gateway.conftest import assert_refused
from tests.mounts import mounts_of, soon


@pytest.fixture(scope="module")
def elsewhere(engine: docker.APIClient, data_root: Path) -> Iterator[OwnEngine]:
    own = OwnEngine(hidden=data_root)
    try:
        own.start().have_image_of(engine)
        yield own
    finally:
        own.close()


@pytest.fixture
def gateway(elsewhere: OwnEngine, make_gateway: MakeGateway) -> Gateway:
    return make_gateway({"DOCKER_HOST": elsewhere.host}).start()


def volumes(engine: OwnEngine) -> dict[str, dict[str, Any]]:
    """Session → the volume that is labelled with it."""
    client = engine.client()
    found = client.volumes()["Volumes"] or ()
    client.close()
    return {one["Labels"]["org.interpreter.sandbox"]: one for one in found}


def test_files_are_kept_in_a_volume_as_long_as_the_session(
    gateway: Gateway, elsewhere: OwnEngine
) -> None:
    assert "disk      NOT LIMITED" in gateway.log.read_text()
    with gateway.client() as client:
        session = new_session(client)
        id = session["id"]
        assert session["disk_enforced_by"] == "nothing"
        result = run(client, id, "open('kept', 'w').write('x'); import os; os.getuid()")
        assert result["text"] == "1000"
        assert result["files"] is None, "nobody here sees them"
        assert client.get(f"/v1/sessions/{id}").json()["usage"]["memory_bytes"] > 0
        owner = (gateway.data / "owner").read_text()
        assert volumes(elsewhere)[id]["Labels"]["org.interpreter.owner"] == owner
        for answer in (client.get(f"/v1/sessions/{id}/files"), client.put(f"/v1/sessions/{id}/files/f")):
            assert_refused(answer, "files_unreachable", "cells")
    assert mounts_of(gateway.data) == [], "nothing is mounted for nobody"
    gateway.kill()
    gateway.start()
    with gateway.client() as client:
        assert run(client, id, "open('/mnt/data/kept').read()")["text"] == "'x'"
        deleted = client.delete(f"/v1/sessions/{id}").json()
        assert deleted["workspace_bytes"] == 0
        assert volumes(elsewhere) == {}


def test_a_volume_outlives_its_container_and_goes_with_its_session(
    gateway: Gateway, elsewhere: OwnEngine
) -> None:
    engine = elsewhere.client()
    with gateway.client() as client:
        id = new_session(client)["id"]
        (made,) = engine.containers(filters={"label": f"org.interpreter.sandbox={id}"})
        engine.kill(made["Id"])
        assert soon(lambda: client.get(f"/v1/sessions/{id}").json()["state"] == "failed")
    gateway.kill()
    owner = (gateway.data / "owner").read_text()
    for name, whose in (("left", owner), ("other", "somebody-else")):
        labels = {"org.interpreter.owner": whose, "org.interpreter.sandbox": name}
        engine.create_volume(f"interpreter-{whose}-{name}", labels=labels)
    gateway.start()
    assert set(volumes(elsewhere)) == {id, "other"}, "what nobody knows is removed, and no more"
    with gateway.client() as client:
        client.delete(f"/v1/sessions/{id}")
    assert set(volumes(elsewhere)) == {"other"}
    engine.remove_volume("interpreter-somebody-else-other")
    engine.close()


def test_that_there_are_no_inputs_is_told(gateway: Gateway) -> None:
    with gateway.client() as client:
        assert client.put("/v1/datasets/d", content=b"x").status_code == 201
        id = new_session(client)["id"]
        for answer in (
            client.post(f"/v1/sessions/{id}/inputs", json={"dataset": "d"}),
            client.post("/v1/sessions", json={"inputs": ["d"]}),
        ):
            assert (answer.status_code, answer.json()["error"]["code"]) == (409, "inputs_unavailable")
            assert "the engine does not see the gateway's files" in answer.json()["error"]["message"]
        client.delete(f"/v1/sessions/{id}")
        client.delete("/v1/datasets/d")


def test_a_link_by_a_socket_is_refused_where_it_cannot_work(
    elsewhere: OwnEngine, make_gateway: MakeGateway
) -> None:
    said = refusal(make_gateway({"DOCKER_HOST": elsewhere.host}, link="socket"))
    assert "The environment 'python' cannot be run here" in said


def test_figures_that_the_engine_does_not_tell_are_null_and_nobody_waits_for_them(
    elsewhere: OwnEngine, make_gateway: MakeGateway
) -> None:
    proxy = Proxy(elsewhere.socket)
    gateway = make_gateway({"DOCKER_HOST": proxy.address}).start()
    with gateway.client() as client:
        id = new_session(client)["id"]
        run(client, id, "1")
        client.timeout = 10  # instead of two minutes: whoever waits for the engine waits longer
        proxy.stall()
        try:
            session = client.get(f"/v1/sessions/{id}").json()
            assert (session["state"], session["usage"]) == ("ready", None)
            assert [s["usage"] for s in client.get("/v1/sessions").json()["sessions"]] == [None]
            assert len(client.get(f"/v1/sessions/{id}/executions").json()["executions"]) == 1
        finally:
            proxy.go_on()
        assert soon(lambda: client.get(f"/v1/sessions/{id}").json()["usage"] is not None)
        assert run(client, id, "2")["text"] == "2"
        client.delete(f"/v1/sessions/{id}")
    proxy.close()


def test_a_named_workspace_is_a_volume_that_outlives_sessions(
    gateway: Gateway, elsewhere: OwnEngine
) -> None:
    with gateway.client() as client:
        made = client.post("/v1/workspaces", json={"name": "mine"}).json()
        assert (made["disk_enforced_by"], made["bytes"]) == ("nothing", None)
        first = client.post("/v1/sessions", json={"workspace": "mine"}).json()
        assert "one that is ready cannot have another workspace" in first["cold_because"]
        run(client, first["id"], "open('kept', 'w').write('x')")
        body = {"workspace": "mine", "workspace_read_only": True}
        reader = client.post("/v1/sessions", json=body).json()["id"]
        assert run(client, reader, "open('kept').read()")["text"] == "'x'"
        assert run(client, reader, "open('new', 'w')")["error"]["ename"] == "OSError"
        for id in (first["id"], reader):
            client.delete(f"/v1/sessions/{id}")
        assert client.get("/v1/workspaces/mine/archive").json()["error"]["code"] == "files_unreachable"
        answer = client.post("/v1/workspaces/mine/copy", json={"to": "other"})
        assert answer.json()["error"]["code"] == "files_unreachable"
    gateway.kill()
    gateway.start()
    with gateway.client() as client:
        again = client.post("/v1/sessions", json={"workspace": "mine"}).json()["id"]
        assert run(client, again, "open('kept').read()")["text"] == "'x'"
        client.delete(f"/v1/sessions/{again}")
        assert [id for id in volumes(elsewhere) if id.startswith("w-")]
        assert client.delete("/v1/workspaces/mine").status_code == 200
        assert not [id for id in volumes(elsewhere) if id.startswith("w-")]
