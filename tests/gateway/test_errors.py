"""What is refused, and in which words: each error has its code, its status and a way on."""

from __future__ import annotations

import time
from collections.abc import Iterator

import httpx
import pytest

from interpreter.errors import BY_CODE
from tests.conftest import Gateway, kill_sandbox
from tests.gateway.conftest import assert_refused

ON_A_SESSION = [
    ("GET", ""),
    ("DELETE", ""),
    ("POST", "/interrupt"),
    ("POST", "/restart"),
    ("GET", "/events"),
    ("GET", "/executions"),
    ("POST", "/executions"),
    ("GET", "/files"),
    ("GET", "/files/f"),
    ("PUT", "/files/f"),
    ("DELETE", "/files/f"),
    ("POST", "/files/f"),
]
ON_AN_EXECUTION = [
    ("GET", ""),
    ("GET", "?wait=true"),
    ("DELETE", ""),
    ("GET", "/events"),
    ("GET", "/output"),
    ("POST", "/input"),
]
BODIES = {
    "/executions": b'{"code": "1"}',
    "/input": b'{"value": "x"}',
    "/files/f": b'{"move_to": "g"}',
}


@pytest.fixture
def small_http(small: Gateway) -> Iterator[httpx.Client]:
    with small.client() as client:
        yield client


def test_every_error_has_its_own_code_and_says_what_to_do() -> None:
    for code, error in BY_CODE.items():
        assert code == error.code
        assert 400 <= error.status < 600
        assert error.hint.endswith(".")
    assert len(BY_CODE) > 15


@pytest.mark.parametrize(("method", "rest"), [*ON_A_SESSION, ("GET", "/executions/e-1")])
def test_an_unknown_session_is_not_found(http: httpx.Client, method: str, rest: str) -> None:
    answer = http.request(method, f"/v1/sessions/s-none{rest}", content=BODIES.get(rest))
    assert_refused(answer, "session_not_found", "s-none", "GET /v1/sessions")


@pytest.mark.parametrize(("method", "rest"), ON_AN_EXECUTION)
def test_an_unknown_execution_is_not_found(
    small_http: httpx.Client, only_session: str, method: str, rest: str
) -> None:
    path = f"/v1/sessions/{only_session}/executions/e-none{rest}"
    answer = small_http.request(method, path, content=BODIES.get(rest))
    assert_refused(answer, "execution_not_found", "e-none")


def test_executions_after_an_unknown_one_are_not_listed(
    small_http: httpx.Client, only_session: str
) -> None:
    answer = small_http.get(f"/v1/sessions/{only_session}/executions", params={"after": "e-none"})
    assert_refused(answer, "execution_not_found")


def test_a_deleted_session_is_gone_for_every_operation(http: httpx.Client) -> None:
    id = http.post("/v1/sessions").json()["id"]
    assert http.delete(f"/v1/sessions/{id}").status_code == 200
    for method, rest in ON_A_SESSION:
        answer = http.request(method, f"/v1/sessions/{id}{rest}", content=BODIES.get(rest))
        assert_refused(answer, "session_not_found", id)


def test_a_failed_session_says_why_and_how_it_can_go_on(http: httpx.Client) -> None:
    id = http.post("/v1/sessions").json()["id"]
    path = f"/v1/sessions/{id}"
    cell = http.post(f"{path}/executions", json={"code": "print('kept')"}).json()
    kill_sandbox(id)
    _wait_for_state(http, path, "failed")
    for rest in ("/executions", "/interrupt", "/restart"):
        answer = http.post(path + rest, content=BODIES.get(rest))
        assert_refused(answer, "wrong_state", "failed: the sandbox ended", "/start")
    assert http.get(f"{path}/executions/{cell['id']}").json()["text"] == "kept\n"
    assert http.delete(path).status_code == 200


def _wait_for_state(http: httpx.Client, path: str, state: str) -> None:
    deadline = time.monotonic() + 20
    while http.get(path).json()["state"] != state:
        assert time.monotonic() < deadline, "the session does not notice"
        time.sleep(0.05)


@pytest.mark.parametrize(
    "body", [b"{", b"name", b"{'name': 1}", b'{"name": "\xff"}', b'{"name": "a"} x', b"\x00", b" "]
)
def test_what_is_not_json_is_refused(http: httpx.Client, body: bytes) -> None:
    assert_refused(http.post("/v1/sessions", content=body), "invalid_json", "JSON")


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ("[]", "object"),
        ("null", "object"),
        ('{"name": 5}', "name"),
        ('{"name": ""}', "name"),
        ('{"labels": {"a": 1}}', "labels"),
        ('{"limits": {"cpus": "2"}}', "cpus"),
        ('{"limits": {"cpus": 0}}', "cpus"),
        ('{"limits": {"cpus": 1e400}}', "cpus"),
        ('{"limits": {"memory_mb": 1}}', "memory_mb"),
        ('{"limits": {"memory_mb": 1' + "0" * 400 + "}}", "memory_mb"),
        ('{"surname": "x"}', "surname"),
        ('{"limits": {"wings": 2}}', "wings"),
        ('{"labels": ' + '{"a": ' * 5000, "labels"),
    ],
)
def test_wrong_types_and_unknown_fields_are_refused_by_name(
    http: httpx.Client, body: str, word: str
) -> None:
    assert_refused(http.post("/v1/sessions", content=body), "invalid_request", word, "/docs")


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=1001", "limit=ten", "limit=", "limit=%ff", "first=1", "%ff=1"]
)
def test_wrong_query_parameters_are_refused(http: httpx.Client, query: str) -> None:
    assert_refused(http.get(f"/v1/sessions/any/executions?{query}"), "invalid_request", "query")


