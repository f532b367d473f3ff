"""Named workspaces: files that outlive the sessions that use them.

Files come before their record and go after it, so a gateway that is killed in between leaves files
that nobody knows, which are swept away, and never a name without files.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from weakref import WeakValueDictionary

from msgspec import UNSET
from msgspec.structs import replace

from interpreter.config import Config
from interpreter.errors import (
    FilesUnreachable,
    LimitFixed,
    LimitTooHigh,
    StoreUnavailable,
    WorkspaceExists,
    WorkspaceNotFound,
)
from interpreter.models import (
    Workspace,
    WorkspaceCopy,
    WorkspaceCreate,
    WorkspaceDeleted,
    WorkspaceUpdate,
)
from interpreter.orchestrator.quotas import Quotas
from interpreter.orchestrator.uses import Use, Uses
from interpreter.runtimes import Runtime
from interpreter.store import Store, WorkspaceRecord
from interpreter.workspace import Storage
from interpreter.workspace import Workspace as Files
from interpreter.workspace.packing import Packed, copy, packed, restore


class NamedWorkspaces:
    """All that there are, by name."""

    def __init__(
        self,
        config: Config,
        store: Store,
        storage: Storage,
        runtime: Runtime,
        of_sessions: Callable[[str], int],
    ) -> None:
        """`of_sessions` tells how many megabytes the sessions of an owner have besides."""
        self.uses = Uses(storage, self._rested)
        self.quotas = Quotas(
            config.owner_disk_mb, lambda owner: self._megabytes_of(owner) + of_sessions(owner)
        )
        self._config = config
        self._store = store
        self._storage = storage
        self._runtime = runtime
        self._records: dict[str, WorkspaceRecord] = {}
        self._names: set[str] = set()
        """Names that are being given."""
        self._ids: set[str] = set()
        """Ids of those that are being made or removed."""
        self._changing: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def load(self) -> None:
        """Called at start."""
        self._records = {record.name: record for record in await self._store.workspaces()}

    def settle(self) -> None:
        """Called when the sessions of an earlier gateway are found: nobody uses the others."""
        for record in self._records.values():
            if record.disk_enforced_by == "filesystem":
                self.uses.rest(record.id)

    def _rested(self, id: str, size: int | None) -> None:
        for record in self._records.values():
            if record.id == id and size is not None:
                self._keep(replace(record, bytes=size, last_used=datetime.now(UTC)))
                return

    def knows(self, id: str) -> bool:
        """Whether there are files of this id, or are about to be. A thread may ask."""
        return id in self._ids or any(record.id == id for record in list(self._records.values()))

    def find(self, name: str) -> WorkspaceRecord:
        record = self._records.get(name)
        if record is None:
            raise WorkspaceNotFound(f"There is no workspace '{name[:100]}'.")
        return record

    def _megabytes_of(self, owner: str) -> int:
        return sum(record.disk_mb for record in self._records.values() if record.owner == owner)

    # -- looking

    async def model(self, name: str) -> Workspace:
        return await self._model(self.find(name))

    async def models(self, owner: str | None) -> list[Workspace]:
        """In the order of their names."""
        found = [r for _, r in sorted(self._records.items()) if owner in (None, r.owner)]
        return list(await asyncio.gather(*(self._model(record) for record in found)))

    async def _model(self, record: WorkspaceRecord) -> Workspace:
        return Workspace(
            name=record.name,
            owner=record.owner,
            disk_mb=record.disk_mb,
            disk_enforced_by=record.disk_enforced_by,
            bytes=await self._bytes(record),
            in_use_by=self.uses.sessions(record.id),
            created_at=record.created_at,
            last_used=record.last_used,
        )

    async def _bytes(self, record: WorkspaceRecord) -> int | None:
        used = await self._storage.used(record.id) if self.uses.used(record.id) else None
        return record.bytes if used is None else used

    # -- making

    async def create(self, request: WorkspaceCreate) -> None:
        async def nothing(files: Files) -> None:
            pass

        await self.make(request, nothing)

    async def make(self, request: WorkspaceCreate, fill: Callable[[Files], Awaitable[None]]) -> None:
        """A new one with what `fill` puts into it; nothing is left when that fails."""
        self._store.condition.check()
        name, megabytes = request.name, self._megabytes(request.disk_mb)
        if name in self._records or name in self._names:
            raise WorkspaceExists(f"There is a workspace '{name}' already.")
        id = "w-" + secrets.token_hex(8)
        self._names.add(name)
        self._ids.add(id)
        try:
            with self.quotas.room_for(request.owner, megabytes):
                files, size = await self._make(id, megabytes, fill)
                now = datetime.now(UTC)
                record = WorkspaceRecord(
                    id=id,
                    name=name,
                    owner=request.owner,
                    disk_mb=megabytes,
                    disk_enforced_by=files.disk_enforced_by,
                    created_at=now,
                    last_used=now,
                    bytes=size,
                )
                try:
                    await self._stored(self._store.save_workspace(record))
                except BaseException:
                    self._store.delete_workspace(id)  # it may be stored all the same
                    await asyncio.shield(self._storage.remove(id))
                    raise
                self._records[name] = record
        finally:
            self._names.discard(name)
            self._ids.discard(id)
        self._store.audit("workspace.created", None, {"workspace": name, "owner": request.owner})

    async def _make(
        self, id: str, megabytes: int, fill: Callable[[Files], Awaitable[None]]
    ) -> tuple[Files, int | None]:
        files = await self._storage.create(id, megabytes)
        try:
            owner = self._runtime.owner_of(id)
            if owner is not None and self._storage.here:
                await asyncio.to_thread(os.chown, files.path, owner, owner)
            await fill(files)
            return files, await self._storage.rest(id)
        except BaseException:
            await asyncio.shield(self._storage.remove(id))
            raise

    def _megabytes(self, asked: int | None) -> int:
        most = self._config.maximums.disk_mb
        if asked is not None and asked > most:
            raise LimitTooHigh(f"disk_mb may be at most {most:,}, not {asked:,}.")
        return self._config.limits.disk_mb if asked is None else asked

    async def copy(self, name: str, request: WorkspaceCopy) -> None:
        """Another one with the same files; those that change meanwhile are as they were at a moment."""
        record = self.find(name)
        wanted = WorkspaceCreate(
            name=request.to,
            owner=request.owner or record.owner,
            disk_mb=request.disk_mb or record.disk_mb,
        )
        async with self._read(record, "somebody who copies it") as source:
            await self.copied(wanted, source)

    async def copied(
        self, request: WorkspaceCreate, source: Files, check: Callable[[], object] = lambda: None
    ) -> None:
        """A new one with the files of another, or of a session; none if `check` raises in the end."""
        self._check_here()
        megabytes = self._megabytes(request.disk_mb)

        async def fill(files: Files) -> None:
            await copy(source.path, files.path, megabytes)
            check()

        await self.make(request, fill)

    async def restore(self, request: WorkspaceCreate, archive: AsyncIterator[bytes]) -> None:
        """A new one with what is in an archive."""
        self._check_here()
        megabytes = self._megabytes(request.disk_mb)
        await self.make(request, lambda files: restore(files.path, archive, megabytes))

    @asynccontextmanager
    async def archive(self, name: str) -> AsyncIterator[Packed]:
        """All files of a workspace as one."""
        async with (
            self._read(self.find(name), "somebody who archives it") as files,
            packed(files.path) as archive,
        ):
            yield archive

    @asynccontextmanager
    async def _read(self, record: WorkspaceRecord, by: str) -> AsyncIterator[Files]:
        self._check_here()
        use = self.uses.begin(record.id, record.name, read_only=True, by=by)
        try:
            yield await use.open()
        finally:
            use.release()

    def _check_here(self) -> None:
        if not self._storage.here:
            raise FilesUnreachable("The gateway does not see the files of workspaces here.")

    # -- changing

    async def update(self, name: str, request: WorkspaceUpdate) -> None:
        # One after another: what one gives it is what the next one finds.
        changing = self._changing.setdefault(self.find(name).id, asyncio.Lock())
        async with changing:
            await self._update(name, request)

    async def _update(self, name: str, request: WorkspaceUpdate) -> None:
        record = self.find(name)
        self._store.condition.check()
        owner = record.owner if request.owner is UNSET else request.owner
        megabytes = record.disk_mb if request.disk_mb is UNSET else self._megabytes(request.disk_mb)
        if megabytes < record.disk_mb:
            raise LimitFixed(
                f"The workspace '{name}' cannot shrink below its {record.disk_mb:,} MB.",
                "Copy it to a smaller one.",
            )
        more = megabytes - record.disk_mb if owner == record.owner else megabytes
        with self.quotas.room_for(owner, more):
            if megabytes > record.disk_mb:
                await self._grow(record, megabytes)
            await self._stored(self._keep(replace(self.find(name), owner=owner, disk_mb=megabytes)))

    async def _grow(self, record: WorkspaceRecord, megabytes: int) -> None:
        self.uses.check_unused(record.id, record.name)
        use = self.uses.begin(record.id, record.name, read_only=False, by="somebody who lets it grow")
        try:
            async with self.uses.alone(record.id):
                # Larger while it is not mounted: no right that only some have is needed for that.
                await self._storage.rest(record.id)
                if not await self._storage.grow(record.id, megabytes):
                    raise LimitFixed(
                        f"The workspace '{record.name}' cannot hold more.", "The gateway's log says why."
                    )
        finally:
            use.release()

    async def delete(self, name: str) -> WorkspaceDeleted:
        record = self.find(name)
        self._store.condition.check()
        self.uses.check_unused(record.id, name)
        del self._records[name]
        self._names.add(name)
        self._ids.add(record.id)
        try:
            try:
                await self._stored(self._store.delete_workspace(record.id))
            except StoreUnavailable:
                self._records[name] = record
                raise
            async with self.uses.alone(record.id):
                size = await self._storage.remove(record.id)
        finally:
            self._names.discard(name)
            self._ids.discard(record.id)
        self._store.audit("workspace.deleted", None, {"workspace": name, "bytes": size})
        return WorkspaceDeleted(name=name, bytes=size)

    async def _stored(self, saved: asyncio.Future[None]) -> None:
        """Returns when it is stored: whoever is told of a workspace finds it again."""
        self._store.hurry()
        await asyncio.shield(saved)

    # -- using

    def use(self, record: WorkspaceRecord, read_only: bool) -> Use:
        """For a session that is about to get a sandbox. Raises WorkspaceInUse."""
        use = self.uses.begin(record.id, record.name, read_only=read_only)
        self._keep(replace(record, last_used=datetime.now(UTC)))
        return use

    def record_of(self, workspace_id: str | None, name: str) -> WorkspaceRecord:
        """The workspace that a session had, which may be gone while another has its name."""
        record = self.find(name)
        if workspace_id not in (None, record.id):
            raise WorkspaceNotFound(f"The workspace '{name}' that this session had was deleted.")
        return record

    def _keep(self, record: WorkspaceRecord) -> asyncio.Future[None]:
        self._records[record.name] = record
        return self._store.save_workspace(record)
