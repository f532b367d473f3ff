"""Terminals: what there are, and the WebSocket that one is used by.

The WebSocket speaks the protocol that JupyterLab's terminals speak. Every message is a JSON array:

    ["stdin", TEXT], ["set_size", ROWS, COLUMNS]      from the viewer
    ["setup", {}], ["stdout", TEXT], ["disconnect", 1]      to the viewer

`Viewing` is one viewer of one terminal, whichever address that was found by.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import msgspec
from tornado.httputil import HTTPServerRequest
from tornado.routing import PathMatches
from tornado.web import HTTPError
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from interpreter.errors import (
    InterpreterError,
    InvalidRequest,
    SandboxFailed,
    SessionNotFound,
    ShuttingDown,
    TerminalNotFound,
    WrongState,
)
from interpreter.gateway.handler import ApiHandler, error_answer
from interpreter.gateway.operation import Operation
from interpreter.models.commands import Terminal, TerminalList, TerminalName
from interpreter.orchestrator.session import LiveSession
from interpreter.orchestrator.terminals import Terminal as LiveTerminal

if TYPE_CHECKING:
    from interpreter.gateway.application import Gateway

MOST_TYPED = 1024 * 1024
"""Bytes of one message of a viewer."""
PING_SECONDS = 30.0


async def list_terminals(call: ApiHandler) -> Any:
    session = call.orchestrator.get(call.path["session_id"])
    return TerminalList(terminals=[terminal.model() for terminal in session.terminals.all()])


async def read_terminal(call: ApiHandler) -> Any:
    session = call.orchestrator.get(call.path["session_id"])
    return session.terminals.get(call.path["name"]).model()


async def end_terminal(call: ApiHandler) -> Any:
    session = call.orchestrator.get(call.path["session_id"])
    session.terminals.get(call.path["name"])
    await session.wake()
    await session.terminals.end(call.path["name"])


class Upgrade(PathMatches):
    """Requests that want to become a WebSocket; others go on to the operations of the same path."""

    def match(self, request: HTTPServerRequest) -> dict[str, Any] | None:
        if request.headers.get("Upgrade", "").lower() != "websocket":
            return None
        return super().match(request)


class Viewing:
    """One viewer: shows what the terminal shows, and has typed what the viewer types, in order."""

    def __init__(self, socket: WebSocketHandler, session: LiveSession, terminal: LiveTerminal) -> None:
        self._socket = socket
        self._session = session
        self._terminal = terminal
        self._size: tuple[int, int] | None = None
        """What it is to be before the next is typed."""
        self._task = asyncio.create_task(self._show())

    async def _show(self) -> None:
        with contextlib.suppress(WebSocketClosedError):
            await self._send("setup", {})
            async with contextlib.aclosing(self._terminal.view()) as pieces:
                async for piece in pieces:
                    await self._send("stdout", piece)
            await self._send("stdout", f"\r\n[this terminal is over: {self._terminal.ended}]\r\n")
            await self._send("disconnect", 1)
            self._socket.close(1000, "the terminal is over")

    async def _send(self, *message: Any) -> None:
        """Returns when it has left: who reads slowly is sent slowly."""
        await self._socket.write_message(msgspec.json.encode(message))

    async def receive(self, message: str | bytes) -> None:
        """What the viewer sent. The next is taken when this returns."""
        match _parsed(message):
            case ["stdin", str(text)]:
                self._session.touch()
                await self._session.come_awake()
                await self._resize()
                await self._terminal.type(text)
            case ["set_size", int(rows), int(columns), *_]:
                self._size = rows, columns
                if self._session.awake:  # a window that is resized does not use a paused session
                    await self._resize()

    async def _resize(self) -> None:
        size, self._size = self._size, None
        if size is not None:
            await self._terminal.resize(*size)

    def leave(self) -> None:
        self._task.cancel()


def _parsed(message: str | bytes) -> Any:
    try:
        return msgspec.json.decode(message)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


class TerminalSocket(WebSocketHandler):
    """A WebSocket to a terminal of a session; the terminal is made if it is not there."""

    def initialize(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._viewing: Viewing | None = None

    @property
    def ping_interval(self) -> float:
        return PING_SECONDS

    @property
    def max_message_size(self) -> int:
        return MOST_TYPED

    async def prepare(self) -> None:
        guard, orchestrator = self._gateway.guard, self._gateway.orchestrator
        guard.check_host(self.request)
        guard.check_token(self.request)
        if orchestrator.draining:
            raise ShuttingDown("The gateway is about to stop.")
        name = self.path_kwargs["name"]
        try:
            msgspec.convert(name, TerminalName)
        except msgspec.ValidationError:
            raise InvalidRequest(
                "A terminal's name has up to 40 letters, digits, '-' and '_'."
            ) from None
        self._session = orchestrator.get(self.path_kwargs["session_id"])
        self._terminal = await self._session.terminal(name)

    def open(self, *_: str, **__: str) -> None:
        self.set_nodelay(True)
        self._viewing = Viewing(self, self._session, self._terminal)

    async def on_message(self, message: str | bytes) -> None:
        assert self._viewing is not None
        try:
            await self._viewing.receive(message)
        except InterpreterError as e:
            if self._terminal.ended is None:  # else that is what it is told
                self.close(1011, e.message.encode()[:120].decode(errors="ignore"))

    def on_close(self) -> None:
        if self._viewing is not None:
            self._viewing.leave()

    def write_error(self, status_code: int, **details: Any) -> None:
        problem = details.get("exc_info", (None, None, None))[1]
        if not isinstance(problem, InterpreterError):
            problem = InterpreterError("Something went wrong in the gateway.")
        self.set_status(problem.status)
        self.set_header("Content-Type", "application/json")
        self.finish(error_answer(problem))

    def log_exception(self, kind: Any, value: Any, trace: Any) -> None:
        if not isinstance(value, InterpreterError | HTTPError):
            super().log_exception(kind, value, trace)


ALL = "/v1/sessions/{session_id}/terminals"
ONE = ALL + "/{name}"

OPERATIONS = [
    Operation(
        "GET",
        ALL,
        "List the terminals of a session",
        list_terminals,
        answers={200: TerminalList},
        errors=(SessionNotFound,),
    ),
    Operation(
        "GET",
        ONE,
        "Read a terminal; as a WebSocket, use it, and make it if it is not there",
        read_terminal,
        answers={200: Terminal},
        errors=(SessionNotFound, TerminalNotFound),
    ),
    Operation(
        "DELETE",
        ONE,
        "End a terminal, with all that was started in it",
        end_terminal,
        answers={204: None},
        errors=(SessionNotFound, TerminalNotFound, WrongState, SandboxFailed),
    ),
]
