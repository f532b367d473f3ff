"""The operations on the processes of a session."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from interpreter.errors import ProcessNotFound, SandboxFailed, SessionNotFound, WrongState
from interpreter.gateway.handler import ApiHandler
from interpreter.gateway.operation import Operation
from interpreter.models.processes import ProcessesEnded, ProcessList
from interpreter.orchestrator.processes import SandboxProcesses


class Which(Struct, forbid_unknown_fields=True):
    """Which processes to end: those of executions that have ended."""

    orphans: Literal["true"]


async def _processes(call: ApiHandler) -> SandboxProcesses:
    return await call.orchestrator.get(call.path["session_id"]).processes()


async def list_processes(call: ApiHandler) -> Any:
    return await (await _processes(call)).all()


async def end_process(call: ApiHandler) -> Any:
    processes = await _processes(call)
    pid = call.path["pid"]
    if not (pid.isascii() and pid.isdecimal() and len(pid) < 10):
        raise ProcessNotFound(f"'{pid[:100]}' is not the number of a process.")
    return await processes.end(int(pid))


async def end_orphans(call: ApiHandler) -> Any:
    call.query(Which)
    return await (await _processes(call)).end_orphans()


ALL = "/v1/sessions/{session_id}/processes"

OPERATIONS = [
    Operation(
        "GET",
        ALL,
        "List the processes of a session, each with the execution that started it",
        list_processes,
        answers={200: ProcessList},
        errors=(SessionNotFound, WrongState, SandboxFailed),
    ),
    Operation(
        "DELETE",
        ALL,
        "End the processes that finished executions have left",
        end_orphans,
        query=Which,
        answers={200: ProcessesEnded},
        errors=(SessionNotFound, WrongState, SandboxFailed),
    ),
    Operation(
        "DELETE",
        ALL + "/{pid}",
        "End a process: SIGTERM, and SIGKILL a second later",
        end_process,
        answers={200: ProcessesEnded},
        errors=(SessionNotFound, ProcessNotFound, WrongState, SandboxFailed),
    ),
]
