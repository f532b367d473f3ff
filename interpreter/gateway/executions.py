"""The operations on executions, and the event stream of a session."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct
from tornado.iostream import StreamClosedError

from interpreter.errors import (
    CodeTooLong,
    ContextNotFound,
    ExecutionNotFound,
    ExecutionsUsedUp,
    InputNotExpected,
    InvalidRequest,
    KeyReused,
    LimitTooHigh,
    QueueFull,
    SandboxFailed,
    SessionNotFound,
    ShuttingDown,
    Unauthorized,
    WrongState,
)
from interpreter.gateway.handler import ApiHandler
from interpreter.gateway.operation import Operation
from interpreter.gateway.streams import After, Follow, last_seen, send_events
from interpreter.kernel.plaintext import strip_ansi
from interpreter.models import (
    Execution,
    ExecutionCreate,
    ExecutionList,
    ExecutionUpdate,
    InputReply,
)

EMBEDDED_PAGE = 20
"""Executions that whoever has a token for embedding gets at once: each may have megabytes of outputs."""


class Page(Struct, forbid_unknown_fields=True):
    """Which executions to list: at most `limit`, those after the execution `after`; with `newest` the
    newest first, and older ones after it."""

    limit: Annotated[int, Meta(ge=1, le=1000)] = 100
    after: Annotated[str, Meta(max_length=100)] | None = None
    newest: bool = False


class Wait(Struct, forbid_unknown_fields=True):
    """Whether to answer only when the execution has ended; a session that is paused is resumed then."""

    wait: bool = False


async def run_cell(call: ApiHandler) -> Any:
    request = call.body(ExecutionCreate)
    session_id, executions = call.path["session_id"], call.orchestrator.executions
    cell = await executions.submit(session_id, request, idempotency_key(call))
    call.set_header("Location", f"/v1/sessions/{session_id}/executions/{cell.id}")
    if request.cancel_on_disconnect:
        call.on_leave.append(lambda: executions.abandon(session_id, cell.id))
    if call.wants_stream:
        events = executions.events(session_id, 0, execution_id=cell.id)
        await send_events(call, events, until_done=True)
    elif not request.wait:
        call.set_status(202)
        call.finish_json(cell if isinstance(cell, Execution) else cell.model())
    elif isinstance(cell, Execution):
        return cell
    elif cell.done.done():
        return cell.done.result()
    else:
        cell.answers.append(call.answer)
        await asyncio.shield(cell.done)
    return None


def idempotency_key(call: ApiHandler) -> str | None:
    """What tells a cell that is sent again from a new one."""
    key = call.request.headers.get("Idempotency-Key")
    if key is not None and not 1 <= len(key) <= 200:
        raise InvalidRequest("An Idempotency-Key has 1 to 200 characters.")
    return key


async def list_executions(call: ApiHandler) -> Any:
    page = call.query(Page)
    session_id = call.path["session_id"]
    limit = min(page.limit, EMBEDDED_PAGE) if call.embedded else page.limit
    return await call.orchestrator.executions.page(session_id, limit, page.after, newest=page.newest)


async def read_execution(call: ApiHandler) -> Any:
    wait = call.query(Wait).wait
    session_id, execution_id = call.path["session_id"], call.path["execution_id"]
    executions = call.orchestrator.executions
    if not wait:
        return await executions.read(session_id, execution_id)
    if not call.embedded:
        return await executions.ended(session_id, execution_id, wake=True)
    # Who may only look on changes nothing, and no longer than may be.
    try:
        async with asyncio.timeout(call.seconds_left):
            return await executions.ended(session_id, execution_id, wake=False)
    except TimeoutError:
        raise Unauthorized("The token has expired.") from None


async def update_execution(call: ApiHandler) -> Any:
    timeout = call.body(ExecutionUpdate).timeout
    session_id, execution_id = call.path["session_id"], call.path["execution_id"]
    return await call.orchestrator.executions.extend(session_id, execution_id, timeout)


async def cancel_execution(call: ApiHandler) -> Any:
    session_id, execution_id = call.path["session_id"], call.path["execution_id"]
    return await call.orchestrator.executions.cancel(session_id, execution_id)


async def follow_execution(call: ApiHandler) -> Any:
    after = last_seen(call, call.query(After).after)
    session_id, execution_id = call.path["session_id"], call.path["execution_id"]
    execution = await call.orchestrator.executions.read(session_id, execution_id)
    # Who has seen the end already gets nothing more, instead of waiting for it.
    wait = not execution.status.final
    events = call.orchestrator.executions.events(session_id, after, execution_id=execution_id, wait=wait)
    await send_events(call, events, until_done=True)


async def answer_input(call: ApiHandler) -> Any:
    reply = call.body(InputReply)
    session_id, execution_id = call.path["session_id"], call.path["execution_id"]
    await call.orchestrator.executions.answer_input(session_id, execution_id, reply.value)


async def whole_output(call: ApiHandler) -> Any:
    """Everything a cell printed and showed as text, however long."""
    session_id, execution_id = call.path["session_id"], call.path["execution_id"]
    await call.orchestrator.executions.read(session_id, execution_id)
    call.set_header("Content-Type", "text/plain; charset=utf-8")
    call.set_header("Content-Disposition", f'attachment; filename="{execution_id}.txt"')
    events = call.orchestrator.executions.events(session_id, 0, execution_id=execution_id, wait=False)
    try:
        async for rows in events:
            call.write("".join(_as_text(row.type, row.data) for row in rows))
            await call.flush()
        await call.finish()
    except StreamClosedError:
        await events.aclose()  # type: ignore[attr-defined]


def _as_text(type: str, encoded: bytes) -> str:
    if type not in ("stream", "display", "error"):
        return ""
    data = msgspec.json.decode(encoded)
    if type == "stream":
        return str(data["text"])
    if type == "display":
        return str(data["data"].get("text/plain", "")) + "\n"
    return strip_ansi("\n".join(data["traceback"])) + "\n"


async def follow_session(call: ApiHandler) -> Any:
    query = call.query(Follow)
    after = last_seen(call, query.after)
    session_id = call.path["session_id"]
    events = call.orchestrator.executions.events(session_id, after, wait=query.follow)
    await send_events(call, events, until_done=False)


SESSION = "/v1/sessions/{session_id}"
ALL = SESSION + "/executions"
ONE = ALL + "/{execution_id}"
MISSING = (SessionNotFound, ExecutionNotFound)

OPERATIONS = [
    Operation(
        "POST",
        ALL,
        "Run a cell: wait for its result, stream it, or leave it running",
        run_cell,
        body=ExecutionCreate,
        answers={200: Execution, 202: Execution},
        stream=True,
        headers={"Idempotency-Key": "Sent again with the same key, a cell is not run again."},
        longest_header=200,
        errors=(
            *(SessionNotFound, ContextNotFound, WrongState, ExecutionsUsedUp, KeyReused),
            *(CodeTooLong, LimitTooHigh, QueueFull, SandboxFailed, ShuttingDown),
        ),
    ),
    Operation(
        "GET",
        ALL,
        "List the executions of a session, oldest or newest first",
        list_executions,
        embeddable=True,
        query=Page,
        answers={200: ExecutionList},
        errors=MISSING,
    ),
    Operation(
        "GET",
        ONE,
        "Read an execution, running or past",
        read_execution,
        embeddable=True,
        query=Wait,
        answers={200: Execution},
        errors=(*MISSING, WrongState, SandboxFailed),
    ),
    Operation(
        "PATCH",
        ONE,
        "Give an execution that is queued or running another timeout",
        update_execution,
        body=ExecutionUpdate,
        answers={200: Execution},
        errors=(*MISSING, WrongState, LimitTooHigh, SandboxFailed),
    ),
    Operation(
        "DELETE",
        ONE,
        "Cancel an execution that is queued or running",
        cancel_execution,
        answers={200: Execution},
        errors=(*MISSING, WrongState, SandboxFailed),
    ),
    Operation(
        "GET",
        ONE + "/events",
        "Follow the events of an execution until it is done",
        follow_execution,
        embeddable=True,
        query=After,
        answers={200: None},
        stream=True,
        errors=MISSING,
    ),
    Operation(
        "POST",
        ONE + "/input",
        "Answer an input_request",
        answer_input,
        body=InputReply,
        answers={204: None},
        errors=(*MISSING, WrongState, InputNotExpected, SandboxFailed),
    ),
    Operation(
        "GET",
        ONE + "/output",
        "The whole text output, however long",
        whole_output,
        answers={200: None},
        text=True,
        errors=MISSING,
    ),
    Operation(
        "GET",
        SESSION + "/events",
        "Follow everything that happens in a session",
        follow_session,
        embeddable=True,
        query=Follow,
        answers={200: None},
        stream=True,
        errors=(SessionNotFound,),
    ),
]
