"""Who may ask and for what: tokens, hosts, paths and methods."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.conftest import Gateway
from tests.gateway.conftest import assert_refused

PUBLIC = ["/healthz", "/openapi.json", "/docs", "/docs/start.js", "/docs/assets/swagger-ui.css"]


@pytest.fixture
def stranger(gateway: Gateway) -> Iterator[httpx.Client]:
    """A client without a token."""
    with httpx.Client(base_url=gateway.url, timeout=60, trust_env=False) as client:
        yield client


@pytest.mark.parametrize(
    "authorization",
    [None, "", "Bearer", "Basic dXNlcjpwYXNz", "Bearer wrong", "token wrong", "Bearer é"],
)
def test_without_the_token_nothing_is_told(stranger: httpx.Client, authorization: str | None) -> None:
    headers = {} if authorization is None else {"Authorization": authorization.encode("latin-1")}
    for path in ("/v1/sessions", "/v1/sessions/s-1", "/v1/sessions/s-1/events", "/nothing", "/v1/"):
        answer = stranger.get(path, headers=headers)
        assert_refused(answer, "unauthorized", "Authorization: Bearer")
        assert answer.headers["WWW-Authenticate"] == "Bearer"
        assert answer.headers["Connection"] == "close", "the gateway hangs up, and says so"


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "token"])
def test_the_token_comes_in_a_header(gateway: Gateway, stranger: httpx.Client, scheme: str) -> None:
    headers = {"Authorization": f"{scheme} {gateway.token}"}
    assert stranger.get("/v1/sessions", headers=headers).status_code == 200


def test_the_token_comes_in_the_query(gateway: Gateway, stranger: httpx.Client) -> None:
    assert stranger.get("/v1/sessions", params={"token": gateway.token}).status_code == 200
    page = {"token": gateway.token, "limit": "5"}
    assert_refused(stranger.get("/v1/sessions/s-1/executions", params=page), "session_not_found")
    assert_refused(stranger.get("/v1/sessions", params={"token": "wrong"}), "unauthorized")


def test_health_and_the_description_need_no_token(stranger: httpx.Client) -> None:
    for path in PUBLIC:
        assert stranger.get(path).status_code == 200
        assert stranger.get(path, headers={"Authorization": "Bearer wrong"}).status_code == 200
        assert_refused(stranger.put(path), "method_not_allowed")


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8888", "10.0.0.1", "localhost.evil"])
def test_a_page_that_gives_its_name_to_loopback_gets_nothing(http: httpx.Client, host: str) -> None:
    for path in ("/v1/sessions", "/nothing", *PUBLIC):
        answer = http.get(path, headers={"Host": host})
        assert_refused(answer, "forbidden_host", host.partition(":")[0], "address")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1", "127.1.2.3:80", "[::1]:9"])
def test_loopback_has_many_names(http: httpx.Client, host: str) -> None:
    assert http.get("/v1/sessions", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("path", ["/nothing", "/v1", "/v1/sessions/", "//v1/sessions", "/docs/", "/%00"])
def test_an_unknown_path_is_not_found(http: httpx.Client, path: str) -> None:
    for method in ("GET", "POST", "DELETE", "OPTIONS"):
        assert_refused(http.request(method, path), "not_found", "/docs")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "/v1/sessions", "GET, HEAD, POST"),
        ("PUT", "/v1/sessions/s-1", "DELETE, GET, HEAD, PATCH"),
        ("GET", "/v1/sessions/s-1/restart", "POST"),
        ("HEAD", "/v1/sessions/s-1/restart", "POST"),
        ("HEAD", "/v1/sessions/s-1/events", "GET"),
        ("POST", "/healthz", "GET, HEAD"),
        ("OPTIONS", "/v1/sessions", "GET, HEAD, POST"),
        ("TRACE", "/v1/sessions", "GET, HEAD, POST"),
        ("BREW", "/v1/sessions", "GET, HEAD, POST"),
    ],
)
def test_a_method_that_is_not_possible_is_refused_with_those_that_are(
    http: httpx.Client, method: str, path: str, allowed: str
) -> None:
    answer = http.request(method, path)
    assert answer.status_code == 405
    assert answer.headers["Allow"] == allowed
    if method != "HEAD":
        assert_refused(answer, "method_not_allowed", method, allowed)


def test_a_page_elsewhere_gets_no_permission_to_ask(stranger: httpx.Client) -> None:
    headers = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    answer = stranger.options("/v1/sessions", headers=headers)
    assert_refused(answer, "unauthorized")
    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize("path", ["/healthz", "/docs", "/v1/sessions", "/v1/sessions/s-none"])
def test_head_is_get_without_the_body(http: httpx.Client, path: str) -> None:
    head, get = http.head(path), http.get(path)
    assert head.content == b""
    assert head.status_code == get.status_code
    for name in ("Content-Type", "Cache-Control"):
        assert head.headers[name] == get.headers[name]
    assert int(head.headers["Content-Length"]) > 0


def test_answers_are_not_kept_or_guessed_at(http: httpx.Client) -> None:
    for path in ("/v1/sessions", "/healthz", "/docs", "/nothing"):
        answer = http.get(path)
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert "Server" not in answer.headers
