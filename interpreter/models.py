"""The things the API speaks of, as types.

One definition serves everyone: the gateway validates requests with these and generates the
OpenAPI description from them, the orchestrator and the store pass them around, and the SDK
reads answers into them.
"""

from __future__ import annotations

import enum
from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

Name = Annotated[str, Meta(min_length=1, max_length=100)]
Label = Annotated[str, Meta(max_length=200)]
MOST = 2**53
"""The largest whole number that every JSON reader reads exactly."""
Output = dict[str, Any]
"""One nbformat output: stream, display_data, execute_result or error."""


class SessionState(enum.Enum):
    """Where a session is in its life. `orchestrator.states` says which change is allowed."""

    creating = "creating"
    ready = "ready"
    busy = "busy"
    stopped = "stopped"
    failed = "failed"


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


class Limits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a session may use. Every limit binds; none is off by default."""

    memory_mb: Annotated[int, Meta(ge=128, description="memory of the sandbox")] = 2048
    cpus: Annotated[float, Meta(ge=0.1, description="processor cores the sandbox may use")] = 1.0
    processes: Annotated[int, Meta(ge=32, description="processes and threads at once")] = 256
    file_mb: Annotated[int, Meta(ge=1, description="size of one file")] = 1024
    disk_mb: Annotated[int, Meta(ge=16, description="what the workspace may hold")] = 4096
    cell_seconds: Annotated[float, Meta(gt=0, description="longest timeout of a cell")] = 600.0
    queued_cells: Annotated[int, Meta(ge=1, description="cells waiting their turn")] = 100
    recorded_mb: Annotated[int, Meta(ge=1, description="output recorded of one cell")] = 1024


class LimitsRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits other than the default; what is left out stays at the default."""

    memory_mb: Annotated[int, Meta(ge=128, le=MOST)] | None = None
    cpus: Annotated[float, Meta(ge=0.1)] | None = None
    processes: Annotated[int, Meta(ge=32, le=MOST)] | None = None
    file_mb: Annotated[int, Meta(ge=1, le=MOST)] | None = None
    disk_mb: Annotated[int, Meta(ge=16, le=MOST)] | None = None
    cell_seconds: Annotated[float, Meta(gt=0)] | None = None
    queued_cells: Annotated[int, Meta(ge=1, le=MOST)] | None = None
    recorded_mb: Annotated[int, Meta(ge=1, le=MOST)] | None = None


class Usage(Struct, frozen=True, kw_only=True):
    """What a sandbox uses now. Processor time, peak and transfers count since it started.

    A figure that nobody counts on this machine is null. Without control groups only the first
    three are known, and only of processes that still run.
    """

    cpu_seconds: float
    memory_bytes: int
    """Without the file cache that can be given back."""
    processes: int
    memory_peak_bytes: int | None = None
    """The most it held at once, file cache included, as its limit counts it."""
    read_bytes: int | None = None
    """From block devices: what came from the file cache or a file system in memory is not counted."""
    written_bytes: int | None = None
    """To block devices: a write counts when it leaves the file cache, which may be later."""


class SessionCreate(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request for a new session."""

    name: Name | None = None
    environment: Name | None = None
    labels: Annotated[dict[Name, Label], Meta(max_length=50)] = {}
    limits: LimitsRequest = LimitsRequest()


class Session(Struct, frozen=True, kw_only=True):
    """A sandbox with a live kernel, its history and its files."""

    id: str
    name: str | None
    state: SessionState
    reason: str | None
    """Why it is stopped or failed, or why its kernel was restarted last."""
    environment: str
    runtime: str
    isolation: str
    """How the code is kept apart from the host: 'bubblewrap', or 'none'."""
    warm: bool
    """Whether it was handed over from a sandbox that stood ready."""
    labels: dict[str, str]
    limits: Limits
    limits_enforced_by: str
    disk_enforced_by: str
    """Who holds it to `disk_mb`: 'filesystem', or 'nothing'."""
    usage: Usage | None
    created_at: datetime
    last_activity: datetime
    expires_at: datetime | None


class SessionList(Struct, frozen=True, kw_only=True):
    """All sessions, newest first."""

    sessions: list[Session]


class SessionDeleted(Struct, frozen=True, kw_only=True):
    """What deleting a session removed."""

    id: str
    executions: int
    workspace_bytes: int


class ExecutionCreate(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A cell to run."""

    code: str
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


class Execution(Struct, frozen=True, kw_only=True):
    """One cell: what was asked, what came of it."""

    id: str
    session_id: str
    code: str
    status: ExecutionStatus
    reason: str | None = None
    """Why it ended as `timeout`, `cancelled` or `lost`."""
    execution_count: int | None = None
    outputs: list[Output] = []
    text: str = ""
    """What a person would read: streams, results and errors as plain text."""
    error: ExecutionError | None = None
    truncated: Truncated | None = None
    queued_at: datetime
    started_at: datetime | None = None
    duration_ms: float | None = None
    usage: ExecutionUsage | None = None
    """Null until it ends, without control groups, and when the gateway was restarted meanwhile."""


class ExecutionList(Struct, frozen=True, kw_only=True):
    """The executions of a session, oldest first."""

    executions: list[Execution]


class InputReply(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The answer to an `input_request`."""

    value: Annotated[str, Meta(max_length=1_000_000)]


class EventType(enum.Enum):
    """What can happen in a session, as its event stream names it."""

    status = "status"
    stream = "stream"
    display = "display"
    update = "update"
    clear = "clear"
    error = "error"
    input_request = "input_request"
    done = "done"


class Event(Struct, frozen=True, kw_only=True):
    """Something that happened in a session. `seq` counts from 1 without gaps."""

    seq: int
    type: EventType
    execution_id: str | None
    """The cell it belongs to; None for the session itself."""
    data: dict[str, Any]


class ErrorBody(Struct, frozen=True, kw_only=True):
    """What went wrong, for programs (`code`) and people (`message`, `hint`)."""

    code: str
    message: str
    hint: str


class ErrorAnswer(Struct, frozen=True, kw_only=True):
    """The body of every answer that is not a success."""

    error: ErrorBody


class Health(Struct, frozen=True, kw_only=True):
    """Whether the gateway works, and how isolated its sessions are."""

    status: str
    version: str
    runtime: str
    isolation: str
    sessions: int


def to_json(value: Any) -> bytes:
    return msgspec.json.encode(value)
