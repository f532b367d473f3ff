"""A cell that is sent again with its Idempotency-Key is not run again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx

from tests.e2e.conftest import Run, read_events

COUNT = "n = globals().get('n', 0) + 1; n"


def send(http: httpx.Client, session: str, code: str, key: str, **options: Any) -> httpx.Response:
    path = f"/v1/sessions/{session}/executions"
    return http.post(path, json={"code": code, **options}, headers={"Idempotency-Key": key})


def test_the_answer_is_that_of_the_first_whichever_way_it_is_sent(
    http: httpx.Client, session: str, run: Run
) -> None:
    first = send(http, session, COUNT, "a").json()
    assert send(http, session, COUNT, "a").json() == first
    assert send(http, session, COUNT, "a", wait=False).json()["id"] == first["id"]
    headers = {"Idempotency-Key": "a", "Accept": "text/event-stream"}
    path = f"/v1/sessions/{session}/executions"
    with http.stream("POST", path, json={"code": COUNT}, headers=headers) as answer:
        assert list(read_events(answer))[-1][2]["execution"]["id"] == first["id"]
    assert send(http, session, COUNT, "b").json()["text"] == "2", "another key is another cell"
    assert run("n")["text"] == "2"


def test_other_code_with_the_same_key_is_refused(http: httpx.Client, session: str) -> None:
    send(http, session, "1", "a")
    assert send(http, session, "2", "a").json()["error"]["code"] == "key_reused"


def test_a_cell_sent_twice_while_its_session_wakes_up_runs_once(
    http: httpx.Client, session: str, run: Run
) -> None:
    for n in range(1, 6):
        http.post(f"/v1/sessions/{session}/pause")
        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(lambda _, key=f"k{n}": send(http, session, COUNT, key), range(4)))
        assert [a.json()["text"] for a in answers] == [str(n)] * 4
        assert len({a.json()["id"] for a in answers}) == 1
    assert run("n")["text"] == "5"


def test_a_cell_of_a_paused_session_that_is_sent_again_or_waited_for_goes_on(
    http: httpx.Client, session: str
) -> None:
    path = f"/v1/sessions/{session}"
    code = "import time; time.sleep(0.5); print('done')"

    def paused_with(key: str) -> str:
        cell = send(http, session, code, key, wait=False).json()["id"]
        assert http.post(f"{path}/pause").json()["state"] == "paused"
        assert http.get(f"{path}/executions/{cell}").json()["status"] == "running"
        assert http.get(path).json()["state"] == "paused", "to read it does not resume it"
        return str(cell)

    cell = paused_with("a")
    again = send(http, session, code, "a").json()
    assert (again["id"], again["text"]) == (cell, "done\n")
    cell = paused_with("b")
    assert http.get(f"{path}/executions/{cell}", params={"wait": "true"}).json()["text"] == "done\n"
    command = http.post(f"{path}/commands", json={"command": "sleep 0.5; echo done", "background": True})
    http.post(f"{path}/pause")
    waited = http.get(f"{path}/commands/{command.json()['id']}", params={"wait": "true"}).json()
    assert waited["stdout"] == "done\n"
