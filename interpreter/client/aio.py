"""The SDK for programs that await.

The same as `sync`, word for word, with `await`; read there what each method is for.

    async with AsyncClient() as client, client.session() as s:
        print((await s.run("6 * 7")).text)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import httpx

from interpreter import models
from interpreter.client import lookup, requests
from interpreter.client.async_carrier import AsyncCarrier
from interpreter.client.async_datasets import AsyncDatasets
from interpreter.client.async_session import AsyncSession, Opening
from interpreter.client.async_workspaces import AsyncWorkspaces
from interpreter.client.call import Call
from interpreter.client.notebook import NotebookGiven
from interpreter.client.place import locate
from interpreter.client.requests import LimitsGiven
from interpreter.client.wire import Wire
from interpreter.errors import SessionNotFound
from interpreter.models import OnIdle, SessionState


class AsyncClient:
    """A gateway; see `sync.Client`."""

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        timeout: float = 60.0,
        reconnect: float = 30.0,
        by: str = "sdk",
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._carrier = AsyncCarrier(Wire(locate(url, token), timeout, by), reconnect, transport)

    @property
    def datasets(self) -> AsyncDatasets:
        """What was uploaded for sessions to read."""
        return AsyncDatasets(self._carrier)

    @property
    def workspaces(self) -> AsyncWorkspaces:
        return AsyncWorkspaces(self._carrier)

    @property
    def url(self) -> str:
        return self._carrier.wire.place.url

    def session(
        self,
        id: str | None = None,
        *,
        name: str | None = None,
        environment: str | None = None,
        labels: Mapping[str, str] | None = None,
        limits: LimitsGiven | None = None,
        env: Mapping[str, str] | None = None,
        inputs: Sequence[str] | None = None,
        workspace: str | None = None,
        workspace_read_only: bool = False,
        owner: str | None = None,
        on_idle: OnIdle | None = None,
        wait: bool = True,
        notebook: NotebookGiven | None = None,
        keep_going: bool = False,
        cell_timeout: float | None = None,
    ) -> Opening[AsyncSession]:
        """To be awaited, or entered with `async with`."""
        if id is not None:
            return Opening(self._join(id))
        more = (inputs, workspace, workspace_read_only, owner, notebook, keep_going, cell_timeout)
        call = requests.create_session(name, environment, labels, limits, env, on_idle, wait, *more)
        return Opening(self._create(call, delete_on_exit=True))

    async def create_session(
        self,
        *,
        name: str | None = None,
        environment: str | None = None,
        labels: Mapping[str, str] | None = None,
        limits: LimitsGiven | None = None,
        env: Mapping[str, str] | None = None,
        inputs: Sequence[str] | None = None,
        workspace: str | None = None,
        workspace_read_only: bool = False,
        owner: str | None = None,
        on_idle: OnIdle | None = None,
        wait: bool = True,
        notebook: NotebookGiven | None = None,
        keep_going: bool = False,
        cell_timeout: float | None = None,
    ) -> AsyncSession:
        more = (inputs, workspace, workspace_read_only, owner, notebook, keep_going, cell_timeout)
        call = requests.create_session(name, environment, labels, limits, env, on_idle, wait, *more)
        return await self._create(call, delete_on_exit=False)

    async def sessions(
        self,
        *,
        state: SessionState | str | None = None,
        name: str | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> list[models.Session]:
        found: list[models.Session] = []
        after: str | None = None
        while True:
            page = await self._carrier.send(requests.sessions(state, name, labels, after))
            found += page.sessions
            after = page.next
            if after is None:
                return found

    async def status(self) -> models.GatewayStatus:
        return await self._carrier.send(requests.status())

    async def audit(
        self, session_id: str | None = None, *, after: int | None = None, limit: int = 100
    ) -> list[models.AuditEntry]:
        """What became of a session, or of all, and why: the last entries, or those after a number."""
        return (await self._carrier.send(requests.audit(session_id, after, limit))).entries

    async def health(self) -> models.Health:
        return await self._carrier.send(requests.health())

    async def close(self) -> None:
        await self._carrier.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _create(self, call: Call[models.Session], *, delete_on_exit: bool) -> AsyncSession:
        info = await self._carrier.send(call)
        return AsyncSession(self._carrier, info, delete_on_exit=delete_on_exit)

    async def _join(self, wanted: str) -> AsyncSession:
        try:
            info = await self._carrier.send(requests.session(wanted))
        except SessionNotFound:
            info = lookup.find(await self.sessions(name=wanted), wanted)
        return AsyncSession(self._carrier, info)
