"""More sessions are asked for than there is room: who waits, for how long, and who gets in first."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.conftest import Gateway, only
from tests.e2e.test_restart_of_the_gateway import wait_for

pytestmark = only("embedded")
SECONDS = 120.0


@pytest.fixture
def full(own_gateway: Gateway) -> Iterator[httpx.Client]:
    """A gateway with room for one session, and that one there."""
    own_gateway.settings |= {"max_sessions": "1", "queue_seconds": f"{SECONDS}", "spares": "0"}
    own_gateway.settings["max_queued_sessions"] = "3"
    own_gateway.start()
    with own_gateway.client() as client:
        client.post("/v1/sessions", json={"name": "first"})
        yield client


def ask(client: httpx.Client, name: str) -> dict[str, Any]:
    answer = client.post("/v1/sessions", json={"name": name, "wait": False})
    assert answer.status_code == 202, answer.text
    return dict(answer.json())


def read(client: httpx.Client, session: dict[str, Any]) -> dict[str, Any]:
    return dict(client.get(f"/v1/sessions/{session['id']}").json())


def queued(client: httpx.Client) -> int:
    return int(client.get("/v1/status").json()["queued"])


def delete(client: httpx.Client, name: str) -> None:
    (session,) = client.get("/v1/sessions", params={"name": name}).json()["sessions"]
    client.delete(f"/v1/sessions/{session['id']}")


def test_who_came_first_gets_in_first(full: httpx.Client) -> None:
    asked = [ask(full, name) for name in ("second", "third", "fourth")]
    assert [session["queue_position"] for session in asked] == [1, 2, 3], "told at once"
    refused = full.post("/v1/sessions")
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "too_many_sessions")
    assert int(refused.headers["Retry-After"]) >= 1
    for before, session in zip(("first", "second"), asked, strict=False):
        delete(full, before)
        wait_for(lambda session=session: read(full, session)["state"] == "ready", 60)
        assert read(full, session)["queue_position"] is None
    assert read(full, asked[2])["queue_position"] == 1


def test_who_goes_away_is_not_waited_for(full: httpx.Client) -> None:
    with httpx.Client(base_url=full.base_url, headers=full.headers, trust_env=False) as impatient:
        leaving = threading.Thread(target=_give_up, args=(impatient,))
        leaving.start()
        wait_for(lambda: queued(full) == 1, 60)
        leaving.join()
    wait_for(lambda: queued(full) == 0, 60)
    session = ask(full, "second")
    delete(full, "first")
    wait_for(lambda: read(full, session)["state"] == "ready", 60)
    assert len(full.get("/v1/sessions").json()["sessions"]) == 1, "nothing was made for who went away"


def _give_up(client: httpx.Client) -> None:
    with pytest.raises(httpx.ReadTimeout):
        client.post("/v1/sessions", timeout=3)


def test_memory_is_reserved(own_gateway: Gateway) -> None:
    own_gateway.settings |= {"queue_seconds": "0", "spares": "0", "memory_overcommit": "0.2"}
    own_gateway.start()
    with own_gateway.client() as client:
        most = client.get("/v1/status").json()["memory_limit_mb"]
        limits = {"memory_mb": most // 2 + 1}
        never = client.post("/v1/sessions", json={"limits": {"memory_mb": most + 1}})
        assert never.status_code == 400, "what can never be is not waited for"
        assert client.post("/v1/sessions", json={"limits": limits}).status_code == 201
        assert client.get("/v1/status").json()["memory_reserved_mb"] == most // 2 + 1
        second = client.post("/v1/sessions", json={"limits": limits})
        assert second.status_code == 429, second.text
        assert "MB are reserved" in second.json()["error"]["message"]
