"""How a command ends: its exit code, and what it says when something is wrong."""

from __future__ import annotations

import enum
import re
import sys

from interpreter.errors import (
    ContextNotFound,
    ExecutionNotFound,
    FileNotFound,
    InterpreterError,
    SessionNotFound,
    TooManySessions,
    Unauthorized,
    WorkspaceInUse,
    WorkspaceNotFound,
)
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
    FileNotFound: "'interpreter ls SESSION' lists the files of a session.",
    WorkspaceNotFound: "'interpreter workspaces' lists those there are; 'workspaces create' makes one.",
    WorkspaceInUse: "Stop that session with 'interpreter stop SESSION', or use --read-only.",
    ContextNotFound: "'interpreter contexts SESSION' lists the contexts there are.",
}


_START = re.compile(r"POST /v1/sessions/(\S+)/start")


def report(error: InterpreterError) -> Exit:
    """Says what is wrong and what to do about it."""
    complain(error.message, _hint(error))
    return Exit.gateway


def _hint(error: InterpreterError) -> str:
    if isinstance(error, TooManySessions) and error.retry_after is not None:
        return f"Try again in {error.retry_after:g} s, or make room: 'interpreter stop SESSION'."
    hint = error.hint.replace("'?recursive=true'", "'-r'")
    return _HINTS.get(type(error), _START.sub(r"'interpreter start \1'", hint))


def complain(message: str, hint: str = "") -> None:
    sys.stdout.flush()
    print(f"error: {message}", file=sys.stderr)
    if hint:
        print(f"  {hint}", file=sys.stderr)
