"""The values that go in and out of the store and are not already in `interpreter.models`."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from interpreter.models import Limits, OnIdle, Replay
from interpreter.models.notebooks import Language


class EventRow(NamedTuple):
    """One event of a session. The store never looks into `data`."""

    seq: int
    type: str
    execution_id: str | None
    data: bytes
    """JSON, encoded once by the caller and served as it is."""


class ReplayRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A notebook that is being replayed, or was."""

    progress: Replay
    keep_going: bool
    timeout: float | None
    event: int
    """The number of the event that has its cells."""


class SessionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What has to be known of a session to go on with it after the gateway was restarted."""

    id: str
    name: str | None
    state: str
    reason: str | None
    environment: str
    runtime: str
    isolation: str
    warm: bool
    labels: dict[str, str]
    limits: Limits
    limits_enforced_by: str
    created_at: datetime
    last_activity: datetime
    expires_at: datetime | None
    handle: dict[str, Any] | None
    """What the runtime needs to find the sandbox again; None when there is no sandbox."""
    sandbox_id: str | None = None
    disk_enforced_by: str = "nothing"
    workspace_id: str | None = None
    cold_because: str | None = None
    env: dict[str, str] = {}
    on_idle: OnIdle = "pause"
    starts: int = 1
    """How many sandboxes it has had."""
    started_tick: float = 0.0
    """When its sandbox was started, on the clock that only a reboot sets back."""
    contexts: dict[str, datetime] = {}
    """Its kernels by name, and when each was made."""
    terminals: dict[str, str | None] = {}
    """Its terminals by name, and why those that are over are."""
    inputs: dict[str, str] = {}
    """The datasets that it sees: name → version."""
    workspace: str | None = None
    """The name of the named workspace that it uses; `workspace_id` says which one that is."""
    workspace_read_only: bool = False
    owner: str | None = None
    """Whose quota its own files count for."""
    language: Language | None = None
    """Of its first kernel's cells; None before it had one."""
    replay: ReplayRecord | None = None
    """The notebook that it was created with."""

    @property
    def owns_workspace(self) -> bool:
        """Whether its files go with it."""
        return self.workspace is None


class WorkspaceRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A named workspace."""

    id: str
    """Of its files, which no other workspace ever has."""
    name: str
    owner: str
    disk_mb: int
    disk_enforced_by: str
    created_at: datetime
    last_used: datetime
    bytes: int | None = None
    """What its files took when it was last used; None where that is not known."""


class Input(msgspec.Struct, frozen=True):
    """What was asked of a kernel."""

    execution_id: str
    code: str
    execution_count: int
