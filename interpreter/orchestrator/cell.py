"""One execution while it lives in memory: what was asked, how far it is, what came so far."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from interpreter.config import Config
from interpreter.kernel.outputs import Fold
from interpreter.kernel.plaintext import clean_error, to_text
from interpreter.models import (
    EventType,
    Execution,
    ExecutionCreate,
    ExecutionStatus,
    ExecutionUsage,
    FileChange,
    InputRequest,
    Running,
    Truncated,
)
from interpreter.orchestrator import states
from interpreter.orchestrator.clock import tick
from interpreter.orchestrator.time_limit import TimeLimit
from interpreter.store import Ending, File
from interpreter.workspace import Recording


class Sent(msgspec.Struct, frozen=True):
    """Of a cell whose sender sends many at once, and wants none of the rest run when one fails."""

    by: str
    at: datetime | None = None
    """By the sender's own clock."""
    stops: bool = True
    """Whether its failing takes with it what was sent before that could be known."""
    header: str | None = None
    """Of the request, as JSON; None if its sender sends it again to a gateway that was started again."""


LINE = 200
LONG = 10_000
"""How far into a cell its first line is looked for."""


class Cell:
    """A cell that is queued, running, or finished a short while ago."""

    def __init__(
        self, id: str, session_id: str, request: ExecutionCreate, timeout: float, output_limit: int
    ) -> None:
        self.id = id
        self.session_id = session_id
        self.request = request
        self.silent = False
        """Whether the kernel is to say as little of it as it can, as Jupyter means it."""
        self.expressions: Mapping[str, Any] = {}
        """What the kernel is to evaluate after it, for the reply that Jupyter's clients get."""
        self.of_notebook = False
        """Whether it is of the notebook that its session was created with."""
        self.notebook_cell: str | None = None
        """The id of the cell of a notebook that it was run from, if a Jupyter client said so."""
        self.sent: Sent | None = None
        self.told_at: datetime | None = None
        """When its sender could first know how it ends."""
        self.timeout = timeout
        self.output_limit = output_limit
        self.status = ExecutionStatus.queued
        self.reason: str | None = None
        self.queued_at = datetime.now(UTC)
        self.started_at: datetime | None = None
        self.duration_ms: float | None = None
        self.metered = False
        """Whether the session's meter has been running since it was sent."""
        self.alone = True
        """Whether no other context ran a cell meanwhile."""
        self.usage: ExecutionUsage | None = None
        self.recording: Recording | None = None
        """What is noted of the workspace while it runs."""
        self.files: list[FileChange] | None = None
        self.files_left_out = 0
        self.measured: Ending | None = None
        """What was measured of it by an earlier gateway, which may have answered it."""
        self.ending = False
        """Whether it is over, and at most what it changed is still to be found out."""
        self.execution_count: int | None = None
        self.fold = Fold(output_limit)
        self.recorded_bytes = 0
        self.muted = False
        """Whether further output is left out, because the cell printed more than it may."""
        self.seen = False
        """Whether the kernel has said anything of it."""
        self.reply: str | None = None
        """The status of the kernel's reply, once it is there."""
        self.idle = False
        self.noted = False
        """Whether the store knows of a reply without idle, or the other way round."""
        self.verdict: tuple[ExecutionStatus, str] | None = None
        """How the cell is to end whatever the kernel says: it timed out or was cancelled."""
        self.input_request: InputRequest | None = None
        """What it waits to be told."""
        self.saved: asyncio.Future[None] | None = None
        """The last save of it to the store."""
        self.written: File | None = None
        """Where it, or what was measured of it, was written down last."""
        self.interrupted = False
        """Whether its kernel was told to, to end it."""
        self.grace: asyncio.TimerHandle | None = None
        """When it is ended with its kernel, if it does not yield."""
        self.timers: list[asyncio.TimerHandle] = []
        self.time_limit: TimeLimit | None = None
        self.done: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        """Completes with the finished execution as JSON."""
        self.answers: list[Callable[[bytes], None]] = []
        """Called with the same at once, before it is recorded: callers wait for nothing else."""
        self.started_tick: float | None = None
        self.paused_tick: float | None = None
        """When its sandbox was frozen; None while it is not."""
        self.paused_seconds = 0.0
        """How long it was frozen before."""

    @classmethod
    def restore(cls, execution: Execution, facts: dict[str, Any], config: Config) -> Cell:
        """A cell that an earlier gateway left queued or running; its events are replayed into it."""
        known = {"code": execution.code, "context": execution.context}
        sent = facts.pop("sent", None)
        request = msgspec.convert({**facts, **known}, ExecutionCreate)
        timeout = execution.timeout or request.timeout or config.cell_timeout
        limit = request.max_output_bytes or config.max_output_bytes
        cell = cls(execution.id, execution.session_id, request, timeout, limit)
        cell.status = execution.status
        cell.notebook_cell = execution.cell_id
        cell.silent = execution.silent
        cell.sent = None if sent is None else msgspec.convert(sent, Sent)
        cell.queued_at, cell.started_at = execution.queued_at, execution.started_at
        return cell

    @property
    def code(self) -> str:
        return self.request.code

    @property
    def context(self) -> str:
        return self.request.context

    def tells_how_it_ends(self) -> None:
        """The kernel begins to say how it ended, and so its sender begins to know."""
        self.told_at = self.told_at or datetime.now(UTC)

    def was_sent_unaware_until(self) -> datetime | None:
        """The moment, by its sender's clock, before which that could not know of its end."""
        if self.sent is None or self.sent.at is None:
            return None
        return self.sent.at + ((self.told_at or datetime.now(UTC)) - self.queued_at)

    @property
    def awaits_input(self) -> bool:
        return self.input_request is not None

    def remaining(self) -> float:
        """Seconds until the timeout of a cell that was started by an earlier gateway."""
        if self.started_tick is None:
            return self.timeout
        return max(0.0, self.timeout - (tick() - self.started_tick - self.paused_seconds))

    def start(self) -> None:
        self.status = states.change(states.EXECUTION, self.status, ExecutionStatus.running)
        self.started_at = datetime.now(UTC)
        self.started_tick = tick()

    def hold(self) -> dict[str, Any]:
        """Its sandbox is frozen. Returns what has to be remembered of that."""
        self.paused_tick = tick()
        return {"paused_tick": self.paused_tick}

    def go_on(self) -> dict[str, Any]:
        if self.paused_tick is not None:
            self.paused_seconds += tick() - self.paused_tick
        self.paused_tick = None
        return {"paused_tick": None, "paused_seconds": self.paused_seconds}

    def end(self) -> None:
        """It is over; how is told in a moment."""
        self.ending = True
        if self.started_tick is not None:
            self.duration_ms = round((tick() - self.started_tick) * 1000, 3)
        if self.measured is not None:
            known = self.measured
            self.started_at, self.duration_ms, self.usage = (
                known.started_at,
                known.duration_ms,
                known.usage,
            )
            self.files, self.files_left_out = known.files, known.files_left_out
        self.cancel_timers()
        self.time_limit = None

    def measurements(self) -> Ending:
        """What nobody could find out again."""
        return Ending(
            session_id=self.session_id,
            execution_id=self.id,
            started_at=self.started_at,
            duration_ms=self.duration_ms,
            usage=self.usage,
            files=self.files,
            files_left_out=self.files_left_out,
        )

    def finish(self, status: ExecutionStatus, reason: str | None) -> None:
        self.status = states.change(states.EXECUTION, self.status, status)
        self.reason = reason

    def cancel_timers(self) -> None:
        for timer in self.timers:
            timer.cancel()
        self.timers.clear()
        if self.grace is not None:
            self.grace.cancel()
        if self.time_limit is not None:
            self.time_limit.cancel()

    @property
    def untold(self) -> bool:
        """Whether it has ended and nobody may know yet, because that is not stored."""
        return self.status.final and not self.done.done()

    def tell(self, encoded: bytes) -> None:
        """Answers everyone who waits for its end."""
        for answer in self.answers:
            answer(encoded)
        self.done.set_result(encoded)

    def replay(self, type: EventType, data: dict[str, Any]) -> None:
        """Takes in an event that was stored before."""
        if type is EventType.status:
            self.reply = data.get("reply", self.reply)
            self.idle = data.get("idle", self.idle)
            self.execution_count = data.get("execution_count", self.execution_count)
            self.started_tick = data.get("tick", self.started_tick)
            self.paused_tick = data.get("paused_tick", self.paused_tick)
            self.paused_seconds = data.get("paused_seconds", self.paused_seconds)
            if "answered" in data:
                self.input_request = None
            if "measured" in data:
                self.measured = msgspec.convert(data["measured"], Ending)
            if "verdict" in data:
                self.verdict = (ExecutionStatus(data["verdict"]), data["reason"])
        elif type is EventType.input_request:
            self.input_request = msgspec.convert(data, InputRequest)
        else:
            self.fold.apply(type, data)

    def model(self) -> Execution:
        execution = Execution(
            id=self.id,
            session_id=self.session_id,
            code=self.request.code,
            context=self.context,
            by=self.request.by,
            status=self.status,
            reason=self.reason,
            execution_count=self.execution_count,
            cell_id=self.notebook_cell,
            silent=self.silent,
            input_request=None if self.ending else self.input_request,
            queued_at=self.queued_at,
            started_at=self.started_at,
            timeout=self.timeout,
            duration_ms=self.duration_ms,
            usage=self.usage,
            files=self.files,
            files_left_out=self.files_left_out,
        )
        return with_outputs(execution, self.fold)

    def running(self) -> Running:
        lines = (line.strip() for line in self.code[:LONG].splitlines())
        return Running(
            execution_id=self.id,
            line=next((line[:LINE] for line in lines if line), ""),
            by=self.request.by,
            started_at=self.started_at,
            timeout=self.timeout,
            remaining_seconds=None if self.time_limit is None else round(self.time_limit.left, 3),
        )


def request_facts(request: ExecutionCreate, sent: Sent | None = None) -> dict[str, Any]:
    """What must be remembered of a request besides its code, to run it after a restart."""
    facts: dict[str, Any] = msgspec.to_builtins(request)
    del facts["code"]
    return facts if sent is None else facts | {"sent": msgspec.to_builtins(sent)}


def with_outputs(execution: Execution, fold: Fold) -> Execution:
    """An execution with what it has shown by now, and whether that is all of it."""
    outputs = fold.outputs()
    truncated = None
    if fold.cut_bytes:
        truncated = Truncated(
            total_bytes=fold.total_bytes,
            kept_bytes=fold.kept_bytes,
            url=f"/v1/sessions/{execution.session_id}/executions/{execution.id}/output",
        )
    return msgspec.structs.replace(
        execution,
        outputs=outputs,
        text=to_text(outputs),
        error=clean_error(fold.error) if fold.error else None,
        truncated=truncated,
    )
