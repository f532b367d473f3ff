"""One stream of events over as many connections as it takes.

A follow says which call to make next, takes the bytes that come, and decides what a connection's
end means: the end of the stream, a pause before another try, or an error. It does no input or
output itself. It promises every event once and in order, and that a cell which is sent again, because
nobody knows whether it arrived, goes with the same key and so is run once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from interpreter.client import cell_requests
from interpreter.client.backoff import RETRIED, Backoff
from interpreter.client.call import Call
from interpreter.client.errors import ConnectionLost, with_hint
from interpreter.client.sse import EventParser
from interpreter.errors import InterpreterError, SessionNotFound
from interpreter.models import Event, EventType, ExecutionCreate


class Follow(ABC):
    """What both kinds of stream have in common."""

    def __init__(self, session_id: str, after: int, patience: float) -> None:
        self.finished = False
        self._session_id = session_id
        self._seen = after
        self._backoff = Backoff(patience, repeatable=True)
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
        self._first_call = cell_requests.execute_streamed(session_id, cell)
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
        try:
            return self._backoff.pause_after(error)
        except InterpreterError as e:
            if self._execution_id is None:
                raise fate_unknown(self._session_id, e) from None
            raise still_running(self._execution_id, e) from None

    def _next_call(self) -> Call[None]:
        if self._execution_id is None:
            return self._first_call
        return cell_requests.execution_events(self._session_id, self._execution_id, self._seen)


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
        return cell_requests.session_events(self._session_id, self._seen, self._follow)


def fate_unknown(session_id: str, error: InterpreterError) -> InterpreterError:
    """What to raise when a cell was sent, its answer was lost, and the gateway stays away."""
    if not isinstance(error, ConnectionLost):
        return error
    lost = ConnectionLost(
        f"The gateway is away, and the cell may have run or still run. ({error.message})",
        f"When it is back, the executions of session {session_id} show whether it did.",
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
