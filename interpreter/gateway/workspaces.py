"""The operations on named workspaces."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from interpreter.errors import (
    LimitFixed,
    LimitTooHigh,
    OwnerDiskFull,
    SandboxFailed,
    WorkspaceExists,
    WorkspaceInUse,
    WorkspaceNotFound,
)
from interpreter.gateway.handler import ApiHandler
from interpreter.gateway.operation import Operation
from interpreter.models import (
    Workspace,
    WorkspaceCreate,
    WorkspaceDeleted,
    WorkspaceList,
    WorkspaceUpdate,
)
from interpreter.models.basics import Owner


class OfOwner(Struct, forbid_unknown_fields=True):
    """Which workspaces to list: all, or those of one owner."""

    owner: Owner | None = None


async def create_workspace(call: ApiHandler) -> Any:
    request = call.body(WorkspaceCreate)
    await call.orchestrator.named.create(request)
    call.set_header("Location", f"/v1/workspaces/{request.name}")
    return await call.orchestrator.named.model(request.name)


async def list_workspaces(call: ApiHandler) -> Any:
    found = await call.orchestrator.named.models(call.query(OfOwner).owner)
    return WorkspaceList(workspaces=found)


async def read_workspace(call: ApiHandler) -> Any:
    return await call.orchestrator.named.model(call.path["workspace"])


async def update_workspace(call: ApiHandler) -> Any:
    await call.orchestrator.named.update(call.path["workspace"], call.body(WorkspaceUpdate))
    return await call.orchestrator.named.model(call.path["workspace"])


async def delete_workspace(call: ApiHandler) -> Any:
    return await call.orchestrator.named.delete(call.path["workspace"])


ALL = "/v1/workspaces"
ONE = ALL + "/{workspace}"

OPERATIONS = [
    Operation(
        "POST",
        ALL,
        "Make a workspace that outlives the sessions that use it",
        create_workspace,
        body=WorkspaceCreate,
        answers={201: Workspace},
        errors=(WorkspaceExists, LimitTooHigh, OwnerDiskFull, SandboxFailed),
    ),
    Operation(
        "GET",
        ALL,
        "List workspaces by name",
        list_workspaces,
        query=OfOwner,
        answers={200: WorkspaceList},
    ),
    Operation(
        "GET",
        ONE,
        "Read a workspace: whose it is, how full, and which sessions have it",
        read_workspace,
        answers={200: Workspace},
        errors=(WorkspaceNotFound,),
    ),
    Operation(
        "PATCH",
        ONE,
        "Give a workspace another owner, or let it hold more while no session uses it",
        update_workspace,
        body=WorkspaceUpdate,
        answers={200: Workspace},
        errors=(WorkspaceNotFound, WorkspaceInUse, LimitFixed, LimitTooHigh, OwnerDiskFull),
    ),
    Operation(
        "DELETE",
        ONE,
        "Delete a workspace with its files, while no session uses it",
        delete_workspace,
        answers={200: WorkspaceDeleted},
        errors=(WorkspaceNotFound, WorkspaceInUse),
    ),
]
