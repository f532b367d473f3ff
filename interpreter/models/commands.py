"""Commands and terminals: programs that run beside the kernels of a session."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct

from interpreter.models.basics import MOST, Who
from interpreter.models.executions import (
    Execution,
    ExecutionStatus,
    ExecutionUsage,
    FileChange,
    Truncated,
)

TerminalName = Annotated[str, Meta(pattern="^[A-Za-z0-9][A-Za-z0-9_-]{0,39}$")]


class CommandCreate(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A command to run: either `command`, for a shell, or `argv`, without one."""

    command: Annotated[str, Meta(min_length=1)] | None = None
    """For bash, or sh where there is none."""
    argv: Annotated[list[str], Meta(min_length=1, max_length=10_000)] | None = None
    """The program and its arguments, as they are."""
    cwd: Annotated[str, Meta(max_length=4096)] | None = None
    """The folder it runs in: in the workspace, or from the root with a leading slash."""
    env: dict[str, str] = {}
    """Variables besides those of the session."""
    stdin: Annotated[str, Meta(max_length=1_000_000)] = ""
    """What it can read."""
    interactive: bool = False
    """Whether its stdin stays open after that, for what is sent to it later."""
    timeout: Annotated[float, Meta(gt=0)] | None = None
    """Seconds it may run, at most the session's `cell_seconds`; when left out 30, and in the background
    as long as it may."""
    background: bool = False
    """True answers at once, with the command that runs."""
    cancel_on_disconnect: bool = False
    """Whether it is ended when the caller's connection goes away."""
    max_output_bytes: Annotated[int, Meta(ge=1024, le=MOST)] | None = None
    """Output of the result beyond this is cut in the middle; the whole stays fetchable."""
    by: Who = "api"
    """Who runs it, for others to see."""


class Command(Struct, frozen=True, kw_only=True):
    """A command: what was asked, what came of it."""

    id: str
    session_id: str
    command: str
    by: str | None = None
    """Who ran it; null when that was not recorded."""
    status: ExecutionStatus
    """`ok` when it ended with 0, `error` when it ended otherwise."""
    reason: str | None = None
    """Why it ended otherwise than by itself, or could not be started."""
    exit_code: int | None = None
    """As a shell says it: 128 and the number of the signal that ended it. Null while it runs, and when
    that is not known."""
    stdout: str = ""
    stderr: str = ""
    truncated: Truncated | None = None
    queued_at: datetime
    started_at: datetime | None = None
    timeout: float | None = None
    duration_ms: float | None = None
    usage: ExecutionUsage | None = None
    """Of the whole sandbox meanwhile; null until it ends, and when it is not known."""
    files: list[FileChange] | None = None
    """What changed in the workspace meanwhile; null until it ends, and when it is not known."""
    files_left_out: int = 0

    @classmethod
    def of(cls, execution: Execution) -> Command:
        """An execution that is a command, in the words of commands."""
        said = {"stdout": "", "stderr": ""}
        for output in execution.outputs:
            if output.get("output_type") == "stream":
                said[output["name"]] += output["text"]
        return cls(
            id=execution.id,
            session_id=execution.session_id,
            command=execution.code,
            by=execution.by,
            status=execution.status,
            reason=execution.reason,
            exit_code=execution.exit_code,
            stdout=said["stdout"],
            stderr=said["stderr"],
            truncated=execution.truncated,
            queued_at=execution.queued_at,
            started_at=execution.started_at,
            timeout=execution.timeout,
            duration_ms=execution.duration_ms,
            usage=execution.usage,
            files=execution.files,
            files_left_out=execution.files_left_out,
        )


class CommandList(Struct, frozen=True, kw_only=True):
    """The commands of a session, oldest first."""

    commands: list[Command]


class CommandInput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a command is to read."""

    text: Annotated[str, Meta(max_length=1_000_000)] = ""
    eof: bool = False
    """Whether that was all."""


class Terminal(Struct, frozen=True, kw_only=True):
    """A terminal of a session."""

    name: str
    viewers: int
    created_at: datetime | None = None
    """Null when an earlier gateway made it."""
    last_activity: datetime


class TerminalList(Struct, frozen=True, kw_only=True):
    """The terminals of a session, by name."""

    terminals: list[Terminal]
