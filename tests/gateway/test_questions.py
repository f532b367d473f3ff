"""What editors ask kernels, and what others see of a session: who runs what, and what it asks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from interpreter import Client
from interpreter.kernel.questions import (
    LONGEST_MATCH,
    LONGEST_TEXT,
    MOST_MATCHES,
    completion,
    inspection,
)
from tests.conftest import Gateway
from tests.gateway.conftest import assert_refused


def run(http: httpx.Client, session: str, code: str, **more: Any) -> dict[str, Any]:
    answer = http.post(f"/v1/sessions/{session}/executions", json={"code": code, **more})
    assert answer.is_success, answer.text
    return dict(answer.json())


def until(true: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + 60
    while not (found := true()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return found


def test_a_kernel_completes_and_explains_code(http: httpx.Client, session: str) -> None:
    run(http, session, "class Thing:\n    'What it is.'\n    some_part = 1\nthing = Thing()")
    code = "é = '🙂'; thing.some"
    body = {"code": code + " + 1", "cursor": len(code)}
    answer = http.post(f"/v1/sessions/{session}/complete", json=body)
    assert answer.status_code == 200, answer.text
    told = answer.json()
    put = [code[: told["cursor_start"]] + match for match in told["matches"]]
    assert "é = '🙂'; thing.some_part" in put, "places are code points"
    assert told["cursor_end"] == len(code)
    types = told["metadata"]["_jupyter_types_experimental"]
    assert {one["type"] for one in types} & {"instance", "statement", "int"}
    asked = {"code": "thing", "cursor": 3}
    explained = http.post(f"/v1/sessions/{session}/inspect", json=asked).json()
    assert explained["found"] is True
    assert "What it is." in explained["data"]["text/plain"]
    run(http, session, "def twice(x):\n    return x * 2")
    asked = {"code": "twice(3)", "cursor": 5, "detail": 1}
    source = http.post(f"/v1/sessions/{session}/inspect", json=asked).json()
    assert "return" in source["data"]["text/plain"], "where it is known"
    nothing = http.post(f"/v1/sessions/{session}/inspect", json={"code": "nope", "cursor": 2}).json()
    assert nothing == {"found": False, "data": {}}
    beyond = http.post(f"/v1/sessions/{session}/complete", json={"code": "twi", "cursor": 99})
    assert beyond.json()["cursor_end"] == 3
    executions = http.get(f"/v1/sessions/{session}/executions").json()["executions"]
    assert len(executions) == 2, "a question is no cell"


def test_a_context_completes_with_what_it_has(http: httpx.Client, session: str) -> None:
    assert http.post(f"/v1/sessions/{session}/contexts", json={"name": "other"}).is_success
    run(http, session, "only_over_there = 1", context="other")
    body = {"code": "only_over", "cursor": 9}
    here = http.post(f"/v1/sessions/{session}/complete", json=body).json()
    there = http.post(f"/v1/sessions/{session}/complete", json={**body, "context": "other"}).json()
    assert "only_over_there" not in here["matches"]
    assert "only_over_there" in there["matches"]
    missing = http.post(f"/v1/sessions/{session}/complete", json={**body, "context": "none"})
    assert_refused(missing, "context_not_found")


def test_while_a_cell_runs_the_kernel_is_busy_and_says_what_runs(
    http: httpx.Client, session: str
) -> None:
    code = "\n\n  # first line\nopen('go', 'w').close()\nimport time\nwhile True: time.sleep(0.05)"
    cell = run(http, session, code, wait=False, by="Ada's agent")
    until(lambda: http.get(f"/v1/sessions/{session}/files/go").is_success)
    for what in ("complete", "inspect"):
        answer = http.post(f"/v1/sessions/{session}/{what}", json={"code": "pri", "cursor": 3})
        assert_refused(answer, "kernel_busy")
    sessions = http.get("/v1/sessions").json()["sessions"]
    (running,) = next(one for one in sessions if one["id"] == session)["running"]
    assert running["execution_id"] == cell["id"]
    assert running["line"] == "# first line"
    assert running["by"] == "Ada's agent"
    assert running["started_at"]
    assert http.post(f"/v1/sessions/{session}/interrupt").json()["id"] == session
    ended = http.get(f"/v1/sessions/{session}/executions/{cell['id']}", params={"wait": "true"})
    assert ended.json()["by"] == "Ada's agent"
    assert http.get(f"/v1/sessions/{session}").json()["running"] == []
    assert http.post(f"/v1/sessions/{session}/complete", json={"code": "pri", "cursor": 3}).is_success


def test_a_kernel_that_dies_while_it_is_asked_is_an_answer(http: httpx.Client, session: str) -> None:
    run(
        http,
        session,
        "class Trap:\n    def __dir__(self):\n        import os; os._exit(1)\ntrap = Trap()",
    )
    answer = http.post(f"/v1/sessions/{session}/complete", json={"code": "trap.x", "cursor": 6})
    assert_refused(answer, "sandbox_failed")
    until(lambda: http.get(f"/v1/sessions/{session}").json()["state"] == "ready")
    assert run(http, session, "1 + 1")["text"] == "2"


def test_a_kernel_that_does_not_answer_is_not_waited_for(http: httpx.Client, session: str) -> None:
    run(
        http,
        session,
        "class Trap:\n    def __dir__(self):\n        import time; time.sleep(30)\n        return []\ntrap = Trap()",
    )
    answer = http.post(
        f"/v1/sessions/{session}/complete", json={"code": "trap.x", "cursor": 6, "timeout": 1}
    )
    assert_refused(answer, "kernel_busy", "has not answered")
    for wrong in (0, -1, 61, "1"):
        body = {"code": "", "cursor": 0, "timeout": wrong}
        assert_refused(http.post(f"/v1/sessions/{session}/complete", json=body), "invalid_request")


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"status": "ok"},
        {"status": "error", "matches": ["a"]},
        {"status": "ok", "matches": "abc", "cursor_start": "1", "cursor_end": None, "metadata": []},
        {"status": "ok", "matches": [1, None, {}, [], "", "x" * (LONGEST_MATCH + 1)]},
        {"status": "ok", "matches": [], "metadata": {"_jupyter_types_experimental": [1, {"text": 2}]}},
    ],
)
def test_an_answer_that_makes_no_sense_completes_nothing(content: dict[str, Any]) -> None:
    told = completion(content, 10, 4)
    assert told.matches == []
    assert (told.cursor_start, told.cursor_end) == (4, 4)
    assert told.metadata == {}


def test_an_answer_is_as_long_as_it_may_be_and_stays_in_the_code() -> None:
    one = {"text": "y" * 10_000, "type": "z" * 10_000, "start": -1, "end": 3, "more": "x" * 10_000}
    content = {
        "status": "ok",
        "matches": ["x"] * 100_000,
        "cursor_start": 11,
        "cursor_end": 2,
        "metadata": {"_jupyter_types_experimental": [one] * 100_000, "more": 1},
    }
    told = completion(content, 10, 4)
    assert len(told.matches) == MOST_MATCHES
    assert (told.cursor_start, told.cursor_end) == (2, 2)
    (types,) = told.metadata.values()
    assert len(types) == MOST_MATCHES
    assert types[0] == {"text": "y" * LONGEST_MATCH, "type": "z" * LONGEST_MATCH, "end": 3}
    long = {"found": True, "data": {"text/plain": "x" * 1_000_000, "application/x": "y", "text/html": 1}}
    assert {k: len(v) for k, v in inspection(long).data.items()} == {
        "text/plain": LONGEST_TEXT,
        "text/html": 1,
    }
    for wrong in (
        {},
        {"found": True},
        {"found": True, "data": []},
        {"found": 1, "data": {"text/plain": "x"}},
    ):
        assert inspection(wrong).found is False


# -- who runs what


def test_everybody_sees_who_ran_a_cell(gateway: Gateway, http: httpx.Client, session: str) -> None:
    run(http, session, "1")
    run(http, session, "2", by="page")
    with Client(gateway.url, gateway.token) as client:
        client.session(session).run("3")
        assert client.session(session).shell("true").by == "sdk"
    with Client(gateway.url, gateway.token, by="agent 7 🤖") as client:
        client.session(session).run("4")
    cells = http.get(f"/v1/sessions/{session}/executions").json()["executions"]
    assert [cell["by"] for cell in cells] == ["api", "page", "sdk", "sdk", "agent 7 🤖"]
    told = http.get(f"/v1/sessions/{session}/events", params={"follow": "false"}).text
    assert '"by":"agent 7 🤖"' in told
    for wrong in ("", "x" * 101, "a\nb", "\x1b[31m", None, 1):
        answer = http.post(f"/v1/sessions/{session}/executions", json={"code": "", "by": wrong})
        assert_refused(answer, "invalid_request")


def test_who_comes_later_sees_what_a_cell_asks_and_when_it_is_answered(
    http: httpx.Client, session: str
) -> None:
    code = "import getpass; a = input('Name? '); b = getpass.getpass('Word? '); print(a + b)"
    cell = run(http, session, code, wait=False, allow_stdin=True)
    path = f"/v1/sessions/{session}/executions/{cell['id']}"
    asked = until(lambda: http.get(path).json()["input_request"])
    assert asked == {"prompt": "Name? ", "password": False}
    assert http.post(f"{path}/input", json={"value": "Ada"}).status_code == 204
    asked = until(lambda: (r := http.get(path).json()["input_request"]) and r["password"] and r)
    assert asked == {"prompt": "Word? ", "password": True}
    assert http.post(f"{path}/input", json={"value": "!"}).status_code == 204
    ended = http.get(path, params={"wait": "true"}).json()
    assert ended["text"].strip() == "Ada!"
    assert ended["input_request"] is None
    events = http.get(f"{path}/events").text
    assert events.count("event: input_request") == events.count('"answered":true') == 2


def test_a_question_outlives_the_gateway(own_gateway: Gateway) -> None:
    own_gateway.start()
    with own_gateway.client() as http:
        session = http.post("/v1/sessions").json()["id"]
        more = {"wait": False, "allow_stdin": True, "timeout": 300, "by": "before"}
        cell = run(http, session, "print(input('Still there? '))", **more)
        path = f"/v1/sessions/{session}/executions/{cell['id']}"
        until(lambda: http.get(path).json()["input_request"])
        events = http.get(f"/v1/sessions/{session}/events", params={"follow": "false"})
        assert "input_request" in events.text
    own_gateway.kill()
    own_gateway.start()
    with own_gateway.client() as http:
        asked = until(lambda: http.get(path).json()["input_request"])
        assert asked == {"prompt": "Still there? ", "password": False}
        assert http.post(f"{path}/input", json={"value": "yes"}).status_code == 204
        ended = http.get(path, params={"wait": "true"}).json()
        assert ended["text"].strip() == "yes"
        assert ended["by"] == "before"


def test_many_questions_at_once_are_answered_or_refused(http: httpx.Client, session: str) -> None:
    answers: list[int] = []

    def ask() -> None:
        body = {"code": "pri", "cursor": 3, "timeout": 60}
        answers.append(http.post(f"/v1/sessions/{session}/complete", json=body).status_code)

    threads = [threading.Thread(target=ask) for _ in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(answers) <= {200, 409}
    body = {"code": "pri", "cursor": 3}
    until(lambda: http.post(f"/v1/sessions/{session}/complete", json=body).is_success)
