"""The SDK: run code in a session of a gateway, from sync and from async programs.

    with Client().session() as s:
        print(s.run("6 * 7").text)

`requests`, `cell_requests`, `backoff`, `follow`, `sse` and `result` decide everything and do no input
or output. Around them are two thin shells that differ in nothing but `await`: `sync`, `session` and
`cells`; `aio`, `async_session`, `async_cells` and `async_result`, which are loaded when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from interpreter.client.errors import (
    AmbiguousSession,
    CellError,
    ConnectionLost,
    GatewayUnreachable,
    InputMissing,
)
from interpreter.client.result import Image, Result
from interpreter.client.session import Context, Session
from interpreter.client.sync import Client

if TYPE_CHECKING:
    from interpreter.client.aio import AsyncClient
    from interpreter.client.async_result import AsyncResult
    from interpreter.client.async_session import AsyncContext, AsyncSession

__all__ = [
    "AmbiguousSession",
    "AsyncClient",
    "AsyncContext",
    "AsyncResult",
    "AsyncSession",
    "CellError",
    "Client",
    "ConnectionLost",
    "Context",
    "GatewayUnreachable",
    "Image",
    "InputMissing",
    "Result",
    "Session",
]


_ASYNC = {
    "AsyncClient": "aio",
    "AsyncContext": "async_session",
    "AsyncResult": "async_result",
    "AsyncSession": "async_session",
}


def __getattr__(name: str) -> Any:
    if name not in _ASYNC:
        raise AttributeError(f"module 'interpreter.client' has no attribute '{name}'")
    return getattr(import_module(f"interpreter.client.{_ASYNC[name]}"), name)
