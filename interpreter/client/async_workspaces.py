"""Named workspaces: the same as `workspaces`, with `await`."""

from __future__ import annotations

import asyncio
import builtins
import os
from pathlib import Path

from interpreter import models
from interpreter.client import workspace_requests as requests
from interpreter.client.async_carrier import AsyncCarrier
from interpreter.client.local_files import Progress, replacing
from interpreter.client.workspace_requests import Unpacked


class AsyncWorkspaces:
    """The workspaces of a gateway; see `workspaces.Workspaces`."""

    def __init__(self, carrier: AsyncCarrier) -> None:
        self._carrier = carrier

    async def create(
        self,
        name: str,
        *,
        owner: str | None = None,
        disk_mb: int | None = None,
        from_session: str | None = None,
    ) -> models.Workspace:
        return await self._carrier.send(requests.create(name, owner, disk_mb, from_session))

    async def list(self, owner: str | None = None) -> builtins.list[models.Workspace]:
        return (await self._carrier.send(requests.listing(owner))).workspaces

    async def get(self, name: str) -> models.Workspace:
        return await self._carrier.send(requests.get(name))

    async def update(
        self, name: str, *, owner: str | None = None, disk_mb: int | None = None
    ) -> models.Workspace:
        return await self._carrier.send(requests.update(name, owner, disk_mb))

    async def delete(self, name: str) -> models.WorkspaceDeleted:
        return await self._carrier.send(requests.delete(name))

    async def copy(
        self, name: str, to: str, *, owner: str | None = None, disk_mb: int | None = None
    ) -> models.Workspace:
        return await self._carrier.send(requests.copy(name, to, owner, disk_mb))

    async def archive(self, name: str, to: str | Path, *, progress: Progress | None = None) -> Path:
        target = Path(to)
        with replacing(target) as file:
            async with self._carrier.opened(requests.archive(name)) as answer:
                unpacked = Unpacked(answer.headers, progress)
                async for piece in answer.aiter_raw():
                    await asyncio.to_thread(file.write, piece)
                    unpacked.advance(piece)
                unpacked.finish()
        return target

    async def restore(
        self,
        name: str,
        source: str | Path,
        *,
        owner: str | None = None,
        disk_mb: int | None = None,
        progress: Progress | None = None,
    ) -> models.Workspace:
        with await asyncio.to_thread(open, source, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            call = requests.restore(name, owner, disk_mb, file, size, progress)
            return await self._carrier.send(call)
