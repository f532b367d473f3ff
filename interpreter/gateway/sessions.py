"""The operations on sessions."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from msgspec import Meta, Struct

from interpreter.errors import (
    CodeTooLong,
    ContextNotFound,
    DatasetNotFound,
    DatasetsFull,
    InputsUnavailable,
    InvalidNotebook,
    LimitFixed,
    LimitTooHigh,
    OwnerDiskFull,
    SandboxFailed,
    SessionNotFound,
    ShuttingDown,
    TooManySessions,
    UnknownEnvironment,
    WorkspaceInUse,
    WorkspaceNotFound,
    WrongState,
)
from interpreter.gateway.handler import ApiHandler
from interpreter.gateway.operation import Operation
from interpreter.models import (
    Name,
    Session,
    SessionCreate,
    SessionDeleted,
    SessionList,
    SessionState,
    SessionUpdate,
)
from interpreter.models.basics import ContextName

LARGEST_NOTEBOOK = 64 * 1024 * 1024
"""Bytes of a request with a notebook; its outputs are passed over as it is read."""
LABELS = "^[^=,]+=[^,]*(,[^=,]+=[^,]*)*$"

PLACE = "^-?[0-9]{1,20}[.][^.]+$"
"""Where a session is in the list of all."""


class Filter(Struct, forbid_unknown_fields=True):
    """Which sessions to list: at most `limit`."""

    state: SessionState | None = None
    name: Name | None = None
    label: Annotated[str, Meta(max_length=2000, pattern=LABELS)] | None = None
    """'key=value'; several are separated by commas, and all have to be there."""
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100
    after: Annotated[str, Meta(max_length=100, pattern=PLACE)] | None = None
    """The `next` of the page before. The session that was its last one may be deleted."""


class InContext(Struct, forbid_unknown_fields=True):
    """Which of the session's kernels is meant."""

    context: ContextName = "default"


async def create_session(call: ApiHandler) -> Any:
    request = call.body(SessionCreate)
    try:
        session = await call.orchestrator.create(
            request, on_wait=lambda waiter: call.on_leave.append(waiter.give_up)
        )
    except asyncio.CancelledError:
        if not call.left:
            raise
        return None  # the client has gone while it waited, and nobody knows of the session
    call.set_header("Location", f"/v1/sessions/{session.id}")
    # What it uses is not asked for: that takes longer than to hand it over.
    if request.wait:
        return session.model()
    call.set_status(202)
    call.finish_json(session.model())
    return None


async def list_sessions(call: ApiHandler) -> Any:
    query = call.query(Filter)
    sessions, next = await call.orchestrator.sessions(
        state=query.state,
        name=query.name,
        labels=_labels(query.label),
        limit=query.limit,
        after=query.after,
    )
    return SessionList(sessions=sessions, next=next)


def _labels(given: str | None) -> dict[str, str]:
    pairs = (pair.partition("=") for pair in given.split(",")) if given else ()
    return {key: value for key, _, value in pairs}


async def read_session(call: ApiHandler) -> Any:
    return await call.orchestrator.session(call.path["session_id"])


async def update_session(call: ApiHandler) -> Any:
    session = await call.orchestrator.update(call.path["session_id"], call.body(SessionUpdate))
    return await call.orchestrator.session(session.id)


async def delete_session(call: ApiHandler) -> Any:
    return await call.orchestrator.delete(call.path["session_id"])


async def interrupt_session(call: ApiHandler) -> Any:
    session = call.orchestrator.get(call.path["session_id"])
    await session.interrupt(call.query(InContext).context)
    return await call.orchestrator.session(session.id)


async def restart_session(call: ApiHandler) -> Any:
    session = call.orchestrator.get(call.path["session_id"])
    await session.restart(call.query(InContext).context)
    return await call.orchestrator.session(session.id)


async def pause_session(call: ApiHandler) -> Any:
    session = call.orchestrator.get(call.path["session_id"])
    await session.created.wait()
    await session.pause("it was paused")
    return await call.orchestrator.session(session.id)


