"""The SDK for programs that await.

The same as `sync`, word for word, with `await`; read there what each method is for.

    async with AsyncClient() as client, client.session() as s:
        print((await s.run("6 * 7")).text)
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import aclosing, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx
from msgspec.structs import replace

from interpreter import models
from interpreter.client import lookup, requests
from interpreter.client.async_carrier import AsyncCarrier
from interpreter.client.follow import ExecutionFollow, SessionFollow, fate_unknown, still_running
from interpreter.client.place import locate
from interpreter.client.requests import Call
from interpreter.client.result import Result
from interpreter.client.stdin import AsyncAsk, AsyncInput, async_answers
from interpreter.client.wire import Wire
from interpreter.errors import ExecutionNotFound, InputNotExpected, InterpreterError, SessionNotFound
from interpreter.models import Event, EventType, ExecutionCreate, LimitsRequest


class AsyncClient:
    """A gateway; see `sync.Client`."""

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        timeout: float = 60.0,
        reconnect: float = 30.0,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._carrier = AsyncCarrier(Wire(locate(url, token), timeout), reconnect, transport)

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
        limits: LimitsRequest | Mapping[str, Any] | None = None,
    ) -> OpeningSession:
        """To be awaited, or entered with `async with`."""
        if id is not None:
            return OpeningSession(self._join(id))
        call = requests.create_session(name, environment, labels, limits)
        return OpeningSession(self._create(call, delete_on_exit=True))

    async def create_session(
        self,
        *,
        name: str | None = None,
        environment: str | None = None,
        labels: Mapping[str, str] | None = None,
        limits: LimitsRequest | Mapping[str, Any] | None = None,
    ) -> AsyncSession:
        call = requests.create_session(name, environment, labels, limits)
        return await self._create(call, delete_on_exit=False)

    async def sessions(self) -> list[models.Session]:
        return (await self._carrier.send(requests.sessions())).sessions

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
            info = lookup.find(await self.sessions(), wanted)
        return AsyncSession(self._carrier, info)


class AsyncSession:
    """A live session; see `sync.Session`."""

    def __init__(
        self, carrier: AsyncCarrier, info: models.Session, *, delete_on_exit: bool = False
    ) -> None:
        self.info = info
        self._carrier = carrier
        self._delete_on_exit = delete_on_exit

    @property
    def id(self) -> str:
        return self.info.id

    async def run(
        self,
        code: str,
        *,
        timeout: float | None = None,
        input: AsyncInput | None = None,
        store_history: bool = True,
        max_output_bytes: int | None = None,
        on_event: Callable[[Event], object] | None = None,
    ) -> Result:
        """`on_event` may be a coroutine function, and so may a function given as `input`."""
        if input is not None or on_event is not None:
            events = self.stream(
                code,
                timeout=timeout,
                input=input,
                store_history=store_history,
                max_output_bytes=max_output_bytes,
            )
            async with aclosing(events):
                async for event in events:
                    if on_event is not None and inspect.isawaitable(seen := on_event(event)):
                        await seen
            return Result.of(event)
        cell = ExecutionCreate(
            code=code, timeout=timeout, store_history=store_history, max_output_bytes=max_output_bytes
        )
        if not requests.outlasts_a_connection(cell):
            return await self._submit(cell)
        return await self.execution((await self._submit(replace(cell, wait=False))).id, wait=True)

    async def stream(
        self,
        code: str,
        *,
        timeout: float | None = None,
        input: AsyncInput | None = None,
        allow_stdin: bool = False,
        store_history: bool = True,
        max_output_bytes: int | None = None,
        cancel_on_disconnect: bool = False,
    ) -> AsyncGenerator[Event, None]:
        cell = ExecutionCreate(
            code=code,
            timeout=timeout,
            store_history=store_history,
            allow_stdin=allow_stdin or input is not None,
            cancel_on_disconnect=cancel_on_disconnect,
            max_output_bytes=max_output_bytes,
        )
        ask = None if input is None else async_answers(input)
        follow = ExecutionFollow(self.id, cell, self._carrier.reconnect)
        async with aclosing(self._carrier.follow(follow)) as events:
            async for event in events:
                yield event
                if ask is not None and event.type is EventType.input_request:
                    await self._reply(event, ask)

    async def submit(
        self, code: str, *, timeout: float | None = None, store_history: bool = True
    ) -> Result:
        return await self._submit(
            ExecutionCreate(code=code, timeout=timeout, store_history=store_history, wait=False)
        )

    async def execution(self, execution_id: str, *, wait: bool = False) -> Result:
        call = requests.execution(self.id, execution_id, wait)
        if not wait:
            return Result(await self._carrier.send(call))
        try:
            return Result(await self._carrier.send_until_answered(call))
        except InterpreterError as e:
            raise still_running(execution_id, e) from None

    async def executions(self, *, limit: int | None = None, after: str | None = None) -> list[Result]:
        found = await self._carrier.send(requests.executions(self.id, limit, after))
        return [Result(execution) for execution in found.executions]

    def events(self, after: int = 0, *, follow: bool = True) -> AsyncGenerator[Event, None]:
        return self._carrier.follow(SessionFollow(self.id, after, follow, self._carrier.reconnect))

    async def cancel(self, execution_id: str) -> Result:
        return Result(await self._carrier.send(requests.cancel(self.id, execution_id)))

    async def answer(self, execution_id: str, value: str) -> None:
        await self._carrier.send(requests.answer(self.id, execution_id, value))

    def output(self, execution_id: str) -> AsyncGenerator[bytes, None]:
        return self._carrier.read(requests.output(self.id, execution_id))

    async def save_output(self, execution_id: str, path: str | Path) -> Path:
        path = Path(path)
        with await asyncio.to_thread(path.open, "wb") as file:
            async for chunk in self.output(execution_id):
                file.write(chunk)
        return path

    async def refresh(self) -> models.Session:
        return await self._update(requests.session(self.id))

    async def interrupt(self) -> models.Session:
        return await self._update(requests.interrupt(self.id))

    async def restart(self) -> models.Session:
        return await self._update(requests.restart(self.id))

    async def delete(self) -> models.SessionDeleted:
        return await self._carrier.send(requests.delete_session(self.id))

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

    async def _submit(self, cell: ExecutionCreate) -> Result:
        try:
            return Result(await self._carrier.send(requests.execute(self.id, cell)))
        except InterpreterError as e:
            raise fate_unknown(self.id, e) from None

    async def _reply(self, event: Event, ask: AsyncAsk) -> None:
        execution_id = str(event.execution_id)
        try:
            said = ask(event.data["prompt"], event.data["password"])
            value = said if isinstance(said, str) else await said
        except BaseException:
            with suppress(InterpreterError):
                await self.cancel(execution_id)
            raise
        with suppress(InputNotExpected, ExecutionNotFound):
            await self._carrier.send_until_answered(requests.answer(self.id, execution_id, value))

    async def _update(self, call: Call[models.Session]) -> models.Session:
        self.info = await self._carrier.send(call)
        return self.info


class OpeningSession:
    """A session on its way: `await` gives it, `async with` also closes it at the end."""

    def __init__(self, opening: Awaitable[AsyncSession]) -> None:
        self._opening = opening

    def __await__(self) -> Generator[Any, None, AsyncSession]:
        return self._opening.__await__()

    async def __aenter__(self) -> AsyncSession:
        self._session = await self._opening
        return await self._session.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self._session.__aexit__(kind, error, tb)
