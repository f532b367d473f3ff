"""What can go wrong on the client's side of the wire.

Errors that the gateway answers are raised again as the classes of `interpreter.errors`; these
are the ones it cannot tell us about.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from interpreter.errors import InterpreterError, InvalidRequest

if TYPE_CHECKING:
    from interpreter.client.result import Outcome

E = TypeVar("E", bound=InterpreterError)


def with_hint(error: E) -> E:
    """The same error; a traceback that nobody catches now ends with what to do about it."""
    error.add_note(error.hint)
    return error


class GatewayUnreachable(InterpreterError):
    """Nothing that is a gateway answers at the URL. What was asked has not happened."""

    code = "unreachable"
    status = 503
    hint = "Start one with 'interpreter serve', or point INTERPRETER_URL at one that runs."


class ConnectionLost(InterpreterError):
    """The connection broke after the request was sent. What was asked may have happened."""

    code = "connection_lost"
    status = 503
    hint = "Ask again if that is safe."

    def __init__(self, message: str, hint: str | None = None, execution_id: str | None = None) -> None:
        super().__init__(message, hint)
        self.execution_id = execution_id


class AmbiguousSession(InvalidRequest):
    """A name, or the beginning of an id, that fits more than one session."""

    code = "ambiguous_session"
    hint = "Use the whole id."


class InputMissing(InterpreterError):
    """A cell asked for more input than it was given answers; it was cancelled."""

    code = "input_missing"
    status = 400
    hint = "Give run() an answer for every input(), or a function that answers."


class CellError(InterpreterError):
    """A cell that did not end well, for those who prefer an exception to a result."""

    code = "cell_error"
    status = 400
    hint = "The result has the outputs up to there."

    def __init__(self, message: str, result: Outcome) -> None:
        super().__init__(message)
        self.result = result
