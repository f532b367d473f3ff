"""The operations on named workspaces."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import structlog
from msgspec import Struct
from tornado.iostream import StreamClosedError

from interpreter.errors import (
    FilesUnreachable,
    InvalidArchive,
    InvalidRequest,
    LimitFixed,
    LimitTooHigh,
    NoSpaceLeft,
    OwnerDiskFull,
    SandboxFailed,
    SessionNotFound,
    ShuttingDown,
    WorkspaceExists,
    WorkspaceInUse,
    WorkspaceNotFound,
    WrongDigest,
    WrongState,
)
from interpreter.gateway.body import Streaming
from interpreter.gateway.file_headers import DIGESTS, Digest
from interpreter.gateway.handler import ApiHandler
from interpreter.gateway.operation import Operation
from interpreter.models import (
    Workspace,
    WorkspaceCopy,
    WorkspaceCreate,
    WorkspaceDeleted,
    WorkspaceList,
    WorkspaceUpdate,
)
from interpreter.models.basics import Owner, WorkspaceName
from interpreter.models.workspaces import DEFAULT_OWNER, DiskMb
from interpreter.workspace.packing import Packed

log = structlog.get_logger()

GZIP = "application/gzip"
STALL_SECONDS = 300.0
"""A client that takes nothing for so long is given up."""


class OfOwner(Struct, forbid_unknown_fields=True):
    """Which workspaces to list: all, or those of one owner."""

    owner: Owner | None = None


class Restored(Struct, forbid_unknown_fields=True):
    """Whose the restored workspace is, and what it may hold; a session's own when left out."""

    owner: Owner = DEFAULT_OWNER
    disk_mb: DiskMb | None = None


async def create_workspace(call: ApiHandler) -> Any:
    request = call.body(WorkspaceCreate)
    call.orchestrator.check_open()
    if request.from_session is None:
        await call.orchestrator.named.create(request)
    else:
        await call.orchestrator.files.keep(request, request.from_session)
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


async def copy_workspace(call: ApiHandler) -> Any:
    request = call.body(WorkspaceCopy)
    call.orchestrator.check_open()
    await call.orchestrator.named.copy(call.path["workspace"], request)
    call.set_header("Location", f"/v1/workspaces/{request.to}")
    return await call.orchestrator.named.model(request.to)


async def archive_workspace(call: ApiHandler) -> Any:
    name = call.path["workspace"]
    async with call.orchestrator.named.archive(name) as archive:
        call.set_header("Content-Type", GZIP)
        call.set_header("Content-Disposition", f'attachment; filename="{name}.tar.gz"')
        call.set_header("X-Uncompressed-Bytes", str(archive.uncompressed))
        call.set_status(200)
        if call.request.method == "HEAD":
            await call.flush()
        else:
            await _send(call, archive)
    if not call._finished:
        call.finish()


async def _send(call: ApiHandler, archive: Packed) -> None:
    """What is packed as it comes: no faster than the client takes it."""
    try:
        async for piece in archive.pieces():
            call.write(piece)
            async with asyncio.timeout(STALL_SECONDS):
                await call.flush()
    except (StreamClosedError, TimeoutError):
        call.hang_up()
    except SandboxFailed as e:
        # Half of an answer is on its way: only a connection that ends says that it is not all.
        log.warning("a workspace could not be archived", reason=e.message)
        call.hang_up()


async def receive_archive(call: ApiHandler) -> Streaming[None]:
    """Restores the body while it comes."""
    query = call.query(Restored)
    try:
        request = msgspec.convert(
            {"name": call.path["workspace"], "owner": query.owner, "disk_mb": query.disk_mb},
            WorkspaceCreate,
        )
    except msgspec.ValidationError as e:
        raise InvalidRequest(f"The workspace cannot be called so: {e}.") from None
    call.orchestrator.check_open()
    digest = Digest(call.request.headers)
    return Streaming(lambda body: call.orchestrator.named.restore(request, digest.checked(body)))


async def restore_workspace(call: ApiHandler) -> Any:
    assert isinstance(call.receiver, Streaming)
    await call.receiver.result()
    name = call.path["workspace"]
    call.set_header("Location", f"/v1/workspaces/{name}")
    return await call.orchestrator.named.model(name)


ALL = "/v1/workspaces"
ONE = ALL + "/{workspace}"

OPERATIONS = [
    Operation(
        "POST",
        ALL,
        "Make a workspace that outlives the sessions that use it, empty or with the files of a session",
        create_workspace,
        body=WorkspaceCreate,
        answers={201: Workspace},
        errors=(
            *(WorkspaceExists, LimitTooHigh, OwnerDiskFull, SandboxFailed, ShuttingDown),
            *(SessionNotFound, WorkspaceNotFound, WrongState, NoSpaceLeft, FilesUnreachable),
        ),
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
    Operation(
        "POST",
        ONE + "/copy",
        "Make another workspace with the same files",
        copy_workspace,
        body=WorkspaceCopy,
        answers={201: Workspace},
        errors=(
            *(WorkspaceNotFound, WorkspaceExists, LimitTooHigh, OwnerDiskFull),
            *(NoSpaceLeft, FilesUnreachable, SandboxFailed, ShuttingDown),
        ),
    ),
    Operation(
        "GET",
        ONE + "/archive",
        "All files of a workspace as one compressed tar file",
        archive_workspace,
        answers={200: None},
        binary=True,
        errors=(WorkspaceNotFound, FilesUnreachable, SandboxFailed),
    ),
    Operation(
        "PUT",
        ONE + "/archive",
        "Make a workspace from a compressed tar file",
        restore_workspace,
        receive=receive_archive,
        raw=True,
        query=Restored,
        path_types={"workspace": WorkspaceName},
        answers={201: Workspace},
        headers=DIGESTS,
        errors=(
            *(InvalidArchive, WrongDigest, WorkspaceExists, LimitTooHigh, OwnerDiskFull),
            *(NoSpaceLeft, FilesUnreachable, SandboxFailed, ShuttingDown),
        ),
    ),
]
