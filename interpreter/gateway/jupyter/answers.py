"""Errors as Jupyter's clients read them: a message and a reason, beside what our own clients read."""

from __future__ import annotations

import msgspec
from tornado.web import HTTPError

from interpreter.errors import InterpreterError, InvalidRequest


def error_answer(status: int, problem: BaseException | None) -> tuple[int, bytes]:
    """The status and the body of the answer."""
    if isinstance(problem, InterpreterError):
        error = problem
    elif isinstance(problem, HTTPError) and status < 500:
        error = InvalidRequest(problem.log_message or problem.reason or "The request is not valid.")
    else:
        error = InterpreterError("Something went wrong in the gateway.")
    return error.status, body(error)


def body(error: InterpreterError) -> bytes:
    facts = {"code": error.code, "message": error.message, "hint": error.hint}
    return msgspec.json.encode({"message": error.message, "reason": error.code, "error": facts})