async def resume_session(call: ApiHandler) -> Any:
    session = call.orchestrator.get(call.path["session_id"])
    await session.wake()
    return await call.orchestrator.session(session.id)


async def stop_session(call: ApiHandler) -> Any:
    session = await call.orchestrator.stop_session(call.path["session_id"])
    return await call.orchestrator.session(session.id)


async def start_session(call: ApiHandler) -> Any:
    session = await call.orchestrator.start_session(call.path["session_id"])
    return await call.orchestrator.session(session.id)


ALL = "/v1/sessions"
ONE = ALL + "/{session_id}"

OPERATIONS = [
    Operation(
        "POST",
        ALL,
        "Create a session: wait for it, or be told its id at once; with a notebook, have it replayed",
        create_session,
        body=SessionCreate,
        largest_body=LARGEST_NOTEBOOK,
        answers={201: Session, 202: Session},
        errors=(
            *(UnknownEnvironment, LimitTooHigh, TooManySessions, DatasetNotFound, WorkspaceNotFound),
            *(WorkspaceInUse, LimitFixed, OwnerDiskFull, InputsUnavailable, DatasetsFull),
            *(InvalidNotebook, CodeTooLong, SandboxFailed, ShuttingDown),
        ),
    ),
    Operation(
        "GET",
        ALL,
        "List sessions, newest first",
        list_sessions,
        query=Filter,
        answers={200: SessionList},
        errors=(SessionNotFound,),
    ),
    Operation(
        "GET", ONE, "Read a session", read_session, answers={200: Session}, errors=(SessionNotFound,)
    ),
    Operation(
        "PATCH",
        ONE,
        "Change a session's name, labels, limits, or what happens when it is idle",
        update_session,
        body=SessionUpdate,
        answers={200: Session},
        errors=(
            *(SessionNotFound, WrongState, LimitFixed, LimitTooHigh),
            *(TooManySessions, OwnerDiskFull),
        ),
    ),
    Operation(
        "DELETE",
        ONE,
        "Delete a session with its files and its history",
        delete_session,
        answers={200: SessionDeleted},
        errors=(SessionNotFound, WrongState),
    ),
    Operation(
        "POST",
        ONE + "/interrupt",
        "Interrupt what a kernel runs, as Ctrl-C does",
        interrupt_session,
        query=InContext,
        answers={200: Session},
        errors=(SessionNotFound, ContextNotFound, WrongState, SandboxFailed),
    ),
    Operation(
        "POST",
        ONE + "/restart",
        "Start a new kernel: memory is gone, files stay",
        restart_session,
        query=InContext,
        answers={200: Session},
        errors=(SessionNotFound, ContextNotFound, WrongState, SandboxFailed),
    ),
    Operation(
        "POST",
        ONE + "/pause",
        "Freeze a session: memory is kept, no CPU is used; the next request resumes it",
        pause_session,
        answers={200: Session},
        errors=(SessionNotFound, WrongState, SandboxFailed),
    ),
    Operation(
        "POST",
        ONE + "/resume",
        "Let a paused session go on",
        resume_session,
        answers={200: Session},
        errors=(SessionNotFound, WrongState, SandboxFailed),
    ),
    Operation(
        "POST",
        ONE + "/stop",
        "End a session's sandbox: memory is gone; files, history and settings stay",
        stop_session,
        answers={200: Session},
        errors=(SessionNotFound, WrongState, SandboxFailed),
    ),
    Operation(
        "POST",
        ONE + "/start",
        "Bring a stopped session back in a new sandbox, with its files",
        start_session,
        answers={200: Session},
        errors=(
            *(SessionNotFound, WrongState, WorkspaceNotFound, WorkspaceInUse, TooManySessions),
            *(InputsUnavailable, DatasetNotFound, DatasetsFull, SandboxFailed, ShuttingDown),
        ),
    ),
]
