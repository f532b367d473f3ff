"""Tokens for one session's outputs: what they open, and that they open nothing else."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Iterator

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from interpreter import AsyncClient, Client
from interpreter.gateway.application import LISTED
from interpreter.gateway.executions import EMBEDDED_PAGE
from interpreter.gateway.jupyter.routes import OPERATIONS as JUPYTER
from interpreter.gateway.operation import Operation
from interpreter.gateway.page import OPERATIONS as PAGE
from interpreter.gateway.seal import Seal
from tests.conftest import Gateway, only
from tests.gateway.conftest import assert_refused

pytestmark = only("embedded")

OPEN = {
    ("GET", "/v1/sessions/{session_id}/events"),
    ("GET", "/v1/sessions/{session_id}/executions"),
    ("GET", "/v1/sessions/{session_id}/executions/{execution_id}"),
    ("GET", "/v1/sessions/{session_id}/executions/{execution_id}/events"),
    ("GET", "/v1/sessions/{session_id}/notebook"),
}
"""All that such a token is good for. A new operation that says it is, too, has to be added here."""
ALL = [*LISTED, *JUPYTER, *PAGE]
CLOSED = [o for o in ALL if not o.public and (o.method, o.path) not in OPEN]


@pytest.fixture(scope="module")
def shown(gateway: Gateway) -> Iterator[tuple[str, str, str]]:
    """A session with outputs, one of its executions, and a token for it."""
    with gateway.client() as http:
        session = http.post("/v1/sessions").json()["id"]
        run = http.post(f"/v1/sessions/{session}/executions", json={"code": "print('shown')"})
        answer = http.post(f"/v1/sessions/{session}/embed")
        assert answer.status_code == 201, answer.text
        yield session, run.json()["id"], answer.json()["token"]
        http.delete(f"/v1/sessions/{session}")


@pytest.fixture
def stranger(gateway: Gateway) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=gateway.url, timeout=60, trust_env=False) as client:
        yield client


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def filled(operation: Operation, session: str, execution: str) -> str:
    path = operation.path.replace("{session_id}", session).replace("{execution_id}", execution)
    return re.sub(r"{\w+}", "x", path)


def test_it_says_which_session_and_how_long(http: httpx.Client, session: str) -> None:
    for body, seconds in ((None, 3600), ({"seconds": 60}, 60), ({"seconds": 604800}, 604800)):
        before = time.time()
        made = http.post(f"/v1/sessions/{session}/embed", json=body).json()
        assert made["url"] == f"/embed/{session}#token={made['token']}"
        until = httpx.Response(200, json=made).json()["expires_at"]
        left = time.mktime(time.strptime(until[:19], "%Y-%m-%dT%H:%M:%S")) - time.timezone - before
        assert seconds - 2 <= left <= seconds + 60
    for wrong in (0, -1, 604801, "1", None, 1.5):
        answer = http.post(f"/v1/sessions/{session}/embed", json={"seconds": wrong})
        assert_refused(answer, "invalid_request")
    assert_refused(http.post("/v1/sessions/s-none/embed"), "session_not_found")


def test_it_opens_the_outputs_of_its_session(
    stranger: httpx.Client, shown: tuple[str, str, str]
) -> None:
    session, execution, token = shown
    assert {(o.method, o.path) for o in ALL if o.embeddable} == OPEN
    for operation in LISTED:
        if (operation.method, operation.path) in OPEN:
            query = {"follow": "false"} if operation.path.endswith("{session_id}/events") else {}
            path = filled(operation, session, execution)
            answer = stranger.get(path, params=query, headers=bearer(token))
            assert answer.status_code == 200, path
            assert "shown" in answer.text


def test_it_gets_a_small_page_of_them_at_once(stranger: httpx.Client, http: httpx.Client) -> None:
    session = http.post("/v1/sessions").json()["id"]
    path = f"/v1/sessions/{session}/executions"
    for _ in range(EMBEDDED_PAGE + 1):
        assert http.post(path, json={"code": ""}).status_code == 200
    token = http.post(f"/v1/sessions/{session}/embed").json()["token"]
    got = stranger.get(path, params={"limit": 1000}, headers=bearer(token)).json()["executions"]
    assert len(got) == EMBEDDED_PAGE
    http.delete(f"/v1/sessions/{session}")


@pytest.mark.parametrize("operation", CLOSED, ids=lambda o: f"{o.method} {o.path}")
def test_it_opens_nothing_else(
    stranger: httpx.Client, shown: tuple[str, str, str], operation: Operation
) -> None:
    session, execution, token = shown
    path = filled(operation, session, execution)
    answer = stranger.request(operation.method, path, headers=bearer(token))
    assert answer.status_code == 403, answer.text
    assert answer.json()["error"]["code"] == "forbidden"
    assert "shown" not in answer.text


def test_no_other_method_and_no_path_without_an_operation(
    stranger: httpx.Client, shown: tuple[str, str, str]
) -> None:
    session, execution, token = shown
    for method, template in OPEN:
        path = template.replace("{session_id}", session).replace("{execution_id}", execution)
        for other in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
            assert other != method
            assert stranger.request(other, path, headers=bearer(token)).status_code == 403
    for path in ("/nothing", "/v1", f"/v1/sessions/{session}/", f"/v1/sessions/{session}//events"):
        assert stranger.get(path, headers=bearer(token)).status_code == 403


def test_another_session_stays_closed(
    stranger: httpx.Client, http: httpx.Client, session: str, shown: tuple[str, str, str]
) -> None:
    mine, execution, token = shown
    theirs = http.post(f"/v1/sessions/{session}/executions", json={"code": "'secret'"}).json()["id"]
    for _, template in OPEN:
        for id in (execution, theirs):
            path = template.replace("{session_id}", session).replace("{execution_id}", id)
            answer = stranger.get(path, headers=bearer(token))
            assert_refused(answer, "forbidden")
    path = f"/v1/sessions/{mine}/executions/{theirs}"
    assert_refused(stranger.get(path, headers=bearer(token)), "execution_not_found")


def test_what_was_tampered_with_or_has_expired_opens_nothing(
    gateway: Gateway, stranger: httpx.Client, session: str, shown: tuple[str, str, str]
) -> None:
    mine, _, token = shown
    purpose, fact, until, signature = token.split(".")
    expired, _ = Seal(gateway.token, "embed").write(mine, -1)
    other_key, _ = Seal("another-token", "embed").write(mine, 60)
    login, _ = Seal(gateway.token, "login").write(mine, 60)
    forged = [
        expired,
        other_key,
        login,
        f"embed.{mine}.{until}.{login.rpartition('.')[2]}",
        f"{purpose}.{session}.{until}.{signature}",
        f"{purpose}.{fact}.{int(until) + 1}.{signature}",
        f"{purpose}.{fact}.{until}.{signature[:-1]}",
        f"{purpose}.{fact}.{until}.",
        f"{purpose}.{fact}.{until}",
        f"{purpose}..",
        "embed.",
        token + "." + signature,
        "embed." + token,
        token.upper(),
    ]
    for wrong in forged:
        for id in (mine, session):
            path = f"/v1/sessions/{id}/executions"
            assert_refused(stranger.get(path, headers=bearer(wrong)), "unauthorized")


def test_what_is_being_watched_ends_with_the_token(
    gateway: Gateway, stranger: httpx.Client, http: httpx.Client, session: str
) -> None:
    """A stream, and an answer that waits for a cell, were begun before the end and last until it."""
    path = f"/v1/sessions/{session}/executions"
    cell = {"code": "import time; time.sleep(600)", "wait": False, "timeout": 600}
    execution = http.post(path, json=cell).json()["id"]
    for asked in (f"/v1/sessions/{session}/events", f"{path}/{execution}/events"):
        token, until = Seal(gateway.token, "embed").write(session, 2)
        with stranger.stream("GET", asked, headers=bearer(token)) as answer:
            assert answer.status_code == 200
            assert "queued" in "".join(answer.iter_text()), "it ends by itself, and properly"
        assert time.time() >= until
    token, until = Seal(gateway.token, "embed").write(session, 2)
    waiting = stranger.get(f"{path}/{execution}", params={"wait": "true"}, headers=bearer(token))
    assert_refused(waiting, "unauthorized")
    assert time.time() >= until
    http.delete(f"{path}/{execution}")


def test_it_is_not_taken_from_an_address_or_a_cookie(
    gateway: Gateway, stranger: httpx.Client, shown: tuple[str, str, str]
) -> None:
    session, _, token = shown
    path = f"/v1/sessions/{session}/executions"
    assert_refused(stranger.get(path, params={"token": token}), "unauthorized")
    port = gateway.url.rpartition(":")[2]
    cookie = {"Cookie": f"interpreter-{port}={token}", "Sec-Fetch-Site": "same-origin"}
    assert_refused(stranger.get(path, headers=cookie), "unauthorized")
    assert_refused(stranger.post("/login", json={"token": token}), "unauthorized")
    assert stranger.get(f"/?token={token}").headers["Location"] == "/?login=wrong"


def test_it_opens_no_socket(gateway: Gateway, http: httpx.Client, shown: tuple[str, str, str]) -> None:
    session, _, token = shown
    kernels = http.get("/api/kernels").json()
    (kernel,) = [kernel["id"] for kernel in kernels if kernel["session"] == session]
    for path in (f"/v1/sessions/{session}/terminals/main", f"/api/kernels/{kernel}/channels"):
        with pytest.raises(InvalidStatus) as refused:
            connect(
                gateway.url.replace("http:", "ws:") + path, additional_headers=bearer(token), proxy=None
            )
        assert refused.value.response.status_code == 403


def test_it_shows_a_command_and_not_what_the_command_was_given(
    gateway: Gateway, stranger: httpx.Client, http: httpx.Client, session: str
) -> None:
    given = {"command": "cat", "env": {"KEY": "secret-1"}, "stdin": "visible", "by": "a tester"}
    assert http.post(f"/v1/sessions/{session}/commands", json=given).json()["stdout"] == "visible"
    token = http.post(f"/v1/sessions/{session}/embed").json()["token"]
    path, query = f"/v1/sessions/{session}/events", {"follow": "false"}
    assert "secret-1" in http.get(path, params=query).text
    told = stranger.get(path, params=query, headers=bearer(token)).text
    assert "secret-1" not in told
    events = [json.loads(line[6:]) for line in told.splitlines() if line.startswith("data: ")]
    assert {"by": "a tester"} in [event.get("request") for event in events]
    assert "visible" in told


def test_it_ends_with_its_session(stranger: httpx.Client, http: httpx.Client) -> None:
    session = http.post("/v1/sessions").json()["id"]
    token = http.post(f"/v1/sessions/{session}/embed").json()["token"]
    path = f"/v1/sessions/{session}/executions"
    assert stranger.get(path, headers=bearer(token)).status_code == 200
    http.delete(f"/v1/sessions/{session}")
    assert_refused(stranger.get(path, headers=bearer(token)), "session_not_found")


def test_it_outlives_the_gateway(own_gateway: Gateway) -> None:
    own_gateway.start()
    with own_gateway.client() as http:
        session = http.post("/v1/sessions").json()["id"]
        token = http.post(f"/v1/sessions/{session}/embed").json()["token"]
    own_gateway.kill()
    own_gateway.start()
    url = f"{own_gateway.url}/v1/sessions/{session}/executions"
    assert httpx.get(url, headers=bearer(token), trust_env=False).status_code == 200


def test_the_sdk_makes_one_with_the_whole_address(gateway: Gateway) -> None:
    with Client(gateway.url, gateway.token) as client, client.session() as session:
        made = session.embed(seconds=60)
        assert made.url == f"{gateway.url}/embed/{session.id}#token={made.token}"
        assert httpx.get(made.url, trust_env=False).status_code == 200

        async def also() -> None:
            async with AsyncClient(gateway.url, gateway.token) as client:
                same = await client.session(session.id)
                assert (await same.embed()).url.startswith(f"{gateway.url}/embed/{session.id}#token=")

        asyncio.run(also())
