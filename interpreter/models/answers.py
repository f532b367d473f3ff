"""What the gateway says of itself, and when something went wrong."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec import Struct

from interpreter.models.limits import Limits


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
    """'ok', or 'degraded' when something does not work."""
    problems: list[str] = []
    """What that is, and what to do about it."""
    version: str
    runtime: str
    isolation: str
    sessions: int


class PoolStatus(Struct, frozen=True, kw_only=True):
    """The sandboxes of one environment that stand ready."""

    environment: str
    ready: int
    being_made: int
    target: int
    """How many there should be, from how many were wanted at once lately."""
    min: int
    max: int


class GatewayStatus(Struct, frozen=True, kw_only=True):
    """How full the gateway is."""

    sessions: dict[str, int]
    """How many sessions are in each state."""
    max_sessions: int
    queued: int
    """Requests for a session that wait for room."""
    creating: int
    memory_reserved_mb: int
    memory_limit_mb: int
    cpus_reserved: float
    cpus_limit: float
    draining: bool
    limits: Limits
    """What a session may use that asks for nothing else."""
    pools: list[PoolStatus]


class AuditEntry(Struct, frozen=True, kw_only=True):
    """Something that was done with the gateway, or that became of a session."""

    number: int
    time: datetime
    action: str
    """Such as `session.stopped`."""
    session_id: str | None
    """It may be deleted by now."""
    detail: dict[str, Any]
    """Of a session that changed: what it was (`from`), and the `cause`."""


class AuditLog(Struct, frozen=True, kw_only=True):
    """Entries of the audit log, oldest first."""

    entries: list[AuditEntry]
