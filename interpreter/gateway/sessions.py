"""The operations on sessions."""

from __future__ import annotations

from typing import Any

from interpreter.errors import (
    LimitTooHigh,
    SandboxFailed,
    SessionNotFound,
    TooManySessions,
    UnknownEnvironment,
    WrongState,
)
from interpreter.gateway.handler import ApiHandler
from interpreter.gateway.operation import Operation
from interpreter.models import Session, SessionCreate, SessionDeleted, SessionList


async def create_session(call: ApiHandler) -> Any:
    session = await call.orchestrator.create(call.body(SessionCreate))
    call.set_header("Location", f"/v1/sessions/{session.id}")
    return await session.model()


async def list_sessions(call: ApiHandler) -> Any:
    return SessionList(sessions=await call.orchestrator.sessions())


async def read_session(call: ApiHandler) -> Any:
    return await call.orchestrator.session(call.path["session_id"])


async def delete_session(call: ApiHandler) -> Any:
    return await call.orchestrator.delete(call.path["session_id"])


async def interrupt_session(call: ApiHandler) -> Any:
    session = call.orchestrator.live(call.path["session_id"])
    await session.interrupt()
    return await session.model()


async def restart_session(call: ApiHandler) -> Any:
    session = call.orchestrator.live(call.path["session_id"])
    await session.restart()
    return await session.model()


ONE = "/v1/sessions/{session_id}"

OPERATIONS = [
    Operation(
        "POST",
        "/v1/sessions",
        "Create a session",
        create_session,
        body=SessionCreate,
        answers={201: Session},
        errors=(UnknownEnvironment, LimitTooHigh, TooManySessions, SandboxFailed),
    ),
    Operation(
        "GET",
        "/v1/sessions",
        "List the sessions, newest first",
        list_sessions,
        answers={200: SessionList},
    ),
    Operation(
        "GET", ONE, "Read a session", read_session, answers={200: Session}, errors=(SessionNotFound,)
    ),
    Operation(
        "DELETE",
        ONE,
        "Delete a session with its files and its history",
        delete_session,
        answers={200: SessionDeleted},
        errors=(SessionNotFound,),
    ),
    Operation(
        "POST",
        ONE + "/interrupt",
        "Interrupt what the kernel runs, as Ctrl-C does",
        interrupt_session,
        answers={200: Session},
        errors=(SessionNotFound, WrongState),
    ),
    Operation(
        "POST",
        ONE + "/restart",
        "Start a new kernel: memory is gone, files stay",
        restart_session,
        answers={200: Session},
        errors=(SessionNotFound, WrongState, SandboxFailed),
    ),
]
