"""The operations on commands. Each is an execution, too: what is asked of those works for these."""

from __future__ import annotations

import asyncio
from typing import Any

from interpreter.errors import (
    CodeTooLong,
    ExecutionNotFound,
    ExecutionsUsedUp,
    InputNotExpected,
    InvalidCommand,
    KeyReused,
    LimitTooHigh,
    QueueFull,
    SandboxFailed,
    SessionNotFound,
    ShuttingDown,
    TooManyCommands,
    WrongState,
)
from interpreter.gateway.executions import Page, Wait, idempotency_key
from interpreter.gateway.handler import ApiHandler
from interpreter.gateway.operation import Operation
from interpreter.gateway.streams import After, last_seen, send_events
from interpreter.models import Execution
from interpreter.models.commands import Command, CommandCreate, CommandInput, CommandList
from interpreter.orchestrator.command import PREFIX, is_command


async def run_command(call: ApiHandler) -> Any:
    request = call.body(CommandCreate)
    session_id, executions = call.path["session_id"], call.orchestrator.executions
    command = await executions.run_command(session_id, request, idempotency_key(call))
    call.set_header("Location", f"/v1/sessions/{session_id}/commands/{command.id}")
    if request.cancel_on_disconnect:
        call.on_leave.append(lambda: executions.abandon(session_id, command.id))
    if call.wants_stream:
        events = executions.events(session_id, 0, execution_id=command.id)
        await send_events(call, events, until_done=True)
        return None
    if request.background:
        call.set_status(202)
        call.finish_json(Command.of(command if isinstance(command, Execution) else command.model()))
        return None
    if isinstance(command, Execution):
        return Command.of(command)
    await asyncio.shield(command.done)
    return Command.of(command.model())


class CommandPage(Page, forbid_unknown_fields=True):
    """Which commands to list: of those that run, or else of all, as for executions."""

    running: bool = True


async def list_commands(call: ApiHandler) -> Any:
    page = call.query(CommandPage)
    session_id = call.path["session_id"]
    found = await call.orchestrator.executions.all(
        session_id, page.limit, page.after, PREFIX, newest=page.newest, running=page.running
    )
    return CommandList(commands=[Command.of(execution) for execution in found])


async def _read(call: ApiHandler) -> Execution:
    session_id, id = call.path["session_id"], call.path["command_id"]
    if not is_command(id):
        call.orchestrator.get(session_id)
        raise ExecutionNotFound(f"Session {session_id} has no command '{id[:100]}'.")
    return await call.orchestrator.executions.read(session_id, id)


async def read_command(call: ApiHandler) -> Any:
    wait = call.query(Wait).wait
    execution = await _read(call)
    if wait:
        execution = await call.orchestrator.executions.ended(execution.session_id, execution.id)
    return Command.of(execution)


async def cancel_command(call: ApiHandler) -> Any:
    execution = await _read(call)
    executions = call.orchestrator.executions
    return Command.of(await executions.cancel(execution.session_id, execution.id))


async def send_input(call: ApiHandler) -> Any:
    given = call.body(CommandInput)
    execution = await _read(call)
    executions = call.orchestrator.executions
    await executions.give(execution.session_id, execution.id, given.text, eof=given.eof)


async def follow_command(call: ApiHandler) -> Any:
    after = last_seen(call, call.query(After).after)
    execution = await _read(call)
    events = call.orchestrator.executions.events(
        execution.session_id, after, execution_id=execution.id, wait=not execution.status.final
    )
    await send_events(call, events, until_done=True)


ALL = "/v1/sessions/{session_id}/commands"
ONE = ALL + "/{command_id}"
MISSING = (SessionNotFound, ExecutionNotFound)

OPERATIONS = [
    Operation(
        "POST",
        ALL,
        "Run a command beside the kernel: wait for its end, stream it, or leave it running",
        run_command,
        body=CommandCreate,
        answers={200: Command, 202: Command},
        stream=True,
        headers={"Idempotency-Key": "Sent again with the same key, a command is not run again."},
        longest_header=200,
        errors=(
            *(SessionNotFound, WrongState, ExecutionsUsedUp, KeyReused, InvalidCommand, CodeTooLong),
            *(LimitTooHigh, TooManyCommands, SandboxFailed, ShuttingDown),
        ),
    ),
    Operation(
        "GET",
        ALL,
        "List the commands of a session that run, oldest first, or with running=false all of them",
        list_commands,
        query=CommandPage,
        answers={200: CommandList},
        errors=MISSING,
    ),
    Operation(
        "GET",
        ONE,
        "Read a command, running or past",
        read_command,
        query=Wait,
        answers={200: Command},
        errors=(*MISSING, WrongState, SandboxFailed),
    ),
    Operation(
        "DELETE",
        ONE,
        "End a command, with all that it has started",
        cancel_command,
        answers={200: Command},
        errors=(*MISSING, WrongState, SandboxFailed),
    ),
    Operation(
        "POST",
        ONE + "/input",
        "Have a command read something",
        send_input,
        body=CommandInput,
        answers={204: None},
        errors=(*MISSING, WrongState, InputNotExpected, QueueFull, SandboxFailed),
    ),
    Operation(
        "GET",
        ONE + "/events",
        "Follow the events of a command until it is done",
        follow_command,
        query=After,
        answers={200: None},
        stream=True,
        errors=MISSING,
    ),
]
