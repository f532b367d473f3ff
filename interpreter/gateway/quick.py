"""The short way for what is asked most: run a cell and wait for its result.

A framework takes a request through a dozen objects and several turns of the event loop before it
reaches a function. A cell that is over in a millisecond would notice. So requests of that one kind
are taken here as soon as their last byte is read, and answered in the moment the cell ends.

Only what is plainly in order goes this way. Anything else, and everything there is to refuse, goes
the ordinary way, so that errors are worded in one place.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable
from email.utils import formatdate
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec
from tornado.httputil import (
    HTTPConnection,
    HTTPHeaders,
    HTTPMessageDelegate,
    RequestStartLine,
    ResponseStartLine,
)
from tornado.web import Application

from interpreter.errors import InterpreterError
from interpreter.models import ExecutionCreate

if TYPE_CHECKING:
    from interpreter.gateway.application import Gateway

PATH = re.compile(r"/v1/sessions/([\w-]+)/executions", re.ASCII)
KEY_LENGTH = 200
OK = ResponseStartLine("HTTP/1.1", 200, "OK")

_decode = msgspec.json.Decoder(ExecutionCreate).decode
_tasks: set[asyncio.Task[None]] = set()


class QuickApplication(Application):
    """An application that has the short way, too."""

    gateway: Gateway

    def start_request(self, server_conn: object, request_conn: HTTPConnection) -> HTTPMessageDelegate:
        return _Request(self, server_conn, request_conn)

    def ordinarily(self, server_conn: object, request_conn: HTTPConnection) -> HTTPMessageDelegate:
        return super().start_request(server_conn, request_conn)


class _Request(HTTPMessageDelegate):
    """A request that goes the short way, or is passed on to whoever takes it the ordinary way."""

    def __init__(
        self, application: QuickApplication, server_conn: object, connection: HTTPConnection
    ) -> None:
        self._application = application
        self._server_conn = server_conn
        self._connection = connection
        self._ordinary: HTTPMessageDelegate | None = None
        self._chunks: list[bytes] = []

    # -- what Tornado tells

    def headers_received(
        self, start_line: RequestStartLine | ResponseStartLine, headers: HTTPHeaders
    ) -> Awaitable[None] | None:
        assert isinstance(start_line, RequestStartLine)
        self._start_line, self._headers = start_line, headers
        if start_line.method == "POST" and start_line.version == "HTTP/1.1":
            match = PATH.fullmatch(start_line.path)
            if match is not None and self._is_plain(headers):
                self._session_id = match[1]
                return None
        self._ordinary = self._pass_on()
        return self._ordinary.headers_received(start_line, headers)

    def data_received(self, chunk: bytes) -> Awaitable[None] | None:
        if self._ordinary is not None:
            return self._ordinary.data_received(chunk)
        self._chunks.append(chunk)
        return None

    def finish(self) -> None:
        if self._ordinary is not None:
            self._ordinary.finish()
        elif not self._run():
            task = asyncio.create_task(self._start_over())
            _tasks.add(task)
            task.add_done_callback(_tasks.discard)

    def on_connection_close(self) -> None:
        if self._ordinary is not None:
            self._ordinary.on_connection_close()

    # -- the short way

    def _is_plain(self, headers: HTTPHeaders) -> bool:
        gateway = self._application.gateway
        length = headers.get("Content-Length", "")
        return (
            length.isdecimal()
            and len(length) < 10
            and int(length) <= gateway.max_body
            and "Transfer-Encoding" not in headers
            and "Expect" not in headers
            and len(headers.get("Idempotency-Key", "none")) in range(1, KEY_LENGTH + 1)
            and "text/event-stream" not in headers.get("Accept", "")
            and gateway.guard.lets_in(headers.get("Host", ""), headers.get("Authorization", ""))
        )

    def _run(self) -> bool:
        """Runs the cell; False if there is something to say against it, or nobody to wait for it."""
        try:
            request = _decode(b"".join(self._chunks))
            if not request.wait:
                return False
            executions = self._application.gateway.orchestrator.executions
            key = self._headers.get("Idempotency-Key")
            cell = executions.submit_now(self._session_id, request, key)
        except (InterpreterError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return False
        if cell is None:
            return False
        id = cell.id
        self._location = f"/v1/sessions/{self._session_id}/executions/{id}"
        cell.answers.append(self._answer)
        if request.cancel_on_disconnect:
            self._connection.set_close_callback(  # type: ignore[attr-defined]
                lambda: executions.abandon(self._session_id, id)
            )
        return True

    def _answer(self, execution: bytes) -> None:
        headers = HTTPHeaders()
        headers["Content-Type"] = "application/json"
        headers["Cache-Control"] = "no-store"
        headers["X-Content-Type-Options"] = "nosniff"
        headers["Date"] = _date(int(time.time()))
        headers["Location"] = self._location
        headers["Content-Length"] = str(len(execution))
        self._connection.write_headers(OK, headers, execution)
        self._connection.finish()

    # -- the ordinary way

    def _pass_on(self) -> HTTPMessageDelegate:
        return self._application.ordinarily(self._server_conn, self._connection)

    async def _start_over(self) -> None:
        self._ordinary = self._pass_on()
        prepared = self._ordinary.headers_received(self._start_line, self._headers)
        if prepared is not None:
            await prepared
        for chunk in self._chunks:
            self._ordinary.data_received(chunk)
        self._ordinary.finish()


@lru_cache(maxsize=2)
def _date(second: int) -> str:
    return formatdate(second, usegmt=True)
