"""One execution while it lives in memory: what was asked, how far it is, what came so far."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec

from interpreter.kernel.outputs import Fold
from interpreter.kernel.plaintext import clean_error, to_text
from interpreter.models import (
    EventType,
    Execution,
    ExecutionCreate,
    ExecutionStatus,
    ExecutionUsage,
    Truncated,
)
from interpreter.orchestrator import states


class Cell:
    """A cell that is queued, running, or finished a short while ago."""

    def __init__(
        self, id: str, session_id: str, request: ExecutionCreate, timeout: float, output_limit: int
    ) -> None:
        self.id = id
        self.session_id = session_id
        self.request = request
        self.timeout = timeout
        self.output_limit = output_limit
        self.status = ExecutionStatus.queued
        self.reason: str | None = None
        self.queued_at = datetime.now(UTC)
        self.started_at: datetime | None = None
        self.duration_ms: float | None = None
        self.metered = False
        """Whether the session's meter has been running since it was sent."""
        self.usage: ExecutionUsage | None = None
        self.execution_count: int | None = None
        self.fold = Fold(output_limit)
        self.recorded_bytes = 0
        self.muted = False
        """Whether further output is left out, because the cell printed more than it may."""
        self.reply: str | None = None
        """The status of the kernel's reply, once it is there."""
        self.idle = False
        self.noted = False
        """Whether the store knows of a reply without idle, or the other way round."""
        self.verdict: tuple[ExecutionStatus, str] | None = None
        """How the cell is to end whatever the kernel says: it timed out or was cancelled."""
        self.awaits_input = False
        self.saved: asyncio.Future[None] | None = None
        """The last save of it to the store."""
        self.timers: list[asyncio.TimerHandle] = []
        self.done: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        """Completes with the finished execution as JSON."""
        self.answer: Callable[[bytes], None] = lambda execution: None
        """Called with the same at once, before it is recorded: its caller waits for nothing else."""
        self._clock = 0.0

    @classmethod
    def restore(
        cls, execution: Execution, facts: dict[str, Any], timeout: float, output_limit: int
    ) -> Cell:
        """A cell that an earlier gateway left queued or running; its events are replayed into it."""
        request = msgspec.convert({**facts, "code": execution.code}, ExecutionCreate)
        cell = cls(execution.id, execution.session_id, request, timeout, output_limit)
        cell.status = execution.status
        cell.queued_at, cell.started_at = execution.queued_at, execution.started_at
        return cell

    def remaining(self) -> float:
        """Seconds until the timeout of a cell that was started by an earlier gateway."""
        assert self.started_at is not None
        return max(0.0, self.timeout - (datetime.now(UTC) - self.started_at).total_seconds())

    @property
    def untouched(self) -> bool:
        """Whether there is no sign that the kernel ever saw the cell."""
        return self.reply is None and not self.idle

    def start(self) -> None:
        self.status = states.change(states.EXECUTION, self.status, ExecutionStatus.running)
        self.started_at = datetime.now(UTC)
        self._clock = time.monotonic()

    def finish(self, status: ExecutionStatus, reason: str | None) -> None:
        self.status = states.change(states.EXECUTION, self.status, status)
        self.reason = reason
        if self._clock:
            self.duration_ms = round((time.monotonic() - self._clock) * 1000, 3)
        elif self.started_at is not None:
            # It was started by an earlier gateway, whose clock is not this one's.
            elapsed = (datetime.now(UTC) - self.started_at).total_seconds()
            self.duration_ms = max(0.0, round(elapsed * 1000, 3))
        self.cancel_timers()

    def cancel_timers(self) -> None:
        for timer in self.timers:
            timer.cancel()
        self.timers.clear()

    def replay(self, type: EventType, data: dict[str, Any]) -> None:
        """Takes in an event that was stored before."""
        if type is EventType.status:
            self.reply = data.get("reply", self.reply)
            self.idle = data.get("idle", self.idle)
            self.execution_count = data.get("execution_count", self.execution_count)
        else:
            self.fold.apply(type, data)

    def model(self) -> Execution:
        outputs = self.fold.outputs()
        truncated = None
        if self.fold.cut_bytes:
            truncated = Truncated(
                total_bytes=self.fold.total_bytes,
                kept_bytes=self.fold.kept_bytes,
                url=f"/v1/sessions/{self.session_id}/executions/{self.id}/output",
            )
        return Execution(
            id=self.id,
            session_id=self.session_id,
            code=self.request.code,
            status=self.status,
            reason=self.reason,
            execution_count=self.execution_count,
            outputs=outputs,
            text=to_text(outputs),
            error=clean_error(self.fold.error) if self.fold.error else None,
            truncated=truncated,
            queued_at=self.queued_at,
            started_at=self.started_at,
            duration_ms=self.duration_ms,
            usage=self.usage,
        )


def request_facts(request: ExecutionCreate) -> dict[str, Any]:
    """What must be remembered of a request besides its code, to run it after a restart."""
    facts: dict[str, Any] = msgspec.to_builtins(request)
    del facts["code"]
    return facts
