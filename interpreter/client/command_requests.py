"""What the SDK asks about commands and terminals."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence

from interpreter.client.call import Call, Nothing, session_path
from interpreter.client.cell_requests import KEEP_ALIVE_LIMIT
from interpreter.client.follow import ExecutionFollow, Follow
from interpreter.models import to_json
from interpreter.models.commands import Command, CommandCreate, CommandInput, CommandList, TerminalList

Line = str | Sequence[str]
"""A line for a shell, or a program and its arguments."""


def asked(
    command: Line,
    cwd: str | None,
    env: Mapping[str, str] | None,
    stdin: str,
    timeout: float | None,
    max_output_bytes: int | None,
    *,
    by: str,
    background: bool = False,
    interactive: bool = False,
) -> CommandCreate:
    is_line = isinstance(command, str)
    return CommandCreate(
        command=command if isinstance(command, str) else None,
        argv=None if is_line else list(command),
        cwd=cwd,
        env=dict(env or {}),
        stdin=stdin,
        interactive=interactive,
        timeout=timeout,
        background=background,
        max_output_bytes=max_output_bytes,
        by=by,
    )


def run(session_id: str, command: CommandCreate) -> Call[Command]:
    return Call(
        method="POST",
        path=session_path(session_id, "commands"),
        body=to_json(command),
        answer=Command,
        headers={"Idempotency-Key": secrets.token_hex(16)},
        silence=KEEP_ALIVE_LIMIT,
        repeatable=True,
    )


def commands(
    session_id: str, limit: int | None, after: str | None, *, newest: bool, running: bool
) -> Call[CommandList]:
    given = {
        "limit": limit,
        "after": after,
        "newest": "true" if newest else None,
        "running": "true" if running else "false",
    }
    return Call(
        method="GET",
        path=session_path(session_id, "commands"),
        params={k: str(v) for k, v in given.items() if v is not None},
        answer=CommandList,
        repeatable=True,
    )


def command(session_id: str, command_id: str, wait: bool) -> Call[Command]:
    return Call(
        method="GET",
        path=session_path(session_id, "commands", command_id),
        params={"wait": "true" if wait else "false"},
        answer=Command,
        silence=KEEP_ALIVE_LIMIT if wait else None,
        repeatable=True,
    )


def cancel(session_id: str, command_id: str) -> Call[Command]:
    return Call(
        method="DELETE",
        path=session_path(session_id, "commands", command_id),
        answer=Command,
        waits=True,
        repeatable=True,
    )


def send(session_id: str, command_id: str, text: str, eof: bool) -> Call[None]:
    return Call(
        method="POST",
        path=session_path(session_id, "commands", command_id, "input"),
        body=to_json(CommandInput(text=text, eof=eof)),
        answer=Nothing,
    )


def terminals(session_id: str) -> Call[TerminalList]:
    return Call(
        method="GET",
        path=session_path(session_id, "terminals"),
        answer=TerminalList,
        repeatable=True,
    )


def end_terminal(session_id: str, name: str) -> Call[None]:
    return Call(
        method="DELETE",
        path=session_path(session_id, "terminals", name),
        answer=Nothing,
        waits=True,
    )


class CommandFollow(ExecutionFollow):
    """Follows a command that was started before to its `done`."""

    def __init__(self, session_id: str, command_id: str, patience: float) -> None:
        Follow.__init__(self, session_id, 0, patience)
        self._execution_id = command_id
