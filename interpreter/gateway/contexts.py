"""The operations on contexts: several kernels in one session."""

from __future__ import annotations

import secrets
from typing import Any

from interpreter.errors import (
    ContextExists,
    ContextNotFound,
    SandboxFailed,
    SessionNotFound,
    TooManyContexts,
    WrongState,
)
from interpreter.gateway.handler import ApiHandler
from interpreter.gateway.operation import Operation
from interpreter.models import Context, ContextCreate, ContextList


async def create_context(call: ApiHandler) -> Any:
    name = call.body(ContextCreate).name or "c-" + secrets.token_hex(4)
    session = call.orchestrator.get(call.path["session_id"])
    return (await session.create_context(name)).model()


async def list_contexts(call: ApiHandler) -> Any:
    session = call.orchestrator.get(call.path["session_id"])
    return ContextList(contexts=[context.model() for context in session.contexts.values()])


async def delete_context(call: ApiHandler) -> Any:
    await call.orchestrator.get(call.path["session_id"]).delete_context(call.path["name"])


ALL = "/v1/sessions/{session_id}/contexts"

OPERATIONS = [
    Operation(
        "POST",
        ALL,
        "Create another kernel in a session: memory of its own, shared files",
        create_context,
        body=ContextCreate,
        answers={201: Context},
        errors=(SessionNotFound, ContextExists, TooManyContexts, WrongState, SandboxFailed),
    ),
    Operation(
        "GET",
        ALL,
        "List the contexts of a session",
        list_contexts,
        answers={200: ContextList},
        errors=(SessionNotFound,),
    ),
    Operation(
        "DELETE",
        ALL + "/{name}",
        "End a context; its cells are cancelled, files stay",
        delete_context,
        answers={204: None},
        errors=(SessionNotFound, ContextNotFound, WrongState, SandboxFailed),
    ),
]