def test_a_path_that_is_no_text_is_refused(http: httpx.Client) -> None:
    assert_refused(http.get("/v1/sessions/%ff%fe"), "invalid_request", "session_id")


@pytest.mark.parametrize("number", ["", "abc", "-1", "1.5", "0x10", "9" * 20, "²"])
@pytest.mark.parametrize("rest", ["/events", "/executions/e-1/events"])
def test_a_last_event_id_that_is_no_number_is_refused(
    http: httpx.Client, number: str, rest: str
) -> None:
    headers = {"Last-Event-ID": number.encode("latin-1")}
    answer = http.get(f"/v1/sessions/any{rest}", headers=headers)
    assert_refused(answer, "invalid_request", "Last-Event-ID")


def test_an_unknown_environment_is_refused_with_those_there_are(http: httpx.Client) -> None:
    answer = http.post("/v1/sessions", json={"environment": "cobol"})
    assert_refused(answer, "unknown_environment", "cobol", "python")


@pytest.mark.parametrize(
    ("limit", "value"),
    [("memory_mb", 16385), ("cpus", 8.5), ("processes", 2**53), ("file_mb", 10**6), ("disk_mb", 102401)],
)
def test_limits_beyond_the_maximum_are_refused(http: httpx.Client, limit: str, value: float) -> None:
    answer = http.post("/v1/sessions", json={"limits": {limit: value}})
    assert_refused(answer, "limit_too_high", limit, "[maximums]")


def test_a_cell_cannot_ask_for_more_than_its_session_may(
    small_http: httpx.Client, only_session: str
) -> None:
    path = f"/v1/sessions/{only_session}/executions"
    answer = small_http.post(path, json={"code": "1", "timeout": 600.5})
    assert_refused(answer, "limit_too_high", "600", "cell_seconds")
    answer = small_http.post(path, json={"code": "1", "max_output_bytes": 2**40})
    assert_refused(answer, "limit_too_high", "max_output_bytes")
    assert small_http.get(path).json()["executions"] == [], "what is refused leaves no trace"


def test_code_that_is_too_long_is_refused(small_http: httpx.Client, only_session: str) -> None:
    path = f"/v1/sessions/{only_session}/executions"
    assert_refused(small_http.post(path, json={"code": "é" * 501}), "code_too_long", "1,002", "1,000")
    assert small_http.post(path, json={"code": "#" * 1000}).status_code == 200


def test_a_body_that_is_too_large_is_refused_before_it_is_read(small_http: httpx.Client) -> None:
    assert_refused(small_http.post("/v1/workspaces", content=b" " * 10_000_000), "request_too_large")


def test_a_body_of_unknown_length_is_refused_when_it_grows_too_large(small_http: httpx.Client) -> None:
    pieces = (b" " * 10_000 for _ in range(1000))
    answer = small_http.post("/v1/workspaces", content=pieces)
    assert_refused(answer, "request_too_large", "71,536")
    assert answer.headers["Connection"] == "close"


def test_one_session_too_many_is_refused(small_http: httpx.Client, only_session: str) -> None:
    answer = small_http.post("/v1/sessions")
    assert_refused(answer, "too_many_sessions", "1 sessions run", "delete a session")
    assert int(answer.headers["Retry-After"]) >= 1


def test_one_queued_cell_too_many_is_refused(small_http: httpx.Client, only_session: str) -> None:
    path = f"/v1/sessions/{only_session}/executions"
    body = {"code": "import time; time.sleep(60)", "timeout": 60, "wait": False}
    running, queued = (small_http.post(path, json=body).json()["id"] for _ in range(2))
    assert_refused(small_http.post(path, json=body), "queue_full", "cancel")
    for id in (queued, running):
        assert small_http.delete(f"{path}/{id}").json()["status"] == "cancelled"


def test_input_that_nobody_asked_for_is_refused(small_http: httpx.Client, only_session: str) -> None:
    path = f"/v1/sessions/{only_session}/executions"
    id = small_http.post(path, json={"code": "1"}).json()["id"]
    answer = small_http.post(f"{path}/{id}/input", json={"value": "x"})
    assert_refused(answer, "input_not_expected", "input_request")


def test_who_has_seen_the_end_of_a_cell_does_not_wait_for_it_again(
    small_http: httpx.Client, only_session: str
) -> None:
    path = f"/v1/sessions/{only_session}/executions"
    id = small_http.post(path, json={"code": "1"}).json()["id"]
    answer = small_http.get(f"{path}/{id}/events", params={"after": 10**6}, timeout=10)
    assert (answer.status_code, answer.text) == (200, "")


def test_a_fault_of_the_gateway_is_told_without_its_insides(own_gateway: Gateway) -> None:
    own_gateway.settings["spares"] = "0"
    own_gateway.start()
    (own_gateway.data / "workspaces").touch()
    with own_gateway.client() as client:
        assert_refused(client.post("/v1/sessions"), "internal", "log")
    log = own_gateway.log.read_text()
    assert "Traceback (most recent call last)" in log, "the log has the details"
    assert "locals" not in log, "but not the variables, which may hold secrets"
