"""How a command ends: its exit code, and what it says when something is wrong."""

from __future__ import annotations

import enum
import sys

from interpreter.errors import ExecutionNotFound, InterpreterError, SessionNotFound, Unauthorized
from interpreter.models import ExecutionStatus


class Exit(enum.IntEnum):
    ok = 0
    cell_failed = 1
    usage = 2
    gateway = 3
    timeout = 124
    interrupted = 130


OF_STATUS = {
    ExecutionStatus.ok: Exit.ok,
    ExecutionStatus.error: Exit.cell_failed,
    ExecutionStatus.lost: Exit.cell_failed,
    ExecutionStatus.timeout: Exit.timeout,
    ExecutionStatus.cancelled: Exit.interrupted,
}

# The gateway's hints speak of requests; these say the same to somebody at a terminal.
_HINTS: dict[type[InterpreterError], str] = {
    Unauthorized: "Set INTERPRETER_TOKEN to the token that the gateway printed when it started.",
    SessionNotFound: "'interpreter sessions' lists the sessions there are.",
    ExecutionNotFound: "'interpreter logs SESSION' shows what a session has run.",
}


def report(error: InterpreterError) -> Exit:
    """Says what is wrong and what to do about it."""
    complain(error.message, _HINTS.get(type(error), error.hint))
    return Exit.gateway


def complain(message: str, hint: str = "") -> None:
    sys.stdout.flush()
    print(f"error: {message}", file=sys.stderr)
    if hint:
        print(f"  {hint}", file=sys.stderr)
