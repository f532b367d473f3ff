"""What the end-to-end tests share: running cells over plain HTTP, and reading event streams."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

Run = Callable[..., dict[str, Any]]


def read_events(answer: httpx.Response) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """(seq, type, data) of a Server-Sent Events answer, read the slow and simple way."""
    seq, kind = 0, ""
    for line in answer.iter_lines():
        if line.startswith("id: "):
            seq = int(line[4:])
        elif line.startswith("event: "):
            kind = line[7:]
        elif line.startswith("data: "):
            yield seq, kind, json.loads(line[6:])


@pytest.fixture
def run(http: httpx.Client, session: str) -> Run:
    """Runs a cell in the test's session and returns the execution."""

    def run(code: str, **options: Any) -> dict[str, Any]:
        answer = http.post(f"/v1/sessions/{session}/executions", json={"code": code, **options})
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    return run


@pytest.fixture
def stream(http: httpx.Client, session: str) -> Callable[..., list[tuple[int, str, dict[str, Any]]]]:
    """Runs a cell as a stream and returns all its events."""

    def stream(code: str, **options: Any) -> list[tuple[int, str, dict[str, Any]]]:
        with http.stream(
            "POST",
            f"/v1/sessions/{session}/executions",
            json={"code": code, **options},
            headers={"Accept": "text/event-stream"},
        ) as answer:
            assert answer.status_code == 200
            return list(read_events(answer))

    return stream
