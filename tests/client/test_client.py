"""Finding the gateway, finding sessions, errors and input: what needs no kernel to be tested."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from interpreter import AsyncClient, Client
from interpreter.client import AmbiguousSession, GatewayUnreachable, InputMissing
from interpreter.client.place import locate
from interpreter.errors import (
    BY_CODE,
    InterpreterError,
    InvalidRequest,
    SessionNotFound,
    Unauthorized,
)

from .fake_gateway import answer, done, error, event, execution, fake_gateway, hang_up, session, stream

ASKS = [
    event(1, "status", status="queued"),
    event(2, "input_request", prompt="Name: ", password=False),
]
ASKS_AGAIN = event(3, "input_request", prompt="Age: ", password=False)


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("INTERPRETER_URL", "INTERPRETER_TOKEN", "INTERPRETER_DATA_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))


def test_the_gateway_of_this_machine_is_the_default(tmp_path: Path) -> None:
    (tmp_path / "interpreter").mkdir()
    (tmp_path / "interpreter" / "token").write_text("kept\n")
    place = locate()
    assert (place.url, place.token, place.loopback) == ("http://127.0.0.1:8888", "kept", True)


def test_arguments_win_over_the_environment_and_that_over_the_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("kept")
    monkeypatch.setenv("INTERPRETER_DATA_DIR", str(tmp_path))
    assert locate().token == "kept"
    monkeypatch.setenv("INTERPRETER_URL", "http://localhost:1/")
    monkeypatch.setenv("INTERPRETER_TOKEN", "env")
    assert (locate().url, locate().token) == ("http://localhost:1", "env")
    assert locate("http://[::1]:2", "arg").token == "arg"


def test_the_kept_token_is_not_sent_to_another_machine(tmp_path: Path) -> None:
    (tmp_path / "interpreter").mkdir()
    (tmp_path / "interpreter" / "token").write_text("kept")
    assert locate("https://elsewhere.example").token is None


@pytest.mark.parametrize("url", ["127.0.0.1:8888", "ftp://x", "http://", "http://h:99999", "http://[::"])
def test_what_is_not_a_url_is_named(url: str) -> None:
    with pytest.raises(GatewayUnreachable, match="is not the URL"):
        Client(url, "t")


def test_proxies_of_the_environment_do_not_come_between(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with fake_gateway(answer({"sessions": []})) as gateway:
        assert Client(gateway.url, "t").sessions() == []


def test_the_token_goes_with_every_request() -> None:
    with fake_gateway(answer({"sessions": []})) as gateway:
        Client(gateway.url, "secret").sessions()
    assert gateway.seen[0].headers["authorization"] == "Bearer secret"


def test_a_gateway_that_is_not_there_says_how_to_start_it() -> None:
    with fake_gateway() as gateway:
        pass
    with pytest.raises(GatewayUnreachable, match=gateway.url) as caught:
        Client(gateway.url, "t").sessions()
    assert "interpreter serve" in caught.value.hint
    assert caught.value.code == "unreachable"


@pytest.mark.parametrize("kind", [k for k in BY_CODE.values() if k is not InterpreterError])
def test_every_error_of_the_gateway_is_raised_as_its_class(kind: type[InterpreterError]) -> None:
    with (
        fake_gateway(error(kind.code, kind.status, "What.", "How.")) as gateway,
        pytest.raises(kind) as caught,
    ):
        Client(gateway.url, "t", reconnect=0).sessions()
    assert type(caught.value) is kind
    assert (caught.value.message, caught.value.hint) == ("What.", "How.")


@pytest.mark.parametrize(
    ("step", "kind"),
    [
        (error("from_the_future", 418), InterpreterError),
        (answer(b"<h1>Hello</h1>"), GatewayUnreachable),
        (answer(b"<h1>No</h1>", 404), InterpreterError),
    ],
)
def test_another_program_on_the_port_is_an_error_with_a_code(
    step: Callable[[Any], None], kind: type[InterpreterError]
) -> None:
    with fake_gateway(step) as gateway, pytest.raises(kind):
        Client(gateway.url, "t").sessions()


def test_a_new_session_is_deleted_at_the_end_of_its_block() -> None:
    deleted = {"id": "s-1", "executions": 0, "events": 0, "workspace_bytes": 0, "sandbox": True}
    with (
        fake_gateway(answer(session(), 201), answer(deleted)) as gateway,
        Client(gateway.url, "t").session(name="n", labels={"a": "b"}, limits={"cpus": 2}) as s,
    ):
        assert s.id == "s-1"
    assert gateway.requests == ["POST /v1/sessions", "DELETE /v1/sessions/s-1"]
    assert gateway.seen[0].body["labels"] == {"a": "b"}
    assert gateway.seen[0].body["limits"]["cpus"] == 2


def test_a_session_that_is_gone_already_does_not_spoil_the_end_of_its_block() -> None:
    with (
        fake_gateway(answer(session(), 201), error("session_not_found", 404)) as gateway,
        Client(gateway.url, "t").session(),
    ):
        pass


def test_the_error_in_a_block_is_not_hidden_by_one_at_its_end() -> None:
    with (
        fake_gateway(answer(session(), 201), error("internal", 500)) as gateway,
        pytest.raises(ZeroDivisionError),
        Client(gateway.url, "t").session(),
    ):
        raise ZeroDivisionError


def test_a_session_that_was_joined_or_created_stays() -> None:
    with fake_gateway(answer(session()), answer(session(), 201)) as gateway:
        client = Client(gateway.url, "t")
        with client.session("s-1"), client.create_session():
            pass
    assert gateway.requests == ["GET /v1/sessions/s-1", "POST /v1/sessions"]


async def test_sessions_open_and_close_async_too() -> None:
    deleted = {"id": "s-1", "executions": 0, "events": 0, "workspace_bytes": 0, "sandbox": True}
    with fake_gateway(answer(session(), 201), answer(deleted), answer(session())) as gateway:
        async with AsyncClient(gateway.url, "t") as client:
            async with client.session() as s:
                assert s.id == "s-1"
            assert (await client.session("s-1")).id == "s-1"
    assert gateway.requests[1] == "DELETE /v1/sessions/s-1"


def test_a_session_is_found_by_its_name() -> None:
    known = {"sessions": [session("s-1", "mine"), session("s-2", "two"), session("s-3", "two")]}
    missing = error("session_not_found", 404)
    with fake_gateway(*[missing, answer(known)] * 3) as gateway:
        client = Client(gateway.url, "t")
        assert client.session("mine").id == "s-1"
        with pytest.raises(AmbiguousSession, match="s-2, s-3"):
            client.session("two")
        with pytest.raises(SessionNotFound):
            client.session("a/b?")
    assert gateway.requests[-2] == "GET /v1/sessions/a%2Fb%3F"


def test_all_pages_of_sessions_are_read() -> None:
    pages = [
        answer({"sessions": [session("s-3"), session("s-2")], "next": "s-2"}),
        answer({"sessions": [session("s-1")], "next": None}),
    ]
    with fake_gateway(*pages) as gateway:
        found = Client(gateway.url, "t").sessions(state="ready", name="n", labels={"a": "b", "c": "="})
    assert [s.id for s in found] == ["s-3", "s-2", "s-1"]
    asked = [dict(parse_qsl(urlsplit(s.path).query)) for s in gateway.seen]
    wanted = {"state": "ready", "name": "n", "label": "a=b,c==", "limit": "1000"}
    assert asked == [wanted, {**wanted, "after": "s-2"}]


def test_a_label_that_cannot_be_looked_for_is_named() -> None:
    with pytest.raises(InvalidRequest, match="'team'"):
        Client("http://127.0.0.1:9", "t").sessions(labels={"team": "a,b"})


def test_limits_that_do_not_exist_are_refused_before_anything_is_sent() -> None:
    with pytest.raises(InvalidRequest, match="memory"):
        Client("http://127.0.0.1:9", "t").session(limits={"memory": 1})


@pytest.mark.parametrize("given", ["Ada\n36", ["Ada", "36"], lambda prompt, password: prompt[:3]])
def test_input_is_answered_in_turn(given: Any) -> None:
    with fake_gateway(
        answer(session()),
        stream(*ASKS, cut=b":"),
        answer(b"", 204),
        stream(ASKS_AGAIN, done(4)),
        # The second answer arrives, but the client cannot know and sends it again.
        hang_up,
        error("input_not_expected", 409),
    ) as gateway:
        result = Client(gateway.url, "t").session("s-1").run("…", input=given)
    replies = [s.body["value"] for s in gateway.seen if s.path.endswith("/input")]
    assert result.ok
    expected = ["Nam", "Age"] if callable(given) else ["Ada", "36"]
    assert replies == [expected[0], expected[1], expected[1]]
    assert gateway.seen[1].body["allow_stdin"] is True


def test_a_cell_that_asks_too_much_is_cancelled() -> None:
    with (
        fake_gateway(
            answer(session()), stream(*ASKS, done(9)), answer(execution("cancelled"))
        ) as gateway,
        pytest.raises(InputMissing, match="Name: "),
    ):
        Client(gateway.url, "t").session("s-1").run("…", input=[])
    assert gateway.requests[-1] == "DELETE /v1/sessions/s-1/executions/e-1"


async def test_a_coroutine_function_may_answer() -> None:
    async def ask(prompt: str, password: bool) -> str:
        return prompt.upper()

    with fake_gateway(answer(session()), stream(*ASKS, done(9)), answer(b"", 204)) as gateway:
        async with AsyncClient(gateway.url, "t") as client:
            await (await client.session("s-1")).run("…", input=ask)
    assert gateway.seen[-1].body == {"value": "NAME: "}


def test_a_wrong_token_says_so() -> None:
    with fake_gateway(error("unauthorized", 401)) as gateway, pytest.raises(Unauthorized):
        Client(gateway.url, "wrong").sessions()
