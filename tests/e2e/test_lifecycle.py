"""The life of a session: paused and resumed, stopped and started, changed, ended in time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from tests.conftest import Gateway, only
from tests.e2e.conftest import read_events


def wait_for(what: Callable[[], Any], seconds: float = 20.0) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.02)
    return found


@pytest.fixture
def sessions(http: httpx.Client) -> Iterator[Callable[..., dict[str, Any]]]:
    """Makes sessions, which are deleted afterwards."""
    made: list[str] = []

    def make(**wanted: Any) -> dict[str, Any]:
        answer = http.post("/v1/sessions", json=wanted)
        assert answer.status_code in (201, 202), answer.text
        made.append(answer.json()["id"])
        return dict(answer.json())

    yield make
    for id in made:
        http.delete(f"/v1/sessions/{id}")


def events_of(http: httpx.Client, session: str) -> list[tuple[int, str, dict[str, Any]]]:
    with http.stream("GET", f"/v1/sessions/{session}/events?follow=false") as answer:
        return list(read_events(answer))


def states_of(http: httpx.Client, session: str) -> list[str]:
    found = [data["state"] for _, kind, data in events_of(http, session) if "state" in data]
    return [state for i, state in enumerate(found) if i == 0 or found[i - 1] != state]


# -- pause and resume


def test_a_paused_session_keeps_its_memory_and_the_next_cell_resumes_it(
    http: httpx.Client, session: str, run: Any
) -> None:
    run("x = 41")
    paused = http.post(f"/v1/sessions/{session}/pause").json()
    assert paused["state"] == "paused"
    assert http.get(f"/v1/sessions/{session}").json()["state"] == "paused", "reading does not wake it"
    assert run("x + 1")["text"] == "42"
    assert http.get(f"/v1/sessions/{session}").json()["state"] == "ready"
    assert states_of(http, session)[-4:] == ["paused", "ready", "busy", "ready"]


def test_a_paused_session_uses_no_cpu(http: httpx.Client, session: str, run: Any) -> None:
    run(
        "import threading\nthreading.Thread(target=lambda: [None for _ in iter(int, 1)], daemon=True).start()"
    )
    http.post(f"/v1/sessions/{session}/pause")

    def cpu() -> float:
        return float(http.get(f"/v1/sessions/{session}").json()["usage"]["cpu_seconds"])

    before = cpu()
    time.sleep(0.5)
    assert cpu() - before < 0.05
    assert http.post(f"/v1/sessions/{session}/resume").json()["state"] == "ready"
    wait_for(lambda: cpu() - before > 0.1)


def test_a_cell_that_is_paused_does_not_time_out(http: httpx.Client, session: str) -> None:
    path = f"/v1/sessions/{session}"
    body = {
        "code": "import time\nfor i in range(10):\n    print(i); time.sleep(0.1)",
        "timeout": 3,
        "wait": False,
    }
    cell = http.post(f"{path}/executions", json=body).json()["id"]
    wait_for(lambda: http.get(f"{path}/executions/{cell}").json()["outputs"])
    assert http.post(f"{path}/pause").json()["state"] == "paused"
    time.sleep(3.2)
    assert http.get(f"{path}/executions/{cell}").json()["status"] == "running"
    assert http.post(f"{path}/resume").json()["state"] == "busy"
    ended = http.get(f"{path}/executions/{cell}?wait=true").json()
    assert ended["status"] == "ok"
    assert ended["text"] == "".join(f"{i}\n" for i in range(10))


def test_a_paused_session_is_found_again_by_the_next_gateway(own_gateway: Gateway) -> None:
    own_gateway.start()
    with own_gateway.client() as client:
        id = client.post("/v1/sessions").json()["id"]
        path = f"/v1/sessions/{id}"
        body = {"code": "x = 6\nprint(x)\nimport time; time.sleep(1)", "timeout": 3, "wait": False}
        cell = client.post(f"{path}/executions", json=body).json()["id"]
        wait_for(lambda: client.get(f"{path}/executions/{cell}").json()["outputs"])
        client.post(f"{path}/pause")
    own_gateway.kill()
    time.sleep(3.2)
    own_gateway.start()
    with own_gateway.client() as client:
        assert client.get(path).json()["state"] == "paused"
        assert client.post(f"{path}/resume").status_code == 200
        ended = client.get(f"{path}/executions/{cell}?wait=true").json()
        assert (ended["status"], ended["text"]) == ("ok", "6\n"), "its time stood still"
        assert client.post(f"{path}/executions", json={"code": "x * 7"}).json()["text"] == "42"
        client.post(f"{path}/pause")
        assert client.delete(path).status_code == 200, "also a frozen sandbox can be ended"


def test_a_cell_that_was_paused_ends_with_its_sandbox_also_at_the_next_gateway(
    own_gateway: Gateway,
) -> None:
    own_gateway.start()
    with own_gateway.client() as client:
        id = client.post("/v1/sessions").json()["id"]
        path = f"/v1/sessions/{id}"
        body = {"code": "print(1)\nimport time; time.sleep(60)", "timeout": 100, "wait": False}
        cell = client.post(f"{path}/executions", json=body).json()["id"]
        wait_for(lambda: client.get(f"{path}/executions/{cell}").json()["outputs"])
        client.post(f"{path}/pause")
    own_gateway.kill()
    own_gateway.start()
    with own_gateway.client() as client:
        client.post(f"{path}/stop")
        ended = client.get(f"{path}/executions/{cell}?wait=true").json()
        assert (ended["status"], ended["text"]) == ("lost", "1\n")
        assert client.post(f"{path}/start").status_code == 200
        assert client.post(f"{path}/executions", json={"code": "6 * 7"}).json()["text"] == "42"


# -- stop and start


def test_a_stopped_session_comes_back_with_its_files_and_without_its_memory(
    http: httpx.Client, session: str, run: Any
) -> None:
    run("x = 1; open('kept.txt', 'w').write('still here')")
    stopped = http.post(f"/v1/sessions/{session}/stop").json()
    assert (stopped["state"], stopped["reason"]) == ("stopped", "it was stopped")
    assert stopped["usage"] is None
    assert stopped["expires_at"] is None
    refused = http.post(f"/v1/sessions/{session}/executions", json={"code": "1"})
    assert refused.json()["error"]["code"] == "wrong_state"
    assert "/start" in refused.json()["error"]["hint"]
    started = http.post(f"/v1/sessions/{session}/start").json()
    assert started["state"] == "ready"
    assert "what was in memory is gone" in started["reason"]
    assert (started["warm"], started["cold_because"]) == (False, "it has a workspace already")
    assert run("open('kept.txt').read()")["text"] == "'still here'"
    assert run("x")["error"]["ename"] == "NameError"
    cells = http.get(f"/v1/sessions/{session}/executions").json()["executions"]
    assert [cell["status"] for cell in cells] == ["ok", "ok", "error"], "the history is whole"
    assert [seq for seq, _, _ in events_of(http, session)] == list(
        range(1, len(events_of(http, session)) + 1)
    )


def test_a_session_can_be_stopped_and_started_again_and_again(
    http: httpx.Client, session: str, run: Any
) -> None:
    for number in range(3):
        run(f"open('{number}', 'w').close()")
        http.post(f"/v1/sessions/{session}/stop")
        assert http.post(f"/v1/sessions/{session}/start").json()["state"] == "ready"
    assert run("import os; sorted(os.listdir())")["text"] == "['0', '1', '2']"


def test_stopping_ends_the_cells_and_says_so(http: httpx.Client, session: str) -> None:
    path = f"/v1/sessions/{session}/executions"
    body = {"code": "import time; time.sleep(60)", "timeout": 60, "wait": False}
    ids = [http.post(path, json=body).json()["id"] for _ in range(2)]
    http.post(f"/v1/sessions/{session}/stop")
    running, queued = (http.get(f"{path}/{id}").json() for id in ids)
    assert (running["status"], running["reason"]) == ("lost", "it was stopped")
    assert queued["status"] == "cancelled"


def test_a_stopped_session_survives_the_gateway_and_can_be_started_by_the_next(
    own_gateway: Gateway,
) -> None:
    own_gateway.start()
    with own_gateway.client() as client:
        id = client.post("/v1/sessions").json()["id"]
        path = f"/v1/sessions/{id}"
        client.post(f"{path}/executions", json={"code": "open('a', 'w').write('b')"})
        client.post(f"{path}/stop")
    own_gateway.kill()
    own_gateway.start()
    with own_gateway.client() as client:
        assert client.get(path).json()["state"] == "stopped"
        assert client.post(f"{path}/start").json()["state"] == "ready"
        assert (
            client.post(f"{path}/executions", json={"code": "open('a').read()"}).json()["text"] == "'b'"
        )


def test_a_follower_sees_a_session_stop_and_start(http: httpx.Client, session: str) -> None:
    seen: list[str] = []

    def follow() -> None:
        with http.stream("GET", f"/v1/sessions/{session}/events") as answer:
            for _, _, data in read_events(answer):
                seen.append(data.get("state", ""))
                if seen.count("ready") == 2:
                    return

    follower = threading.Thread(target=follow)
    follower.start()
    http.post(f"/v1/sessions/{session}/stop")
    http.post(f"/v1/sessions/{session}/start")
    follower.join(20)
    assert [state for state in seen if state] == ["ready", "stopped", "creating", "ready"]


# -- limits on time and number


def test_an_idle_session_is_paused_or_stopped_with_a_warning_as_it_asked(
    http: httpx.Client, sessions: Any
) -> None:
    paused = sessions(limits={"idle_seconds": 0.5})
    stopped = sessions(limits={"idle_seconds": 0.5}, on_idle="stop")
    kept = sessions(limits={"idle_seconds": 0.5}, on_idle="nothing")
    assert paused["on_idle"] == "pause"
    assert 0 < paused["remaining"]["idle_seconds"] <= 0.5
    assert kept["remaining"]["idle_seconds"] is None

    def state(session: dict[str, Any]) -> str:
        return str(http.get(f"/v1/sessions/{session['id']}").json()["state"])

    wait_for(lambda: state(paused) == "paused" and state(stopped) == "stopped")
    assert state(kept) == "ready"
    reason = http.get(f"/v1/sessions/{stopped['id']}").json()["reason"]
    assert reason == "nobody used it for 0.5 s"
    warnings = [data for _, kind, data in events_of(http, stopped["id"]) if kind == "warning"]
    assert [w["what"] for w in warnings] == ["idle"]
    assert "files stay" in warnings[0]["message"]


def test_a_session_that_is_used_is_not_idle(http: httpx.Client, sessions: Any) -> None:
    session = sessions(limits={"idle_seconds": 1.0}, on_idle="stop")
    path = f"/v1/sessions/{session['id']}/executions"
    assert http.post(path, json={"code": "import time; time.sleep(2)"}).json()["status"] == "ok"
    for _ in range(4):
        time.sleep(0.5)
        assert http.post(path, json={"code": "1"}).status_code == 200


def test_a_session_ends_with_its_lifetime_and_warns_before(http: httpx.Client, sessions: Any) -> None:
    session = sessions(limits={"lifetime_seconds": 4})
    path = f"/v1/sessions/{session['id']}"
    assert session["expires_at"] > session["created_at"]
    wait_for(lambda: http.get(path).json()["state"] == "stopped")
    assert http.get(path).json()["reason"] == "it reached its lifetime of 4 s"
    assert [d["what"] for _, kind, d in events_of(http, session["id"]) if kind == "warning"] == [
        "lifetime"
    ]
    assert http.post(f"{path}/start").json()["remaining"]["lifetime_seconds"] > 1, "it lives again"


def test_a_session_runs_so_many_cells_and_no_more(http: httpx.Client, sessions: Any) -> None:
    session = sessions(limits={"executions": 10})
    path = f"/v1/sessions/{session['id']}"
    for _ in range(10):
        http.post(f"{path}/executions", json={"code": "1"})
    refused = http.post(f"{path}/executions", json={"code": "1"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "executions_used_up")
    assert http.get(path).json()["remaining"]["executions"] == 0
    assert [d["what"] for _, kind, d in events_of(http, session["id"]) if kind == "warning"] == [
        "executions"
    ]
    assert http.patch(path, json={"limits": {"executions": 11}}).json()["remaining"]["executions"] == 1
    assert http.post(f"{path}/executions", json={"code": "1"}).json()["status"] == "ok"


def test_a_running_cell_gets_more_time_up_to_the_maximum(http: httpx.Client, sessions: Any) -> None:
    session = sessions(limits={"cell_seconds": 30})
    path = f"/v1/sessions/{session['id']}/executions"
    body = {"code": "import time; time.sleep(2.5); 'done'", "timeout": 1.5, "wait": False}
    cell = http.post(path, json=body).json()["id"]
    extended = http.patch(f"{path}/{cell}", json={"timeout": 20}).json()
    assert (extended["status"], extended["timeout"]) == ("running", 20)
    refused = http.patch(f"{path}/{cell}", json={"timeout": 31})
    assert refused.json()["error"]["code"] == "limit_too_high"
    assert http.get(f"{path}/{cell}?wait=true").json()["text"] == "'done'"
    assert http.patch(f"{path}/{cell}", json={"timeout": 5}).json()["error"]["code"] == "wrong_state"


def test_a_session_says_how_much_time_is_left_for_what_runs(http: httpx.Client, session: str) -> None:
    path = f"/v1/sessions/{session}"
    body = {"code": "import time; time.sleep(600)", "timeout": 60, "wait": False}
    cell = http.post(f"{path}/executions", json=body).json()["id"]
    http.post(f"{path}/commands", json={"command": "sleep 600", "timeout": 50, "background": True})

    def left() -> list[tuple[float, float]]:
        running = http.get(path).json()["running"]
        return [(one["timeout"], one["remaining_seconds"]) for one in running]

    wait_for(lambda: len(left()) == 2)
    (first, command), (second, _) = left(), left()
    assert (first[0], command[0]) == (60, 50)
    assert 0 < second[1] < first[1] < 60
    assert 0 < command[1] < 50
    http.patch(f"{path}/executions/{cell}", json={"timeout": 100})
    assert (left()[0][0], left()[0][1] > 60) == (100, True)
    http.post(f"{path}/pause")
    assert left() == left(), "it stands still"
    http.delete(f"{path}/executions/{cell}")
    assert [timeout for timeout, _ in left()] == [50]


def test_a_running_cell_can_be_given_less_time(http: httpx.Client, session: str) -> None:
    path = f"/v1/sessions/{session}/executions"
    body = {"code": "import time; time.sleep(60)", "timeout": 60, "wait": False}
    cell = http.post(path, json=body).json()["id"]
    http.patch(f"{path}/{cell}", json={"timeout": 0.1})
    assert http.get(f"{path}/{cell}?wait=true").json()["status"] == "timeout"


# -- names, labels, limits


def test_sessions_are_found_by_state_name_and_label_page_by_page(
    http: httpx.Client, sessions: Any
) -> None:
    made = [
        sessions(name=f"n{i}", labels={"team": "blue", "i": str(i % 2)}, wait=True) for i in range(3)
    ]
    http.post(f"/v1/sessions/{made[0]['id']}/stop")

    def found(**query: Any) -> list[str]:
        return [s["name"] for s in http.get("/v1/sessions", params=query).json()["sessions"]]

    assert found(label="team=blue") == ["n2", "n1", "n0"], "newest first"
    assert found(label="team=blue,i=0") == ["n2", "n0"]
    assert found(label="team=blue", state="stopped") == ["n0"]
    assert found(name="n1") == ["n1"]
    assert found(label="team=red") == []
    page = http.get("/v1/sessions", params={"label": "team=blue", "limit": 2}).json()
    assert [s["name"] for s in page["sessions"]] == ["n2", "n1"]
    for _ in range(2):
        rest = http.get("/v1/sessions", params={"label": "team=blue", "after": page["next"]}).json()
        assert ([s["name"] for s in rest["sessions"]], rest["next"]) == (["n0"], None)
        http.delete(f"/v1/sessions/{made[1]['id']}")  # the last one of the page before
    assert http.get("/v1/sessions", params={"after": "nothing"}).status_code == 400


def test_name_labels_and_limits_can_be_changed(http: httpx.Client, session: str, run: Any) -> None:
    path = f"/v1/sessions/{session}"
    changed = http.patch(
        path, json={"name": "b", "labels": {"k": "v"}, "limits": {"memory_mb": 1024, "cell_seconds": 7}}
    ).json()
    assert (changed["name"], changed["labels"]) == ("b", {"k": "v"})
    assert (changed["limits"]["memory_mb"], changed["limits"]["cell_seconds"]) == (1024, 7)
    assert changed["limits"]["cpus"] == 1, "what is left out stays"
    too_long = http.post(f"{path}/executions", json={"code": "1", "timeout": 8})
    assert too_long.json()["error"]["code"] == "limit_too_high"
    assert run("bytearray(1500 << 20); 1")["status"] in ("lost", "error"), "it holds"
    fixed = http.patch(path, json={"limits": {"file_mb": 5}})
    assert (fixed.status_code, fixed.json()["error"]["code"]) == (409, "limit_fixed")
    assert http.patch(path, json={"name": None}).json()["name"] is None


# -- created later


def test_a_session_that_is_not_waited_for_is_there_at_once_and_soon_ready(
    http: httpx.Client, sessions: Any
) -> None:
    session = sessions(wait=False, name="soon")
    assert session["state"] in ("creating", "ready")
    cell = http.post(f"/v1/sessions/{session['id']}/executions", json={"code": "6 * 7"}).json()
    assert cell["text"] == "42", "a cell waits for its session"
    assert http.get(f"/v1/sessions/{session['id']}").json()["name"] == "soon"


def test_variables_reach_the_kernel_and_stay_after_a_restart(http: httpx.Client, sessions: Any) -> None:
    session = sessions(env={"COLOUR": "blue", "EMPTY": ""})
    path = f"/v1/sessions/{session['id']}"
    code = "import os; os.environ['COLOUR'], os.environ['EMPTY']"
    assert http.post(f"{path}/executions", json={"code": code}).json()["text"] == "('blue', '')"
    http.post(f"{path}/restart")
    assert http.post(f"{path}/executions", json={"code": code}).json()["text"] == "('blue', '')"
    http.post(f"{path}/stop")
    http.post(f"{path}/start")
    assert http.post(f"{path}/executions", json={"code": code}).json()["text"] == "('blue', '')"


@only("embedded", "docker")
def test_every_change_of_state_is_recorded_with_its_cause(own_gateway: Gateway) -> None:
    """What cells do is in the session's events, all else in the audit log, which outlives it."""
    own_gateway.start()
    with own_gateway.client() as client:
        id = client.post("/v1/sessions").json()["id"]
        path = f"/v1/sessions/{id}"
        for code, timeout in (("1", 60), ("1 / 0", 60), ("while True: pass", 0.5)):
            client.post(f"{path}/executions", json={"code": code, "timeout": timeout})
        for action in ("pause", "resume", "stop", "start"):
            assert client.post(f"{path}/{action}").status_code == 200
        with client.stream("GET", f"{path}/events", params={"after": 0, "follow": "false"}) as answer:
            events = list(read_events(answer))
        client.delete(path)
        audit = client.get("/v1/audit", params={"session": id}).json()["entries"]
        after = client.get("/v1/audit", params={"session": id, "after": audit[0]["number"], "limit": 2})
        assert after.json()["entries"] == audit[1:3]
    names = ["creating", "ready", "paused", "ready", "stopped", "creating", "ready"]
    names += ["stopped", "deleted"]
    assert [entry["action"] for entry in audit] == [f"session.{name}" for name in names]
    assert all(entry["detail"]["cause"] for entry in audit[:-1])
    states = [data for _, kind, data in events if kind == "status" and "state" in data]
    assert all(change["reason"] for change in states)
    cells = ["busy", "ready"] * 3
    assert [change["state"] for change in states] == ["ready", *cells, *names[2:7]]
    ends = [data["execution"] for _, kind, data in events if kind == "done"]
    assert [end["status"] for end in ends] == ["ok", "error", "timeout"]
    assert ends[1]["error"]["ename"] == "ZeroDivisionError"
    assert ends[2]["reason"] == "it ran longer than its timeout of 0.5 s"
    for end in ends:
        about = [d["status"] for _, k, d in events if k == "status" and d["execution_id"] == end["id"]]
        assert about[:2] == ["queued", "running"]
