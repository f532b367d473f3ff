"""The routes, made from the operations."""

from __future__ import annotations

import asyncio
import re

import msgspec
from tornado.httpserver import HTTPServer
from tornado.iostream import IOStream
from tornado.routing import Rule
from tornado.web import Application, url

from interpreter.config import Config
from interpreter.gateway import (
    commands,
    contexts,
    datasets,
    embedding,
    executions,
    files,
    notebooks,
    openapi,
    page,
    pages,
    processes,
    questions,
    sessions,
    terminals,
    workspaces,
)
from interpreter.gateway.auth import Guard
from interpreter.gateway.handler import ApiHandler, NotFoundHandler
from interpreter.gateway.jupyter.kernels import Jupyter
from interpreter.gateway.jupyter.routes import routes as jupyter_routes
from interpreter.gateway.operation import Operation
from interpreter.gateway.quick import QuickApplication
from interpreter.gateway.web_files import WebFiles
from interpreter.orchestrator import Orchestrator

LISTED = [
    *sessions.OPERATIONS,
    *contexts.OPERATIONS,
    *executions.OPERATIONS,
    *commands.OPERATIONS,
    *terminals.OPERATIONS,
    *notebooks.OPERATIONS,
    *questions.OPERATIONS,
    *embedding.OPERATIONS,
    *processes.OPERATIONS,
    *files.OPERATIONS,
    *datasets.OPERATIONS,
    *workspaces.OPERATIONS,
    pages.STATUS,
    pages.AUDIT,
    pages.HEALTH,
]


class Gateway:
    """What handlers share."""

    def __init__(self, config: Config, orchestrator: Orchestrator, token: str) -> None:
        self.orchestrator = orchestrator
        self.guard = Guard(token, config.host, config.allowed_hosts)
        self.web = WebFiles()
        self.jupyter = Jupyter(config, orchestrator)
        self.jupyter.gateway = self
        self.max_websocket_message = config.max_message_bytes
        # A character of code can take six bytes of JSON.
        self.max_body = 6 * config.max_code_bytes + 64 * 1024
        self.answering: set[asyncio.Future[None]] = set()
        """Answers that are complete and not yet sent."""
        self.description = msgspec.json.encode(openapi.describe(LISTED))


def make_application(gateway: Gateway) -> Application:
    by_path: dict[str, dict[str, Operation]] = {}
    for operation in (*LISTED, *pages.UNLISTED, *page.OPERATIONS):
        by_path.setdefault(operation.path, {})[operation.method] = operation
    shared = {"gateway": gateway}
    routes: list[Rule] = [
        Rule(terminals.Upgrade(_pattern(terminals.ONE) + "$"), terminals.TerminalSocket, shared)
    ]
    routes += [url(_pattern(path), _handler(operations), shared) for path, operations in by_path.items()]
    routes += jupyter_routes(gateway)
    application = QuickApplication(
        routes,
        default_handler_class=NotFoundHandler,
        default_handler_args=shared,
        log_function=lambda handler: None,
        websocket_max_message_size=gateway.max_websocket_message,
    )
    application.gateway = gateway
    return application


def _handler(operations: dict[str, Operation]) -> type[ApiHandler]:
    return type("Handler", (ApiHandler,), {"operations": operations})


def _pattern(path: str) -> str:
    """One name for each parameter; the path of a file can have several, or none."""
    path = path.replace("{path}", "(?P<path>.*)")
    return re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", path)


class Server(HTTPServer):
    """An HTTP server that sends at once what it has: small answers do not wait for more."""

    def handle_stream(self, stream: IOStream, address: tuple[str, ...]) -> None:
        stream.set_nodelay(True)
        # Tornado would set and unset it with every answer.
        stream.set_nodelay = _leave_it_on  # type: ignore[method-assign]
        super().handle_stream(stream, address)


def _leave_it_on(value: bool) -> None:
    """Takes the place of a stream's `set_nodelay`."""
