"""What the SDK asks of a gateway about named workspaces, and how far an archive has come."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import BinaryIO
from urllib.parse import quote

from msgspec import UNSET

from interpreter import models
from interpreter.client import local_files
from interpreter.client.call import Call, Nothing
from interpreter.client.local_files import PIECE, Progress
from interpreter.models.workspaces import DEFAULT_OWNER

ALL = "/v1/workspaces"


def _path(name: str, *more: str) -> str:
    return "/".join((ALL, *(quote(part, safe="") for part in (name, *more))))


def create(
    name: str, owner: str | None, disk_mb: int | None, from_session: str | None
) -> Call[models.Workspace]:
    body = models.WorkspaceCreate(
        name=name, owner=owner or DEFAULT_OWNER, disk_mb=disk_mb, from_session=from_session
    )
    return Call(method="POST", path=ALL, body=models.to_json(body), answer=models.Workspace, waits=True)


def listing(owner: str | None) -> Call[models.WorkspaceList]:
    params = {} if owner is None else {"owner": owner}
    return Call(method="GET", path=ALL, params=params, answer=models.WorkspaceList)


def get(name: str) -> Call[models.Workspace]:
    return Call(method="GET", path=_path(name), answer=models.Workspace)


def update(name: str, owner: str | None, disk_mb: int | None) -> Call[models.Workspace]:
    body = models.WorkspaceUpdate(owner=owner or UNSET, disk_mb=disk_mb or UNSET)
    return Call(
        method="PATCH",
        path=_path(name),
        body=models.to_json(body),
        answer=models.Workspace,
        waits=True,
        repeatable=True,
    )


def delete(name: str) -> Call[models.WorkspaceDeleted]:
    return Call(method="DELETE", path=_path(name), answer=models.WorkspaceDeleted, waits=True)


def copy(name: str, to: str, owner: str | None, disk_mb: int | None) -> Call[models.Workspace]:
    body = models.WorkspaceCopy(to=to, owner=owner, disk_mb=disk_mb)
    path = _path(name, "copy")
    return Call(method="POST", path=path, body=models.to_json(body), answer=models.Workspace, waits=True)


def archive(name: str) -> Call[None]:
    return Call(method="GET", path=_path(name, "archive"), answer=Nothing, waits=True)


def restore(
    name: str,
    owner: str | None,
    disk_mb: int | None,
    file: BinaryIO,
    size: int,
    progress: Progress | None,
) -> Call[models.Workspace]:
    given = {"owner": owner, "disk_mb": None if disk_mb is None else str(disk_mb)}
    return Call(
        method="PUT",
        path=_path(name, "archive"),
        params={key: value for key, value in given.items() if value is not None},
        headers={"Content-Length": str(size)},
        content=lambda: local_files.pieces(file, size, progress),
        answer=models.Workspace,
        waits=True,
    )


class Unpacked:
    """How far an archive has come that is on its way: the gateway knows its size only unpacked."""

    def __init__(self, headers: Mapping[str, str], progress: Progress | None) -> None:
        self._total = int(headers.get("X-Uncompressed-Bytes", "0"))
        self._done = 0
        self._progress = progress
        self._inflate = zlib.decompressobj(wbits=31)

    def advance(self, piece: bytes) -> None:
        if self._progress is None:
            return
        while piece:
            # A few bytes can become very many.
            self._done += len(self._inflate.decompress(piece, PIECE))
            piece = self._inflate.unconsumed_tail
        # Files may have grown meanwhile.
        self._progress(min(self._done, self._total), self._total)

    def finish(self) -> None:
        if self._progress is not None:
            self._progress(self._total, self._total)
