"""A session and its contexts: the same as `session`, with `await`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Generator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from interpreter import models
from interpreter.client import command_requests, input_requests, requests
from interpreter.client.async_carrier import AsyncCarrier
from interpreter.client.async_cells import AsyncCells
from interpreter.client.async_files import AsyncFiles
from interpreter.client.async_result import AsyncResult
from interpreter.client.async_shell import AsyncShell
from interpreter.client.call import Call
from interpreter.client.notebook import ReplayFollow
from interpreter.client.requests import DEFAULT, LimitsGiven
from interpreter.errors import (
    ContextExists,
    ContextNotFound,
    InterpreterError,
    SessionNotFound,
    WrongState,
)
from interpreter.models import OnIdle
from interpreter.models.commands import Terminal as TerminalInfo
from interpreter.models.descriptions import Description
from interpreter.models.embeds import Embed
from interpreter.models.processes import Process, ProcessesEnded

if TYPE_CHECKING:
    from interpreter.client.async_terminal import AsyncTerminal

T = TypeVar("T", bound=AbstractAsyncContextManager[Any])


class Opening(Generic[T]):
    """A session or context on its way: `await` gives it, `async with` also closes it at the end."""

    def __init__(self, opening: Awaitable[T]) -> None:
        self._opening = opening

    def __await__(self) -> Generator[Any, None, T]:
        return self._opening.__await__()

    async def __aenter__(self) -> T:
        self._opened = await self._opening
        await self._opened.__aenter__()
        return self._opened

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self._opened.__aexit__(kind, error, tb)


class AsyncSession(AsyncCells):
    """A session; see `session.Session`."""

    def __init__(
        self, carrier: AsyncCarrier, info: models.Session, *, delete_on_exit: bool = False
    ) -> None:
        super().__init__(carrier, info.id, DEFAULT)
        self.info = info
        self.files = AsyncFiles(carrier, info.id)
        self.shell = AsyncShell(carrier, info.id)
        """Runs commands beside the kernel."""
        self._delete_on_exit = delete_on_exit

    @property
    def id(self) -> str:
        return self.info.id

    async def refresh(self) -> models.Session:
        return await self._update(requests.refresh(self.id))

    async def update(
        self,
        *,
        name: str | UnsetType | None = UNSET,
        labels: Mapping[str, str] | None = None,
        limits: LimitsGiven | None = None,
        on_idle: OnIdle | None = None,
    ) -> models.Session:
        return await self._update(requests.update_session(self.id, name, labels, limits, on_idle))

    async def pause(self) -> models.Session:
        return await self._update(requests.pause(self.id))

    async def resume(self) -> models.Session:
        return await self._update(requests.resume(self.id))

    async def stop(self) -> models.Session:
        return await self._update(requests.stop(self.id))

    async def start(self) -> models.Session:
        return await self._update(requests.start(self.id))

    async def interrupt(self, context: str = DEFAULT) -> models.Session:
        return await self._update(requests.interrupt(self.id, context))

    async def restart(self, context: str = DEFAULT) -> models.Session:
        return await self._update(requests.restart(self.id, context))

    async def replay(self) -> AsyncIterator[AsyncResult]:
        following = ReplayFollow()
        if (await self.refresh()).replay is not None:
            async with aclosing(self.events()) as events:
                async for event in events:
                    if following.ends_cell(event):
                        yield self.result(event)
                    if following.over:
                        break
            await self.refresh()

    async def attach(self, dataset: str) -> models.Session:
        return await self._update(input_requests.attach(self.id, dataset))

    async def detach(self, dataset: str) -> models.Session:
        return await self._update(input_requests.detach(self.id, dataset))

    async def describe(self, path: str) -> Description:
        return await self._carrier.send(input_requests.describe(self.id, path))

    async def embed(self, seconds: int = 3600) -> Embed:
        """A token that lets a page elsewhere show this session's outputs, and do nothing else; and the
        address of a page to put into a frame there."""
        made = await self._carrier.send(requests.embed(self.id, seconds))
        return replace(made, url=self._carrier.wire.place.url + made.url)

    async def processes(self) -> list[Process]:
        return (await self._carrier.send(requests.processes(self.id))).processes

    async def end_process(self, pid: int) -> ProcessesEnded:
        return await self._carrier.send(requests.end_process(self.id, pid))

    async def end_orphans(self) -> ProcessesEnded:
        return await self._carrier.send(requests.end_orphans(self.id))

    def terminal(self, name: str = "main") -> AsyncTerminal:
        """A terminal of this name, which is made if it is not there."""
        # Loaded late: few programs have a use for it.
        from interpreter.client.async_terminal import AsyncTerminal

        return AsyncTerminal(self._carrier, self.id, name)

    async def terminals(self) -> list[TerminalInfo]:
        found = await self._carrier.send(command_requests.terminals(self.id))
        return found.terminals

    async def delete(self) -> models.SessionDeleted:
        return await self._carrier.send(requests.delete_session(self.id))

    async def contexts(self) -> list[models.Context]:
        return (await self._carrier.send(requests.contexts(self.id))).contexts

    async def create_context(self, name: str | None = None) -> models.Context:
        return await self._carrier.send(requests.create_context(self.id, name))

    async def delete_context(self, name: str) -> None:
        await self._carrier.send(requests.delete_context(self.id, name))

    def context(self, name: str | None = None) -> Opening[AsyncContext]:
        """To be awaited, or entered with `async with`."""
        return Opening(self._open_context(name))

    async def _open_context(self, name: str | None) -> AsyncContext:
        try:
            made = await self.create_context(name)
        except ContextExists:
            return AsyncContext(self, str(name))
        return AsyncContext(self, made.name, delete_on_exit=True)

    async def __aenter__(self) -> AsyncSession:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if not self._delete_on_exit:
            return
        try:
            await self.delete()
        except SessionNotFound:
            pass
        except InterpreterError:
            if error is None:
                raise

    def __repr__(self) -> str:
        return f"<AsyncSession {self.id} {self.info.state.value}>"

    async def _update(self, call: Call[models.Session]) -> models.Session:
        self.info = await self._carrier.send(call)
        return self.info


class AsyncContext(AsyncCells):
    """One of the kernels of a session; see `session.Context`."""

    def __init__(self, session: AsyncSession, name: str, *, delete_on_exit: bool = False) -> None:
        super().__init__(session._carrier, session.id, name)
        self.session = session
        self.name = name
        self._delete_on_exit = delete_on_exit

    async def interrupt(self) -> None:
        await self.session.interrupt(self.name)

    async def restart(self) -> None:
        await self.session.restart(self.name)

    async def delete(self) -> None:
        await self.session.delete_context(self.name)

    async def __aenter__(self) -> AsyncContext:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if not self._delete_on_exit:
            return
        try:
            await self.delete()
        except (ContextNotFound, SessionNotFound, WrongState):
            pass  # it is gone, or its session is stopped and all contexts with it
        except InterpreterError:
            if error is None:
                raise

    def __repr__(self) -> str:
        return f"<AsyncContext {self.name} of {self.session.id}>"
