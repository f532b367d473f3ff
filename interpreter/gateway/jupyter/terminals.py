"""Terminals of sessions as those of a Jupyter Server, which has one list of them.

A terminal is named by its session and its own name there: `SESSION.NAME`. One that is asked for without
a session is opened in that of `cwd`, which is a path in the contents; else in the one that was used
last, and if there is none, in a new one.
"""

from __future__ import annotations

from itertools import count
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from interpreter.errors import InvalidRequest, NotFound, ShuttingDown, TerminalNotFound
from interpreter.gateway.handler import JSON, ApiHandler
from interpreter.gateway.jupyter.answers import error_answer
from interpreter.gateway.jupyter.kernels import Jupyter, KernelCreate, moment
from interpreter.gateway.operation import Operation
from interpreter.gateway.terminals import TerminalSocket
from interpreter.models.commands import TerminalName
from interpreter.orchestrator.session import LiveSession
from interpreter.orchestrator.terminals import Terminal

HINT = "GET /api/terminals lists those there are."


class TerminalWanted(Struct):
    """What a client says of the terminal it wants; everything can be left out."""

    name: Annotated[str, Meta(max_length=200)] | None = None
    cwd: Annotated[str, Meta(max_length=4095)] | None = None


def _model(session: LiveSession, terminal: Terminal) -> dict[str, Any]:
    return {"name": f"{session.id}.{terminal.name}", "last_activity": moment(terminal.last_activity)}


def _find(jupyter: Jupyter, name: str) -> tuple[LiveSession, Terminal]:
    session_id, _, own = name.partition(".")
    try:
        session = jupyter.session(session_id)
        return session, session.terminals.get(own)
    except (NotFound, TerminalNotFound):
        raise NotFound(f"Terminal not found: {name[:100]}", HINT) from None


async def list_jupyter_terminals(call: ApiHandler) -> Any:
    sessions = call.gateway.jupyter.sessions()
    return [_model(session, terminal) for session in sessions for terminal in session.terminals.all()]


async def create_jupyter_terminal(call: ApiHandler) -> Any:
    jupyter, wanted = call.gateway.jupyter, call.body(TerminalWanted)
    session_id, _, own = (wanted.name or "").partition(".")
    if wanted.name is not None and "." not in wanted.name and jupyter.find(wanted.name) is None:
        session_id, own = "", wanted.name
    session = await _session(jupyter, session_id, wanted.cwd)
    taken = {terminal.name for terminal in session.terminals.all()}
    own = own or next(name for number in count(1) if (name := str(number)) not in taken)
    try:
        msgspec.convert(own, TerminalName)
    except msgspec.ValidationError:
        raise InvalidRequest("A terminal's name is SESSION.NAME, or NAME.") from None
    return _model(session, await session.terminal(own))


async def _session(jupyter: Jupyter, id: str, cwd: str | None) -> LiveSession:
    if id:
        return jupyter.session(id)
    there = jupyter.sessions()
    top = (cwd or "").strip("/").partition("/")[0]
    for session in there:
        if session.id == top:
            return session
    if there:
        return max(there, key=lambda session: session.last_activity)
    return await jupyter.create(KernelCreate())


async def read_jupyter_terminal(call: ApiHandler) -> Any:
    return _model(*_find(call.gateway.jupyter, call.path["name"]))


async def delete_jupyter_terminal(call: ApiHandler) -> Any:
    session, terminal = _find(call.gateway.jupyter, call.path["name"])
    await session.wake()
    await session.terminals.end(terminal.name)


class JupyterTerminalSocket(TerminalSocket):
    """A WebSocket to a terminal that is there."""

    async def prepare(self) -> None:
        gateway = self._gateway
        gateway.guard.check_host(self.request)
        gateway.guard.check_token(self.request)
        if gateway.orchestrator.draining:
            raise ShuttingDown("The gateway is about to stop.")
        self._session, self._terminal = _find(gateway.jupyter, self.path_kwargs["name"])

    def write_error(self, status_code: int, **details: Any) -> None:
        status, body = error_answer(status_code, details.get("exc_info", (None, None, None))[1])
        self.set_status(status)
        self.set_header("Content-Type", JSON)
        self.finish(body)


ALL = "/api/terminals"
ONE = ALL + "/{name}"
SOCKET = "/terminals/websocket/{name}"

OPERATIONS = [
    Operation("GET", ALL, "All of them", list_jupyter_terminals, answers={200: list}),
    Operation("POST", ALL, "Open one", create_jupyter_terminal, answers={200: dict}),
    Operation("GET", ONE, "One of them", read_jupyter_terminal, answers={200: dict}),
    Operation("DELETE", ONE, "End it", delete_jupyter_terminal, answers={204: None}),
]
