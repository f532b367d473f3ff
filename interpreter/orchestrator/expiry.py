"""When a session's time is over: how long it may live, and how long nobody may use it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from interpreter.models import Remaining, SessionState
from interpreter.orchestrator.clock import tick
from interpreter.store import SessionRecord

LONGEST_WARNING = 60.0


def warning_span(seconds: float) -> float:
    """How long before the end of such a span it is warned of."""
    return min(LONGEST_WARNING, seconds / 10)


def lifetime_left(record: SessionRecord) -> float:
    return record.limits.lifetime_seconds - (tick() - record.started_tick)


def idle_left(record: SessionRecord, active_tick: float) -> float | None:
    """None when nothing would happen, or it is not waiting for anyone."""
    if record.on_idle == "nothing" or record.state != SessionState.ready.value:
        return None
    return record.limits.idle_seconds - (tick() - active_tick)


def remaining(record: SessionRecord, active_tick: float, executions: int) -> Remaining:
    left = record.limits.executions - executions
    if record.handle is None:
        return Remaining(executions=left)
    idle = idle_left(record, active_tick)
    return Remaining(
        executions=left,
        lifetime_seconds=round(max(0.0, lifetime_left(record)), 3),
        idle_seconds=None if idle is None else round(max(0.0, idle), 3),
    )


def expires_at(record: SessionRecord, active_tick: float) -> datetime | None:
    """When it is stopped if nobody uses it until then."""
    if record.handle is None:
        return None
    seconds = lifetime_left(record)
    idle = idle_left(record, active_tick)
    if record.on_idle == "stop" and idle is not None:
        seconds = min(seconds, idle)
    return datetime.now(UTC) + timedelta(seconds=max(0.0, seconds))
