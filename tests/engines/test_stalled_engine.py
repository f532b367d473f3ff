"""An engine that hangs: who does not need it does not notice, who does is told, and nothing leaks."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.conftest import Gateway
from tests.engines.conftest import MakeGateway, new_session, run
from tests.engines.own_engine import OwnEngine
from tests.mounts import soon


@pytest.fixture
def stalling(own_engine: Callable[..., OwnEngine]) -> OwnEngine:
    return own_engine()


@pytest.fixture
def gateway(stalling: OwnEngine, make_gateway: MakeGateway) -> Gateway:
    settings = {"link": "socket", "engine_timeout": "3"}
    return make_gateway({"DOCKER_HOST": stalling.host}, **settings).start()


def sandboxes(engine: OwnEngine) -> set[str]:
    client = engine.client()
    found = {one["Labels"]["org.interpreter.sandbox"] for one in client.containers(all=True)}
    client.close()
    return found


def test_what_does_not_need_the_engine_is_answered_while_it_hangs(
    gateway: Gateway, stalling: OwnEngine
) -> None:
    with gateway.client() as client:
        id = new_session(client)["id"]
        first = run(client, id, "x = 1")
        client.timeout = 15  # instead of two minutes: whoever waits for the engine waits longer
        stalling.stall()
        try:
            assert client.get("/v1/sessions").json()["sessions"][0]["id"] == id
            assert client.get(f"/v1/sessions/{id}").json()["state"] == "ready"
            assert run(client, id, "x + 1")["text"] == "2"
            assert client.get(f"/v1/sessions/{id}/executions/{first['id']}").json() == first
            assert run(client, id, "import os; os._exit(1)")["status"] == "lost"
            assert run(client, id, "'a new kernel'")["text"] == "'a new kernel'"
            with ThreadPoolExecutor() as others:
                # More than there are threads for the engine.
                refused = [others.submit(client.post, "/v1/sessions") for _ in range(10)]
                assert run(client, id, "2")["text"] == "2"
                for answer in (one.result() for one in refused):
                    assert answer.status_code == 503
                    assert answer.json()["error"]["code"] == "sandbox_failed"
                    assert "the engine does not answer" in answer.json()["error"]["message"]
            assert client.get("/healthz").status_code == 200
        finally:
            stalling.go_on()
        client.timeout = 120
        other = new_session(client)["id"]
        assert soon(lambda: sandboxes(stalling) == {id, other}, seconds=60), sandboxes(stalling)
        left = {path.stem for path in (gateway.data / "workspaces").iterdir()}
        assert left == {id, other}


def test_a_session_deleted_while_the_engine_hangs_is_gone_when_it_goes_on(
    gateway: Gateway, stalling: OwnEngine
) -> None:
    with gateway.client() as client:
        id = new_session(client)["id"]
        stalling.stall()
        try:
            assert client.delete(f"/v1/sessions/{id}").status_code == 200
            assert client.get("/v1/sessions").json()["sessions"] == []
        finally:
            stalling.go_on()
        assert soon(lambda: sandboxes(stalling) == set(), seconds=60)


def frozen(engine: OwnEngine, session: str) -> bool:
    client = engine.client()
    (found,) = client.containers(all=True, filters={"label": f"org.interpreter.sandbox={session}"})
    client.close()
    return str(found["State"]) == "paused"


@pytest.mark.parametrize("trouble", ["hangs", "is killed"])
def test_who_pauses_or_resumes_while_the_engine_is_away_is_told_and_the_session_is_what_it_says(
    own_engine: Callable[..., OwnEngine], make_gateway: MakeGateway, trouble: str
) -> None:
    engine = own_engine("--live-restore")
    settings = {"link": "socket", "engine_timeout": "3"}
    gateway = make_gateway({"DOCKER_HOST": engine.host}, **settings).start()
    go_away, come_back = (
        (engine.stall, engine.go_on) if trouble == "hangs" else (engine.kill, engine.start)
    )

    def refused(path: str, **body: str) -> None:
        answer = client.post(path, json=body or None)
        assert answer.status_code == 503, answer.text
        assert answer.json()["error"]["code"] == "sandbox_failed"

    with gateway.client() as client:
        id = new_session(client)["id"]
        path = f"/v1/sessions/{id}"
        run(client, id, "x = 41")
        client.timeout = 30  # an engine that hangs is waited for for two minutes, but not by callers
        go_away()
        try:
            refused(f"{path}/pause")
            assert client.get(path).json()["state"] == "ready"
            assert run(client, id, "x")["text"] == "41"
        finally:
            come_back()
        assert run(client, id, "x")["text"] == "41", "it is not left frozen"
        assert soon(lambda: not frozen(engine, id))

        assert client.post(f"{path}/pause").json()["state"] == "paused"
        go_away()
        try:
            refused(f"{path}/executions", code="x + 1")
            assert client.get(path).json()["state"] == "paused"
        finally:
            come_back()
        assert soon(lambda: frozen(engine, id))
        assert run(client, id, "x + 1")["text"] == "42"
        assert not frozen(engine, id)


def memory_limits(engine: OwnEngine) -> dict[str, int]:
    """Of every sandbox, in megabytes."""
    client = engine.client()
    found = {}
    for one in client.containers(all=True):
        limit = client.inspect_container(one["Id"])["HostConfig"]["Memory"]
        found[one["Labels"]["org.interpreter.sandbox"]] = limit >> 20
    client.close()
    return found


def test_who_changes_limits_while_the_engine_hangs_is_told_and_they_are_what_the_session_says(
    stalling: OwnEngine, make_gateway: MakeGateway
) -> None:
    settings = {"link": "socket", "engine_timeout": "3", "spares": "1"}
    gateway = make_gateway({"DOCKER_HOST": stalling.host}, **settings).start()

    def refused(answer: httpx.Response) -> None:
        assert answer.status_code == 503, answer.text
        assert answer.json()["error"]["code"] == "sandbox_failed"
        assert "the engine does not answer" in answer.json()["error"]["message"]

    with gateway.client() as client:

        def pool() -> dict[str, int]:
            return dict(client.get("/v1/status").json()["pools"][0])

        session, other = new_session(client), new_session(client)["id"]
        id, before = session["id"], session["limits"]["memory_mb"]
        assert soon(lambda: (now := pool())["ready"] == now["target"] and not now["being_made"])
        client.timeout = 60  # instead of two minutes
        limits = {"limits": {"memory_mb": before - 100}}
        stalling.stall()
        try:
            refused(client.patch(f"/v1/sessions/{id}", json=limits))
            refused(client.post("/v1/sessions", json=limits))  # by one that stood ready
            assert client.get(f"/v1/sessions/{id}").json()["limits"]["memory_mb"] == before
            assert client.delete(f"/v1/sessions/{other}").status_code == 200
        finally:
            stalling.go_on()
        client.timeout = 120

        def as_said() -> bool:
            found = memory_limits(stalling)
            return other not in found and set(found.values()) == {before}

        assert soon(as_said), memory_limits(stalling)
        changed = client.patch(f"/v1/sessions/{id}", json=limits)
        assert changed.json()["limits"]["memory_mb"] == before - 100, changed.text
        assert memory_limits(stalling)[id] == before - 100
