"""Cells: what is asked, how far they are, what came of them."""

from __future__ import annotations

import enum
from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from interpreter.models.basics import MOST, ContextName, Output, Who


class ExecutionStatus(enum.Enum):
    """Where a cell is in its life. The last five are final."""

    queued = "queued"
    running = "running"
    ok = "ok"
    error = "error"
    timeout = "timeout"
    cancelled = "cancelled"
    lost = "lost"

    @property
    def final(self) -> bool:
        return self not in (ExecutionStatus.queued, ExecutionStatus.running)


class ExecutionCreate(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A cell to run."""

    code: str
    context: ContextName = "default"
    """Which of the session's kernels runs it."""
    timeout: Annotated[float, Meta(gt=0)] | None = None
    """Seconds the cell may run; 30 when left out, at most the session's `cell_seconds`."""
    store_history: bool = True
    allow_stdin: bool = False
    """Whether the caller will answer `input_request` events; `input()` fails otherwise."""
    cancel_on_disconnect: bool = False
    """Whether the cell is cancelled when the caller's connection goes away."""
    wait: bool = True
    """False answers at once with the queued execution."""
    max_output_bytes: Annotated[int, Meta(ge=1024, le=MOST)] | None = None
    """Outputs of the result beyond this are cut in the middle; the whole stays fetchable."""
    by: Who = "api"
    """Who runs it, for others to see."""


class ExecutionUpdate(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to change of an execution while it is queued or runs."""

    timeout: Annotated[float, Meta(gt=0)]
    """Seconds since it started, at most the session's `cell_seconds`."""


class ExecutionUsage(Struct, frozen=True, kw_only=True):
    """What the sandbox used while the cell ran, whatever else ran in it at the time."""

    cpu_seconds: float
    memory_peak_bytes: int | None = None
    """The most the sandbox held at once meanwhile, file cache included; null when not known."""
    read_bytes: int | None = None
    """From block devices; null when nobody counts."""
    written_bytes: int | None = None
    """To block devices; null when nobody counts."""


class ExecutionError(Struct, frozen=True, kw_only=True):
    """The exception that ended a cell. The traceback has no terminal colours."""

    ename: str
    evalue: str
    traceback: list[str]


class Truncated(Struct, frozen=True, kw_only=True):
    """Says that `outputs` is a part of the whole, and where the whole is."""

    total_bytes: int
    kept_bytes: int
    url: str


class InputRequest(Struct, frozen=True, kw_only=True):
    """What a cell asks with `input()` or `getpass()`."""

    prompt: str
    password: bool


Change = Literal["created", "changed", "deleted"]


class FileChange(Struct, frozen=True, kw_only=True):
    """A file of the workspace that is not as it was before the cell."""

    path: str
    """From the top of the workspace; bytes that are not UTF-8 are written as `\\xff`."""
    change: Change
    size: int | None = None
    """In bytes; null when it is gone, or a link, a pipe or a socket."""
    mime_type: str | None = None
    """By its name; null when that does not tell."""
    url: str | None = None
    """Where its contents are; null when there are none."""


class Execution(Struct, frozen=True, kw_only=True):
    """One cell, or one command: what was asked, what came of it."""

    id: str
    session_id: str
    code: str
    context: str | None = "default"
    """Null for a command, which runs in no kernel."""
    by: str | None = None
    """Who ran it; null when that was not recorded."""
    status: ExecutionStatus
    reason: str | None = None
    """Why it ended as `timeout`, `cancelled` or `lost`."""
    execution_count: int | None = None
    cell_id: str | None = None
    """The cell of a notebook that a Jupyter client ran it from, if it said so."""
    silent: bool = False
    """Whether a Jupyter client ran it for itself: it is no cell of the notebook."""
    exit_code: int | None = None
    """Of a command that has ended."""
    outputs: list[Output] = []
    text: str = ""
    """What a person would read: streams, results and errors as plain text."""
    error: ExecutionError | None = None
    input_request: InputRequest | None = None
    """What it waits to be told, while it does."""
    truncated: Truncated | None = None
    queued_at: datetime
    started_at: datetime | None = None
    timeout: float | None = None
    """Seconds it may run."""
    duration_ms: float | None = None
    usage: ExecutionUsage | None = None
    """Null until it ends, without control groups, and when the gateway was restarted meanwhile."""
    files: list[FileChange] | None = None
    """What the cell created, changed and deleted in the workspace, or whatever else did meanwhile; by
    path, at most 1,000. Null until it ends, and when it is not known for sure."""
    files_left_out: int = 0
    """How many more there are."""


class ExecutionList(Struct, frozen=True, kw_only=True):
    """The executions of a session, oldest first, or newest first if that was asked for."""

    executions: list[Execution]
    last_event: int = 0
    """Those that have ended show what the session's events up to this number say, or more."""
    follow_after: int = 0
    """Who follows the session's events after this number is told all of those that have not ended."""


class InputReply(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The answer to an `input_request`."""

    value: Annotated[str, Meta(max_length=1_000_000)]
