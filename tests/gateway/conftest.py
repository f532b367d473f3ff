"""What the gateway's tests share: a gateway with small limits, and how a refusal looks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from interpreter.errors import BY_CODE
from tests.conftest import Gateway


def assert_refused(answer: httpx.Response, code: str, *words: str) -> dict[str, Any]:
    """An error has its own code and status, says what is wrong, what to do, and nothing more."""
    assert answer.status_code == BY_CODE[code].status, answer.text
    assert answer.headers["Content-Type"] == "application/json"
    assert set(answer.json()) == {"error"}
    error: dict[str, Any] = answer.json()["error"]
    assert set(error) == {"code", "message", "hint"}
    assert error["code"] == code
    assert error["message"].strip()
    assert error["hint"].strip()
    assert "Traceback" not in answer.text
    assert '.py"' not in answer.text
    for word in words:
        assert word in error["message"] + error["hint"]
    return error


@pytest.fixture(scope="session")
def small(data_root: Path, place: dict[str, str]) -> Iterator[Gateway]:
    """A gateway that takes little code, one session and one queued cell; its log stays clean."""
    gateway = Gateway(
        data_root / f"small-{'-'.join(place.values())}",
        spares="0",
        **place,
        max_code_bytes="1000",
        max_sessions="1",
        queue_seconds="0",
        limits__queued_cells="1",
    ).start()
    yield gateway
    gateway.stop()
    assert "Traceback" not in gateway.log.read_text()


@pytest.fixture(scope="session")
def only_session(small: Gateway) -> str:
    """The one session that the small gateway has room for."""
    with small.client() as client:
        answer = client.post("/v1/sessions")
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])
