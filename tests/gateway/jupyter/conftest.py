"""Kernels of a live gateway, and a way to ask for more while a WebSocket is open."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest

from tests.conftest import Gateway


@pytest.fixture
async def api(gateway: Gateway) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(
        base_url=gateway.url, headers=gateway.headers, timeout=120, trust_env=False
    ) as client:
        yield client


def _made(gateway: Gateway) -> Iterator[dict[str, Any]]:
    with gateway.client() as http:
        answer = http.post("/api/kernels")
        assert answer.status_code == 201, answer.text
        yield answer.json()
        http.delete(f"/v1/sessions/{answer.json()['session']}")


@pytest.fixture(scope="module")
def kernel(gateway: Gateway) -> Iterator[dict[str, Any]]:
    """A kernel as a Jupyter client is told of it; its session is deleted afterwards."""
    yield from _made(gateway)


@pytest.fixture
def own_kernel(gateway: Gateway) -> Iterator[dict[str, Any]]:
    """One that the test may end."""
    yield from _made(gateway)
