"""The one session that a JupyterLab shows, and the way to the gateway that has it.

The gateway's token stays here. Every request of a page becomes one that names this session; a path of a
page is taken apart and put together anew, so that none leads anywhere else.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
import msgspec
from tornado.web import HTTPError
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus, WebSocketException
from websockets.typing import Subprotocol

from interpreter.client.call import session_path
from interpreter.client.place import Place
from interpreter.client.terminal_protocol import terminal_options
from interpreter.client.wire import CONNECT_SECONDS, Wire
from interpreter.lab.documents import Documents
from interpreter.lab.notebook import Cell, recorded_cell
from interpreter.models import Execution, ExecutionList, Session

T = TypeVar("T")
PAGE = 8
"""Executions that are asked for at once: each may have many megabytes of outputs."""


def parts(path: str) -> list[str]:
    """The names in a path of a page, none of which leads up or nowhere."""
    names = [name for name in path.split("/") if name]
    if any(name in (".", "..") or "\0" in name for name in names):
        raise HTTPError(404, "There is no such path.")
    return names


def quoted(names: list[str]) -> str:
    return "/".join(quote(name, safe="") for name in names)


class LabSession:
    """A session, as the handlers of JupyterLab's requests use it."""

    def __init__(self, place: Place, session: Session) -> None:
        self.id = session.id
        self.environment = session.environment
        self.notebook = _file_name(session.name or session.id)
        """The path of the session's notebook."""
        self.was_replayed = session.replay is not None
        """Whether it was made with a notebook."""
        self.documents = Documents(self.notebook)
        self.new_terminals: dict[str, datetime] = {}
        """Those that a page has asked for and not yet opened."""
        self.started = datetime.now(UTC)
        self.folder = tempfile.TemporaryDirectory(prefix="interpreter-lab-")
        """What this server keeps as long as it runs."""
        self._place = place
        wire = Wire(place, timeout=60, by="jupyter")
        # How long an answer takes is for the page to judge: cells are waited for on the WebSocket.
        silence = httpx.Timeout(None, connect=CONNECT_SECONDS)
        self._http = httpx.AsyncClient(**wire.settings(), timeout=silence)

    @property
    def temporary(self) -> Path:
        return Path(self.folder.name)

    async def close(self) -> None:
        await self._http.aclose()
        self.folder.cleanup()

    # -- addresses in the gateway

    def kernel(self, *more: str) -> str:
        return "/".join(["/api/kernels", self.id, *more])

    def contents(self, path: str) -> str:
        return "/".join(["/api/contents", self.id, quoted(parts(path))]).rstrip("/")

    def file(self, path: str) -> str:
        return session_path(self.id, "files") + "/" + quoted(parts(path))

    def own(self, *more: str) -> str:
        return session_path(self.id, *more)

    # -- requests

    async def ask(self, method: str, path: str, **given: Any) -> httpx.Response:
        """The answer, whatever it is; raises HTTPError when there is none."""
        try:
            return await self._http.request(method, self._place.url + path, **given)
        except httpx.TransportError:
            raise HTTPError(503, "The gateway does not answer.") from None

    async def get(self, method: str, path: str, answer: type[T], **given: Any) -> T:
        """A good answer; raises HTTPError for every other."""
        response = await self.ask(method, path, **given)
        check(response.status_code, response.content)
        return msgspec.json.decode(response.content or b"null", type=answer)

    async def open(self, path: str, headers: dict[str, str]) -> httpx.Response:
        """An answer that is read as it comes, and closed by the caller."""
        request = self._http.build_request("GET", self._place.url + path, headers=headers)
        try:
            return await self._http.send(request, stream=True)
        except httpx.TransportError:
            raise HTTPError(503, "The gateway does not answer.") from None

    async def socket(self, path: str, subprotocols: list[str]) -> ClientConnection:
        """A WebSocket to the gateway. It is read no faster than who shows it takes it, so no answer to
        a ping is waited for, and a message may be as large as the gateway sends it."""
        options = terminal_options(self._place) | {"max_size": None, "ping_interval": None}
        offered = [Subprotocol(name) for name in subprotocols] or None
        url = self._place.url.replace("http", "ws", 1) + path
        try:
            return await connect(url, subprotocols=offered, compression=None, **options)
        except InvalidStatus as e:
            check(e.response.status_code, bytes(e.response.body or b""))
            raise HTTPError(502, "The gateway has no such WebSocket.") from None
        except (OSError, WebSocketException):
            raise HTTPError(503, "The gateway does not answer.") from None

    # -- what has been run

    async def recorded(self, after: str | None) -> tuple[list[Cell], str | None]:
        """The cells that ran after an execution, each as it ran last, and the last execution before
        which nothing changes."""
        cells: dict[str, Cell] = {}
        settled, unbroken = after, True
        async for execution in self._executions(after):
            unbroken = unbroken and execution.status.final
            if unbroken:
                settled = execution.id
            if execution.context == "default" and not execution.silent:
                cell = recorded_cell(execution)
                cells[cell["id"]] = cell
        return list(cells.values()), settled

    async def recorded_ids(self) -> set[str]:
        """Of all cells that ran."""
        return {
            recorded_cell(execution)["id"]
            async for execution in self._executions(None)
            if execution.context == "default" and not execution.silent
        }

    async def _executions(self, after: str | None) -> AsyncIterator[Execution]:
        while True:
            params: dict[str, str] = {"limit": str(PAGE)} | ({"after": after} if after else {})
            found = await self.get("GET", self.own("executions"), ExecutionList, params=params)
            for execution in found.executions:
                yield execution
            if len(found.executions) < PAGE:
                return
            after = found.executions[-1].id


class _Problem(msgspec.Struct, frozen=True):
    message: str = ""
    hint: str = ""


class _Refusal(msgspec.Struct):
    error: _Problem = _Problem()


def check(status: int, body: bytes) -> None:
    """Raises HTTPError for a refusal of the gateway."""
    if status < 400:
        return
    try:
        problem = msgspec.json.decode(body, type=_Refusal).error
    except (msgspec.MsgspecError, UnicodeDecodeError):
        problem = _Problem()
    said = f"{problem.message} {problem.hint}".strip() or "The gateway refused this."
    # Whether the page may ask is not in question: a page that reads 401 would ask for a login.
    raise HTTPError(502 if status in (401, 403) else status, said.replace("%", "%%"), reason=said[:200])


def _file_name(name: str) -> str:
    """A session's name as that of a file that everyone can see."""
    return (re.sub(r"[^\w. -]", "-", name).strip(". ") or "session") + ".ipynb"
