"""One stream of events over as many connections as it takes.

A follow says which call to make next, takes the bytes that come, and decides what a connection's
end means: the end of the stream, a pause before another try, or an error. It does no input or
output itself. It promises every event once and in order, and never sends a cell twice.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod

from interpreter.client import requests
from interpreter.client.errors import ConnectionLost, GatewayUnreachable, with_hint
from interpreter.client.requests import Call
from interpreter.client.sse import EventParser
from interpreter.errors import InterpreterError, SessionNotFound
from interpreter.models import Event, EventType, ExecutionCreate

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 2.0
RETRIED = (GatewayUnreachable, ConnectionLost)


class Backoff:
    """Pauses between tries, 0.1 s growing to 2 s, until nothing has worked for `patience` seconds."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._failing_since: float | None = None
        self._pause = FIRST_PAUSE
        self._tried_at = time.monotonic()

    def trying(self) -> None:
        self._tried_at = time.monotonic()

    def works(self) -> None:
        self._failing_since = None
        self._pause = FIRST_PAUSE

    def pause_after(self, error: InterpreterError) -> float:
        """How long to wait before the next try; raises `error` when patience is at its end."""
        if not isinstance(error, RETRIED):
            raise error
        now = time.monotonic()
        # A wait that went on for a while before it was cut had reached the gateway.
        if isinstance(error, ConnectionLost) and now - self._tried_at > LONGEST_PAUSE:
            self.works()
        if self._failing_since is None:
            self._failing_since = now
        if now - self._failing_since >= self._patience:
            raise error
        pause, self._pause = self._pause, min(self._pause * 2, LONGEST_PAUSE)
        return pause


class Follow(ABC):
    """What both kinds of stream have in common."""

    def __init__(self, session_id: str, after: int, patience: float) -> None:
        self.finished = False
        self._session_id = session_id
        self._seen = after
        self._backoff = Backoff(patience)
        self._parser = EventParser()

    def call(self) -> Call[None]:
        """The request that opens the next connection."""
        self._parser = EventParser()
        self._backoff.trying()
        return self._next_call()

    def feed(self, chunk: bytes) -> list[Event]:
        """The events that these bytes complete."""
        self._backoff.works()
        events = [e for e in self._parser.feed(chunk) if e.seq > self._seen]
        if events:
            self._seen = events[-1].seq
        return events

    def ended(self) -> float:
        """The gateway closed the stream. Returns the pause before the next call."""
        return self.failed(ConnectionLost("The gateway closed the stream of events."))

    @abstractmethod
    def failed(self, error: InterpreterError) -> float:
        """A connection broke or was refused. Returns the pause before the next call, or raises."""

    @abstractmethod
    def _next_call(self) -> Call[None]: ...


class ExecutionFollow(Follow):
    """Runs a cell and follows it to its `done`."""

    def __init__(self, session_id: str, cell: ExecutionCreate, patience: float) -> None:
        super().__init__(session_id, 0, patience)
        self._cell = cell
        self._execution_id: str | None = None

    def feed(self, chunk: bytes) -> list[Event]:
        events = super().feed(chunk)
        if events:
            self._execution_id = events[0].execution_id
            self.finished = events[-1].type is EventType.done
        return events

    def failed(self, error: InterpreterError) -> float:
        if self.finished:
            return 0.0
        if self._execution_id is None:
            raise fate_unknown(self._session_id, error)
        try:
            return self._backoff.pause_after(error)
        except InterpreterError as e:
            raise still_running(self._execution_id, e) from None

    def _next_call(self) -> Call[None]:
        if self._execution_id is None:
            return requests.execute_streamed(self._session_id, self._cell)
        return requests.execution_events(self._session_id, self._execution_id, self._seen)


class SessionFollow(Follow):
    """Everything that happens in a session, until it is deleted or, without `follow`, until now."""

    def __init__(self, session_id: str, after: int, follow: bool, patience: float) -> None:
        super().__init__(session_id, after, patience)
        self._follow = follow
        self._found = False

    def feed(self, chunk: bytes) -> list[Event]:
        self._found = True
        return super().feed(chunk)

    def ended(self) -> float:
        self._found = True
        if not self._follow:
            self.finished = True
            return 0.0
        # A deleted session ends its stream, and so does a gateway that stops: the next call tells.
        return super().ended()

    def failed(self, error: InterpreterError) -> float:
        if not self._found:
            raise error
        if isinstance(error, SessionNotFound):
            self.finished = True
            return 0.0
        return self._backoff.pause_after(error)

    def _next_call(self) -> Call[None]:
        return requests.session_events(self._session_id, self._seen, self._follow)


def fate_unknown(session_id: str, error: InterpreterError) -> InterpreterError:
    """What to raise when the answer to a cell was lost before its id was known."""
    if not isinstance(error, ConnectionLost):
        return error
    lost = ConnectionLost(
        f"The connection broke before the cell had an id; it may still run. ({error.message})",
        f"The executions of session {session_id} show whether it did; it was not sent again.",
    )
    return with_hint(lost)


def still_running(execution_id: str, error: InterpreterError) -> InterpreterError:
    """What to raise when a cell that runs cannot be followed any longer."""
    if not isinstance(error, RETRIED):
        return error
    lost = ConnectionLost(
        f"The gateway is away; execution {execution_id} may still run. ({error.message})",
        f"When the gateway is back, read it with session.execution('{execution_id}').",
        execution_id,
    )
    return with_hint(lost)
