"""From an HTTP request to an operation's function and back.

Every request passes here: the token is checked, the body is bounded and validated, and whatever
goes wrong is answered as `{"error": {code, message, hint}}`.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import socket
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import msgspec
import structlog
from tornado.http1connection import HTTP1Connection
from tornado.iostream import StreamClosedError
from tornado.web import HTTPError, RequestHandler, stream_request_body

from interpreter.errors import (
    InterpreterError,
    InvalidJson,
    InvalidRequest,
    MethodNotAllowed,
    NotFound,
    RequestTooLarge,
    ShuttingDown,
    StoreUnavailable,
)
from interpreter.gateway.operation import Operation, Receiver
from interpreter.models import ErrorAnswer, ErrorBody

if TYPE_CHECKING:
    from interpreter.gateway.application import Gateway

log = structlog.get_logger()

T = TypeVar("T")

JSON = "application/json"
PUBLIC_BODY = 16 * 1024
"""Bytes that anybody may send who has no token."""
LINGER_SECONDS = 5.0
"""How long a body that was refused is read on, so that its sender can read the answer."""


def error_answer(error: InterpreterError) -> bytes:
    body = ErrorBody(code=error.code, message=error.message, hint=error.hint)
    return msgspec.json.encode(ErrorAnswer(error=body))


@stream_request_body
class ApiHandler(RequestHandler):
    """Serves the operations of one path."""

    operations: ClassVar[dict[str, Operation]] = {}

    def initialize(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self.orchestrator = gateway.orchestrator
        self.path: dict[str, str] = {}
        self.on_leave: list[Any] = []
        """Called when the client goes away before its answer is complete."""
        self.receiver: Receiver | None = None
        """Takes the body as it arrives, if the operation wants that."""
        self._until: float | None = None
        self.error_headers: dict[str, str] = {}
        """Sent along if the answer is an error."""
        self._body = bytearray()
        self._body_read = False
        self._refused = False
        self.left = False

    def set_default_headers(self) -> None:
        self.set_header("Content-Type", JSON)
        self.set_header("Cache-Control", "no-store")
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Cross-Origin-Resource-Policy", "same-origin")
        self.set_header("Referrer-Policy", "no-referrer")
        self.clear_header("Server")

    def compute_etag(self) -> None:
        return None

    def check_etag_header(self) -> bool:
        return False

    # -- before the body

    async def prepare(self) -> None:
        request = self.request
        self.gateway.guard.check_host(request)
        if not self._is_public():
            self._until = self.gateway.guard.check_token(request, self._outputs_of())
        length = request.headers.get("Content-Length", "0")
        if not length.isdecimal():
            raise InvalidRequest("Content-Length is not a number.")
        operation = self.operation
        receive = None if operation is None else operation.receive
        if len(length) > 15 or (receive is None and int(length) > self._most):
            raise self._too_large()
        if receive is not None:
            self.path = dict(self.path_kwargs)
            await self._begin_receiving(receive)

    @property
    def embedded(self) -> bool:
        """Whether whoever asks may see a session's outputs and nothing else."""
        return self._until is not None

    @property
    def seconds_left(self) -> float:
        """How long whoever asks may go on seeing."""
        return math.inf if self._until is None else self._until - time.time()

    def _is_public(self) -> bool:
        """Whether no token is needed to do this, or to be told that it cannot be done here."""
        asked = [self.operation] if self.operation else list(self.operations.values())
        return bool(asked) and all(operation.public for operation in asked)

    def _outputs_of(self) -> str | None:
        """The session that a token for its outputs would have to be for; None where none will do."""
        wanted = self.operation is not None and self.operation.embeddable
        return self.path_kwargs["session_id"] if wanted else None

    async def _begin_receiving(self, receive: Callable[[ApiHandler], Awaitable[Receiver]]) -> None:
        try:
            self.receiver = await receive(self)
        except InterpreterError as e:
            headers = self.request.headers
            sends = "Transfer-Encoding" in headers or headers.get("Content-Length", "0") != "0"
            if not sends or "Expect" in headers:
                raise  # nothing comes, or nothing before we ask for it
            self._refuse(e)
        if self.left and self.receiver is not None:
            self.receiver.leave()

    def data_received(self, chunk: bytes) -> Awaitable[None] | None:
        if self._refused:
            return None
        if self.receiver is not None:
            return self._receive(self.receiver, chunk)
        if len(self._body) + len(chunk) > self._most:
            # Tornado would log what is raised here and hang up without an answer.
            error = self._too_large()
            self.send_error(error.status, exc_info=(type(error), error, None))
        else:
            self._body += chunk
        return None

    async def _receive(self, receiver: Receiver, chunk: bytes) -> None:
        try:
            await receiver.receive(chunk)
        except Exception as e:
            receiver.leave()
            self._refuse(e)

    def _refuse(self, error: Exception) -> None:
        """Answers with an error while a body arrives that nobody wants any more.

        To hang up at once would make the client's system throw the answer away. So what comes is read
        and forgotten for a moment.
        """
        self._refused = True
        problem = (type(error), error, error.__traceback__)
        self.log_exception(*problem)
        self.clear()
        self.write_error(500, exc_info=problem)

    def _linger(self, answer: bytes) -> None:
        self.set_header("Content-Length", str(len(answer)))
        self.write(answer)
        self._refusal = self.flush()
        self._refusal.add_done_callback(self._end_sending)
        asyncio.get_running_loop().call_later(LINGER_SECONDS, self.hang_up)

    def _end_sending(self, sent: asyncio.Future[None]) -> None:
        connection = self.request.connection
        assert isinstance(connection, HTTP1Connection)
        if sent.exception() is None and not connection.stream.closed():
            with contextlib.suppress(OSError):
                connection.stream.socket.shutdown(socket.SHUT_WR)

    def hang_up(self) -> None:
        """Ends the connection, whatever of the answer is on its way."""
        connection = self.request.connection
        assert isinstance(connection, HTTP1Connection)
        if not self._finished:
            self._finished = True
            connection.close()

    def _too_large(self) -> RequestTooLarge:
        return RequestTooLarge(f"The body may have at most {self._most:,} bytes.")

    @property
    def _most(self) -> int:
        """Bytes that the body may have."""
        if self._is_public():
            return PUBLIC_BODY
        own = 0 if self.operation is None else self.operation.largest_body
        return max(self.gateway.max_body, own)

    # -- the operation

    @property
    def operation(self) -> Operation | None:
        """What the method asks for. HEAD is a GET without the body, unless that has no end."""
        method = self.request.method or ""
        if method != "HEAD":
            return self.operations.get(method)
        operation = self.operations.get("GET")
        return None if operation is None or operation.stream else operation

    async def _run(self, *groups: str, **path: str) -> None:
        self._body_read = True
        if self._refused:
            with contextlib.suppress(StreamClosedError):
                await self._refusal
            self.hang_up()
            return
        operation = self.operation
        if operation is None:
            raise self._no_operation()
        self.path = path
        answer = await operation.function(self)
        if answer is not None:
            self.answer(answer)
        elif not self._finished and None in operation.answers.values():
            self.set_status(204)
            self.clear_header("Content-Type")
            self.finish()

    get = post = put = patch = delete = _run
    head = options = _run

    def answer(self, answer: Any) -> None:
        """Answers with success."""
        assert self.operation is not None
        self.set_status(next(iter(self.operation.answers)))
        self.finish_json(answer)

    def finish(self, chunk: Any = None) -> asyncio.Future[None]:
        sent = super().finish(chunk)
        if not sent.done():
            self.gateway.answering.add(sent)
            sent.add_done_callback(self.gateway.answering.discard)
        return sent

    def finish_json(self, answer: Any) -> None:
        self.finish(answer if isinstance(answer, bytes) else msgspec.json.encode(answer))

    def body(self, type: type[T]) -> T:
        """The body as a value of this type, once; an empty body is an empty object."""
        given, self._body = self._body, bytearray()
        try:
            return msgspec.json.decode(given or b"{}", type=type)
        except msgspec.ValidationError as e:
            raise InvalidRequest(f"The body is not as it should be: {e}.") from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as e:
            raise InvalidJson(f"The body is not JSON: {e}.") from None

    def query(self, type: type[T]) -> T:
        """The query parameters as a value of this type."""
        values = {
            name: given[-1].decode("utf-8", "replace")
            for name, given in self.request.query_arguments.items()
            if name != "token"
        }
        try:
            return msgspec.convert(values, type, strict=False)
        except msgspec.ValidationError as e:
            raise InvalidRequest(f"A query parameter is not as it should be: {e}.") from None

    def send_at_once(self) -> None:
        """What is written leaves now; Tornado undoes this after every answer."""
        connection = self.request.connection
        assert isinstance(connection, HTTP1Connection)
        connection.stream.set_nodelay(True)

    @property
    def wants_stream(self) -> bool:
        return "text/event-stream" in self.request.headers.get("Accept", "")

    def on_connection_close(self) -> None:
        super().on_connection_close()
        self.left = True
        if self.receiver is not None:
            self.receiver.leave()
        for leave in self.on_leave:
            leave()

    # -- when something is wrong

    def _no_operation(self) -> InterpreterError:
        possible = ", ".join(self._methods())
        return MethodNotAllowed(f"{self.request.method} is not possible here, only {possible}.")

    def _methods(self) -> list[str]:
        heads = {"HEAD" for o in self.operations.values() if o.method == "GET" and not o.stream}
        return sorted({*self.operations, *heads})

    def write_error(self, status_code: int, **details: Any) -> None:
        problem = details.get("exc_info", (None, None, None))[1]
        if isinstance(problem, InterpreterError):
            error = problem
        elif status_code == 405:
            error = self._no_operation()
        elif isinstance(problem, HTTPError) and status_code < 500:
            error = InvalidRequest(problem.log_message or problem.reason or "The request is not valid.")
        elif problem is None and self.orchestrator.draining:
            # It waited for something, and the gateway ends.
            error = ShuttingDown("The gateway has stopped.")
        else:
            error = InterpreterError("Something went wrong in the gateway.")
        self.set_status(error.status)
        self.set_header("Content-Type", JSON)
        if error.status == 401:
            self.set_header("WWW-Authenticate", "Bearer")
        if error.retry_after is not None:
            self.set_header("Retry-After", str(math.ceil(error.retry_after)))
        if error.status == 405:
            self.set_header("Allow", ", ".join(self._methods()))
        for name, value in self.error_headers.items():
            self.set_header(name, value)
        if not self._body_read:
            # Tornado hangs up rather than to read a body that nobody wants.
            self.set_header("Connection", "close")
        if self._refused:
            self._linger(error_answer(error))
        else:
            self.finish(error_answer(error))

    def log_exception(self, kind: Any, value: Any, trace: Any) -> None:
        if isinstance(value, InterpreterError) and (value.status < 500 or value.status == 507):
            return
        if isinstance(value, ShuttingDown | StoreUnavailable | HTTPError | StreamClosedError):
            return  # no fault of ours, or one that is in the log already
        log.error("request failed", path=self.request.path, exc_info=(kind, value, trace))


class NotFoundHandler(ApiHandler):
    """Everything that no operation has a path for."""

    def _no_operation(self) -> InterpreterError:
        return NotFound(f"There is nothing at {self.request.path[:200]}.")
