"""One command while it lives in memory. It is an execution like a cell, of no context."""

from __future__ import annotations

import shlex
import signal
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from interpreter.config import Config
from interpreter.models import EventType, Execution, ExecutionCreate, ExecutionStatus
from interpreter.models.commands import CommandCreate
from interpreter.orchestrator.cell import Cell
from interpreter.orchestrator.processes import clean
from interpreter.runtimes.base import Meter

PREFIX = "c-"
"""Of the ids of commands."""
LONGEST_PROBLEM = 300


class Exit(Struct, frozen=True):
    """How a command ended, as the sandbox says."""

    exit_code: Annotated[int, Meta(ge=0, le=255)] | None = None
    signal: Annotated[int, Meta(ge=1, le=64)] | None = None
    problem: str | None = None
    """Why it was never started."""

    @classmethod
    def read(cls, said: Any) -> Exit:
        try:
            return msgspec.convert(said, cls)
        except msgspec.ValidationError:
            return cls()

    @property
    def code(self) -> int | None:
        """As shells say it."""
        return self.exit_code if self.signal is None else 128 + self.signal

    @property
    def status(self) -> ExecutionStatus:
        return ExecutionStatus.ok if self.code == 0 else ExecutionStatus.error

    @property
    def reason(self) -> str | None:
        if self.problem is not None:
            return f"it could not be started: {clean(self.problem, LONGEST_PROBLEM)}"
        if self.signal is not None:
            try:
                return f"it was ended by {signal.Signals(self.signal).name}"
            except ValueError:
                return f"it was ended by signal {self.signal}"
        return "how it ended is not known" if self.exit_code is None else None


class Command(Cell):
    """A command that is about to be started, runs, or ended a short while ago."""

    def __init__(
        self, id: str, session_id: str, asked: CommandCreate, timeout: float, output_limit: int
    ) -> None:
        request = ExecutionCreate(code=shown(asked), by=asked.by)
        super().__init__(id, session_id, request, timeout, output_limit)
        self.asked = asked
        self.stream: int | None = None
        """Of the link, once it is open."""
        self.meter: Meter | None = None
        self.exit: Exit | None = None

    @classmethod
    def restore(cls, execution: Execution, facts: dict[str, Any], config: Config) -> Command:
        asked = msgspec.convert(facts, CommandCreate)
        timeout = execution.timeout or asked.timeout or config.cell_timeout
        limit = asked.max_output_bytes or config.max_output_bytes
        command = cls(execution.id, execution.session_id, asked, timeout, limit)
        command.status = execution.status
        command.queued_at, command.started_at = execution.queued_at, execution.started_at
        return command

    def replay(self, type: EventType, data: dict[str, Any]) -> None:
        if type is EventType.status and "exit" in data:
            self.exit = Exit.read(data["exit"])
        super().replay(type, data)

    def measure(self) -> None:
        """It has ended: finds out what was used meanwhile."""
        if self.meter is not None:
            usage = self.meter.end()
            self.meter.close()
            self.meter = None
            if usage is not None and not self.alone:
                usage = replace(usage, memory_peak_bytes=None)
            self.usage = usage

    def model(self) -> Execution:
        code = None if self.exit is None else self.exit.code
        return replace(super().model(), context=None, exit_code=code)


def shown(asked: CommandCreate) -> str:
    """A command as a line that one could type."""
    return shlex.join(asked.argv) if asked.argv is not None else asked.command or ""


def is_command(execution_id: str) -> bool:
    return execution_id.startswith(PREFIX)
