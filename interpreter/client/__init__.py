"""The SDK: run code in a session of a gateway, from sync and from async programs.

    with Client().session() as s:
        print(s.run("6 * 7").text)

`requests`, `sse`, `follow` and `result` decide everything and do no input or output; `sync` and
`aio` are two thin shells around them that differ in nothing but `await`. The async one is loaded
when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interpreter.client.errors import (
    AmbiguousSession,
    CellError,
    ConnectionLost,
    GatewayUnreachable,
    InputMissing,
)
from interpreter.client.result import Image, Result
from interpreter.client.sync import Client, Session

if TYPE_CHECKING:
    from interpreter.client.aio import AsyncClient, AsyncSession

__all__ = [
    "AmbiguousSession",
    "AsyncClient",
    "AsyncSession",
    "CellError",
    "Client",
    "ConnectionLost",
    "GatewayUnreachable",
    "Image",
    "InputMissing",
    "Result",
    "Session",
]


def __getattr__(name: str) -> Any:
    if name not in ("AsyncClient", "AsyncSession"):
        raise AttributeError(f"module 'interpreter.client' has no attribute '{name}'")
    from interpreter.client import aio

    return getattr(aio, name)
