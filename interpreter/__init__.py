"""A self-hosted, stateful code interpreter.

`from interpreter import Client` is all most programs need. The names below are loaded when they
are first used, so that parts which need only one module do not pay for the whole SDK.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from interpreter.client import (
        AsyncClient,
        AsyncResult,
        AsyncSession,
        CellError,
        Client,
        Image,
        Result,
        Session,
    )
    from interpreter.errors import InterpreterError
    from interpreter.models import Event, EventType

    __version__: str

__all__ = [
    "AsyncClient",
    "AsyncResult",
    "AsyncSession",
    "CellError",
    "Client",
    "Event",
    "EventType",
    "Image",
    "InterpreterError",
    "Result",
    "Session",
    "__version__",
]

_HOMES = {"InterpreterError": "errors", "Event": "models", "EventType": "models"}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return _version()
    if name not in __all__:
        raise AttributeError(f"module 'interpreter' has no attribute '{name}'")
    return getattr(import_module(f"interpreter.{_HOMES.get(name, 'client')}"), name)


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("interpreter")
    except PackageNotFoundError:  # run from a source tree that is not installed
        return "0"
