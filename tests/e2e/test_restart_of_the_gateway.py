"""The kernel outlives the gateway: a gateway that starts again takes up what it finds."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from typing import Any

import httpx
import psutil

from tests.conftest import Gateway, kill_sandbox
from tests.e2e.conftest import read_events


def wait_for(condition: Callable[[], Any], seconds: float = 20) -> Any:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(0.02)
    raise AssertionError("it did not happen in time")


def run(client: httpx.Client, session: str, code: str, **options: Any) -> dict[str, Any]:
    answer = client.post(f"/v1/sessions/{session}/executions", json={"code": code, **options})
    return dict(answer.json())


def test_memory_files_and_history_survive_a_gateway_that_is_killed(own_gateway: Gateway) -> None:
    own_gateway.start()
    with own_gateway.client() as client:
        id = client.post("/v1/sessions", json={"name": "mine", "labels": {"a": "b"}}).json()["id"]
        before = run(client, id, "x = 41; print('hello')")
        history = client.get(f"/v1/sessions/{id}/executions").json()["executions"]
    own_gateway.kill()
    own_gateway.start()
    with own_gateway.client() as client:
        session = client.get(f"/v1/sessions/{id}").json()
        assert (session["name"], session["labels"]) == ("mine", {"a": "b"})
        assert client.get(f"/v1/sessions/{id}/executions").json()["executions"] == history
        assert client.get(f"/v1/sessions/{id}/executions/{before['id']}").json() == before
        after = run(client, id, "x + 1")
        assert after["text"] == "42"
        assert after["execution_count"] == before["execution_count"] + 1


def test_a_cell_goes_on_while_there_is_no_gateway(own_gateway: Gateway) -> None:
    own_gateway.start()
    code = (
        "import time, os\nfor i in range(40):\n    print(i, flush=True); time.sleep(0.05)\n"
        "open('finished', 'w').close()\n'the end'"
    )
    with own_gateway.client() as client:
        id = client.post("/v1/sessions").json()["id"]
        path = f"/v1/sessions/{id}/executions"
        body = {"code": code, "wait": False, "timeout": 60}
        cell = client.post(path, json=body).json()["id"]
        seen = []
        with client.stream("GET", f"{path}/{cell}/events") as answer:
            for event in read_events(answer):
                seen.append(event)
                if len([e for e in seen if e[1] == "stream"]) == 5:
                    break
    own_gateway.kill()
    workspace = own_gateway.data / "workspaces" / id
    wait_for((workspace / "finished").exists)
    own_gateway.start()
    with own_gateway.client() as client:
        result = client.get(f"{path}/{cell}", params={"wait": "true"}).json()
        assert result["status"] == "ok"
        assert result["text"] == "".join(f"{i}\n" for i in range(40)) + "'the end'"
        headers = {"Last-Event-ID": str(seen[-1][0])}
        with client.stream("GET", f"{path}/{cell}/events", headers=headers) as answer:
            seen.extend(read_events(answer))
    numbers = [seq for seq, _, _ in seen]
    assert numbers == sorted(set(numbers)), "no event twice, none out of order"
    text = "".join(data["text"] for _, kind, data in seen if kind == "stream")
    assert text == "".join(f"{i}\n" for i in range(40)), "and every output once"


def test_queued_cells_run_after_the_gateway_comes_back(own_gateway: Gateway) -> None:
    own_gateway.start()
    with own_gateway.client() as client:
        id = client.post("/v1/sessions").json()["id"]
        path = f"/v1/sessions/{id}/executions"
        waiting = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)"
        codes = [waiting, "print('second')", "print('third')"]
        ids = [
            client.post(path, json={"code": c, "wait": False, "timeout": 60}).json()["id"] for c in codes
        ]
        wait_for(lambda: len(client.get(path).json()["executions"]) == 3)
    own_gateway.kill()
    own_gateway.start()
    (own_gateway.data / "workspaces" / id / "go").touch()
    with own_gateway.client() as client:
        results = [client.get(f"{path}/{c}", params={"wait": "true"}).json() for c in ids]
    assert [r["status"] for r in results] == ["ok", "ok", "ok"]
    assert [r["text"] for r in results[1:]] == ["second\n", "third\n"]


def test_a_timeout_holds_across_a_restart(own_gateway: Gateway) -> None:
    own_gateway.start()
    with own_gateway.client() as client:
        id = client.post("/v1/sessions").json()["id"]
        path = f"/v1/sessions/{id}/executions"
        body = {"code": "import time; time.sleep(600)", "timeout": 1, "wait": False}
        cell = client.post(path, json=body).json()["id"]
        wait_for(lambda: client.get(path).json()["executions"])
    own_gateway.kill()
    own_gateway.start()
    with own_gateway.client() as client:
        result = client.get(f"{path}/{cell}", params={"wait": "true"}).json()
        assert result["status"] == "timeout"


def test_a_session_whose_sandbox_is_gone_is_stopped_and_keeps_its_history(own_gateway: Gateway) -> None:
    own_gateway.start()
    with own_gateway.client() as client:
        id = client.post("/v1/sessions").json()["id"]
        done = run(client, id, "print('kept')")
        path = f"/v1/sessions/{id}/executions"
        body = {"code": "import time; time.sleep(600)", "timeout": 600, "wait": False}
        cell = client.post(path, json=body).json()["id"]
        wait_for(lambda: len(client.get(path).json()["executions"]) == 2)
    own_gateway.kill()
    kill_sandbox(id)
    own_gateway.start()
    with own_gateway.client() as client:
        session = client.get(f"/v1/sessions/{id}").json()
        assert session["state"] in ("stopped", "failed")
        assert session["reason"]
        assert client.get(f"{path}/{done['id']}").json()["text"] == "kept\n"
        assert client.get(f"{path}/{cell}").json()["status"] == "lost"
        with client.stream("GET", f"/v1/sessions/{id}/events?follow=false") as answer:
            assert [k for _, k, _ in read_events(answer)][-1] in ("status", "done")
        assert run(client, id, "1")["error"]["code"] == "wrong_state"


def test_an_orderly_stop_leaves_sessions_for_the_next_start(own_gateway: Gateway) -> None:
    own_gateway.start()
    with own_gateway.client() as client:
        id = client.post("/v1/sessions").json()["id"]
        run(client, id, "x = 7")
    assert own_gateway.process is not None
    own_gateway.process.send_signal(signal.SIGTERM)
    assert own_gateway.process.wait(20) == 0
    assert "1 session keeps running" in own_gateway.log.read_text()
    own_gateway.start()
    with own_gateway.client() as client:
        assert run(client, id, "x")["text"] == "7"


def test_stopping_can_mean_that_sessions_end(own_gateway: Gateway) -> None:
    own_gateway.settings["on_shutdown"] = "stop"
    own_gateway.start()
    with own_gateway.client() as client:
        id = client.post("/v1/sessions").json()["id"]
        run(client, id, "x = 7")
    assert own_gateway.process is not None
    own_gateway.process.send_signal(signal.SIGINT)
    assert own_gateway.process.wait(20) == 0
    running = [
        p.pid
        for p in psutil.process_iter(["cmdline"])
        if str(own_gateway.data) in " ".join(p.info["cmdline"] or [])
    ]
    assert running == []
