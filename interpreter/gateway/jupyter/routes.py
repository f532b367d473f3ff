"""The routes of the Jupyter door."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tornado.routing import URLSpec
from tornado.web import url

from interpreter.gateway.handler import JSON, ApiHandler
from interpreter.gateway.jupyter import checkpoints, contents, kernels, sessions, terminals
from interpreter.gateway.jupyter.answers import error_answer
from interpreter.gateway.jupyter.client import Client
from interpreter.gateway.operation import Operation

if TYPE_CHECKING:
    from interpreter.gateway.application import Gateway

OPERATIONS = [
    *kernels.OPERATIONS,
    *sessions.OPERATIONS,
    *checkpoints.OPERATIONS,
    *contents.OPERATIONS,
    *terminals.OPERATIONS,
]


class JupyterHandler(ApiHandler):
    """Serves the operations of one path, and tells errors as Jupyter does."""

    def write_error(self, status_code: int, **details: Any) -> None:
        if self._refused:
            super().write_error(status_code, **details)
            return
        problem = details.get("exc_info", (None, None, None))[1]
        if problem is None and status_code == 405:
            problem = self._no_operation()
        status, answer = error_answer(status_code, problem)
        self.set_status(status)
        self.set_header("Content-Type", JSON)
        if not self._body_read:
            self.set_header("Connection", "close")
        self.finish(answer)


def routes(gateway: Gateway) -> list[URLSpec]:
    by_path: dict[str, dict[str, Operation]] = {}
    for operation in OPERATIONS:
        by_path.setdefault(operation.path, {})[operation.method] = operation
    made = [
        url(_pattern(path), _handler(operations), {"gateway": gateway})
        for path, operations in by_path.items()
    ]
    channels = _pattern("/api/kernels/{kernel_id}/channels")
    socket = url(_pattern(terminals.SOCKET), terminals.JupyterTerminalSocket, {"gateway": gateway})
    return [*made, url(channels, Client, {"jupyter": gateway.jupyter}), socket]


def _handler(operations: dict[str, Operation]) -> type[ApiHandler]:
    return type("Handler", (JupyterHandler,), {"operations": operations})


def _pattern(path: str) -> str:
    path = path.replace("/{path}", "(?P<path>(?:/.*)?)")
    return re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", path) + "/?"
