"""Sessions and their contexts."""

from __future__ import annotations

import enum
from datetime import datetime
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from interpreter.models.basics import ContextName, Label, Name, Owner, WorkspaceName
from interpreter.models.datasets import Inputs
from interpreter.models.limits import Limits, LimitsRequest, OnIdle, Remaining, Usage
from interpreter.models.notebooks import GivenNotebook, Replay

Labels = Annotated[dict[Name, Label], Meta(max_length=50)]
Variables = Annotated[
    dict[
        Annotated[str, Meta(pattern="^[A-Za-z_][A-Za-z0-9_]{0,99}$")],
        Annotated[str, Meta(max_length=4000, pattern="^[^\\x00]*$")],
    ],
    Meta(max_length=50),
]


class SessionState(enum.Enum):
    """Where a session is in its life. `orchestrator.states` says which change is allowed."""

    creating = "creating"
    ready = "ready"
    busy = "busy"
    paused = "paused"
    stopped = "stopped"
    failed = "failed"


class SessionCreate(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request for a new session."""

    name: Name | None = None
    environment: Name | None = None
    labels: Labels = {}
    limits: LimitsRequest = LimitsRequest()
    env: Variables = {}
    """Environment variables of its kernels."""
    inputs: Inputs = []
    """Datasets that it sees, read-only, at `/data/input`."""
    workspace: WorkspaceName | None = None
    """A named workspace to have at `/workspace`; one of its own when left out."""
    workspace_read_only: bool = False
    """Whether it only reads the named workspace, beside others."""
    owner: Owner | None = None
    """Whose quota its own files count for; nobody's when left out."""
    on_idle: OnIdle | None = None
    """What happens after `idle_seconds` without use; the gateway's setting when left out."""
    wait: bool = True
    """False answers at once, with a session that is `creating`."""
    notebook: GivenNotebook | None = None
    """A notebook whose code cells are run in it, one after another, before anything else."""
    keep_going: bool = False
    """Whether the notebook goes on after a cell that raises an error or takes too long."""
    cell_timeout: Annotated[float, Meta(gt=0)] | None = None
    """Seconds each cell of the notebook may run; the session's `cell_seconds` when left out."""


class SessionUpdate(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to change of a session; what is left out stays as it is."""

    name: Name | UnsetType | None = UNSET
    labels: Labels | UnsetType = UNSET
    limits: LimitsRequest = LimitsRequest()
    on_idle: OnIdle | UnsetType = UNSET


class ContextCreate(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request for another kernel in a session."""

    name: ContextName | None = None
    """Made up when left out."""


class Context(Struct, frozen=True, kw_only=True):
    """A kernel of a session: memory of its own, files shared with the others."""

    name: str
    busy: bool
    created_at: datetime


class ContextList(Struct, frozen=True, kw_only=True):
    """The contexts of a session; the first one is `default`."""

    contexts: list[Context]


class Running(Struct, frozen=True, kw_only=True):
    """What runs in a session at the moment."""

    execution_id: str
    line: str
    """The first line of it that is not empty; at most 200 characters."""
    by: str | None = None
    started_at: datetime | None = None
    timeout: float
    """Seconds it may run."""
    remaining_seconds: float | None = None
    """What is left of that, standing still while the session is paused; null when it is about to end."""


class Session(Struct, frozen=True, kw_only=True):
    """A sandbox with live kernels, its history and its files."""

    id: str
    name: str | None
    state: SessionState
    reason: str | None
    """Why it is stopped or failed, or why a kernel was restarted last."""
    environment: str
    runtime: str
    isolation: str
    """How the code is kept apart from the host: 'docker', 'bubblewrap', or 'none'."""
    warm: bool
    """Whether it was handed over from a sandbox that stood ready."""
    cold_because: str | None = None
    """Why it was not."""
    queue_position: int | None = None
    """How many are before it, and it itself, while it waits for room to be created."""
    queue_deadline: datetime | None = None
    """When it fails if there is no room by then; null when it does not wait for any."""
    labels: dict[str, str]
    limits: Limits
    limits_enforced_by: str
    disk_enforced_by: str
    """Who holds it to `disk_mb`: 'filesystem', or 'nothing'."""
    workspace: str | None = None
    """The named workspace that it has at `/workspace`; null when its files are its own."""
    workspace_read_only: bool = False
    owner: str | None = None
    usage: Usage | None
    on_idle: OnIdle = "pause"
    remaining: Remaining
    contexts: list[str]
    running: list[Running] = []
    """The cells that run, one in each context at most, and the commands."""
    inputs: list[str] = []
    """The datasets that it sees at `/data/input`."""
    replay: Replay | None = None
    """How far it is with the notebook that it was created with."""
    created_at: datetime
    last_activity: datetime
    expires_at: datetime | None
    """When it is stopped if nobody uses it until then; files and history stay."""


class SessionList(Struct, frozen=True, kw_only=True):
    """Sessions, newest first."""

    sessions: list[Session]
    next: str | None = None
    """What `after` has to be to get those that did not fit; null when there are none."""


class SessionDeleted(Struct, frozen=True, kw_only=True):
    """What deleting a session removed."""

    id: str
    executions: int
    events: int
    workspace_bytes: int
    sandbox: bool
    """Whether there was a sandbox to end."""
