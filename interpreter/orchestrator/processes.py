"""The processes of one sandbox: the kernel host lists and ends them, the gateway believes little.

The kernel host knows which execution has started which process; whether that execution has ended
is known here. What comes back is checked entry by entry: one that makes no sense is left out,
text is cut and cleaned, and a sandbox that does not answer is given up on.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import re
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from interpreter.errors import ProcessNotFound, SandboxFailed, WrongState
from interpreter.link.connection import Link
from interpreter.models import MOST
from interpreter.models.processes import Process, ProcessesEnded, ProcessList, ProcessState

MOST_PROCESSES = 4096
NAME_LENGTH = 64
COMMAND_LENGTH = 400
ANSWER_SECONDS = 30.0
"""A fork bomb leaves the kernel host little time to answer in."""
END_OF_TIME = 2.0**32
EXECUTION = re.compile(r"[ec]-[0-9a-f]{16}")
KERNEL = re.compile(r"[\w.-]{1,64}", re.ASCII)
STATES = {
    "R": ProcessState.running,
    "S": ProcessState.sleeping,
    "I": ProcessState.sleeping,
    "D": ProcessState.waiting,
    "T": ProcessState.stopped,
    "t": ProcessState.stopped,
    "Z": ProcessState.zombie,
    "X": ProcessState.zombie,
}

HIGHEST_PID = 2**22


class _Said(Struct):
    """A process as the kernel host tells of it."""

    pid: Annotated[int, Meta(ge=1, le=HIGHEST_PID)]
    parent: Annotated[int, Meta(ge=0, le=HIGHEST_PID)]
    name: str
    command: str
    state: str
    cpu_seconds: float
    memory_bytes: Annotated[int, Meta(ge=0, le=MOST)]
    started_at: float
    execution_id: str | None
    kernel: str | None
    is_kernel: bool


class SandboxProcesses:
    """What runs in the sandbox at the other end of a link. `finished` tells of an execution id
    whether that execution has ended."""

    def __init__(self, link: Link, finished: Callable[[str], bool]) -> None:
        self._link = link
        self._finished = finished

    async def all(self) -> ProcessList:
        found: dict[int, Process] = {}
        last, more = 0, True
        async with patience():
            while more and len(found) < MOST_PROCESSES:
                answer = await self._ask("processes", after=last)
                page = [p for p in self._read(answer.get("processes")) if p.pid > last]
                found |= {process.pid: process for process in page}
                more = answer.get("more") is True and bool(page)
                last = max(found, default=0)
        processes = sorted(found.values(), key=lambda process: process.pid)
        return ProcessList(processes=processes[:MOST_PROCESSES], more=more)

    async def end(self, pid: int) -> ProcessesEnded:
        """Ends one process; a kernel is not ended this way."""
        async with patience():
            answer = await self._ask("end", pid=pid)
        if answer.get("refused") == "kernel":
            raise WrongState(f"Process {pid} is a kernel.", "Restart the session to end its kernel.")
        if "refused" in answer:
            raise ProcessNotFound(f"This session has no process {pid}.")
        return self._ended(answer)

    async def end_orphans(self) -> ProcessesEnded:
        """Ends all processes of executions that have ended."""
        listed = await self.all()
        executions = {p.execution_id for p in listed.processes if p.orphan}
        if not executions:
            return ProcessesEnded(ended=[])
        async with patience():
            answer = await self._ask("end", executions=sorted(filter(None, executions)))
        return self._ended(answer)

    async def _ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        answer = await self._link.command(do, **arguments)
        if "error" in answer:
            raise SandboxFailed(f"The sandbox could not tell: {clean(str(answer['error']), 200)}")
        return answer

    def _ended(self, answer: dict[str, Any]) -> ProcessesEnded:
        said = answer.get("left")
        left = [pid for pid in said if type(pid) is int and 0 < pid < MOST] if type(said) is list else []
        more = answer.get("more") is True
        ended = self._read(answer.get("ended"))
        return ProcessesEnded(ended=ended, left=left[:MOST_PROCESSES], more=more)

    def _read(self, said: Any) -> list[Process]:
        entries = said[:MOST_PROCESSES] if type(said) is list else []
        return [process for entry in entries if (process := self._process(entry))]

    def _process(self, entry: Any) -> Process | None:
        try:
            said = msgspec.convert(entry, _Said)
        except msgspec.ValidationError:
            return None
        if not (_sane(said.cpu_seconds) and _sane(said.started_at)):
            return None
        execution = said.execution_id
        if execution is not None and not EXECUTION.fullmatch(execution):
            execution = None
        state = STATES.get(said.state, ProcessState.other)
        ended = execution is not None and self._finished(execution)
        return Process(
            pid=said.pid,
            parent=said.parent,
            name=clean(said.name, NAME_LENGTH),
            command=clean(said.command, COMMAND_LENGTH),
            state=state,
            cpu_seconds=said.cpu_seconds,
            memory_bytes=said.memory_bytes,
            started_at=datetime.fromtimestamp(said.started_at, UTC),
            execution_id=execution,
            orphan=ended and state is not ProcessState.zombie,
            kernel=said.kernel if said.kernel and KERNEL.fullmatch(said.kernel) else None,
            is_kernel=said.is_kernel,
        )


@contextlib.asynccontextmanager
async def patience() -> AsyncIterator[None]:
    """For how long a sandbox is waited for, and what is said when it does not answer."""
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            yield
    except TimeoutError:
        raise SandboxFailed("The sandbox does not answer.") from None
    except ConnectionError as e:
        raise SandboxFailed(f"The sandbox is gone: {e}.") from e


def _sane(number: float) -> bool:
    return math.isfinite(number) and 0 <= number < END_OF_TIME


def clean(text: str, limit: int) -> str:
    """Text that a sandbox chose, on one line and without anything that a terminal would obey."""
    cut = text if len(text) <= limit else text[: limit - 1] + "…"
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in cut)
