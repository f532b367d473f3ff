"""What an editor asks of a session's kernel."""

from __future__ import annotations

from typing import Any

from interpreter.errors import (
    CodeTooLong,
    ContextNotFound,
    KernelBusy,
    SandboxFailed,
    SessionNotFound,
    WrongState,
)
from interpreter.gateway.handler import ApiHandler
from interpreter.gateway.operation import Operation
from interpreter.models.questions import CompleteRequest, Completion, Inspection, InspectRequest

ERRORS = (SessionNotFound, ContextNotFound, WrongState, KernelBusy, CodeTooLong, SandboxFailed)


async def complete_code(call: ApiHandler) -> Any:
    request = call.body(CompleteRequest)
    session = call.orchestrator.get(call.path["session_id"])
    return await call.orchestrator.questions.complete(session, request)


async def inspect_code(call: ApiHandler) -> Any:
    request = call.body(InspectRequest)
    session = call.orchestrator.get(call.path["session_id"])
    return await call.orchestrator.questions.inspect(session, request)


SESSION = "/v1/sessions/{session_id}"

OPERATIONS = [
    Operation(
        "POST",
        SESSION + "/complete",
        "What could follow in some code, as the kernel knows it",
        complete_code,
        body=CompleteRequest,
        answers={200: Completion},
        errors=ERRORS,
    ),
    Operation(
        "POST",
        SESSION + "/inspect",
        "What something in some code is, as the kernel knows it",
        inspect_code,
        body=InspectRequest,
        answers={200: Inspection},
        errors=ERRORS,
    ),
]
