"""Running cells, and finding those that ran: the same as `cells`, with `await`."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from dataclasses import replace
from pathlib import Path

from interpreter.client import cell_requests
from interpreter.client.async_carrier import AsyncCarrier
from interpreter.client.async_result import AsyncResult
from interpreter.client.follow import ExecutionFollow, SessionFollow, fate_unknown, still_running
from interpreter.client.stdin import AsyncAsk, AsyncInput, async_answers
from interpreter.errors import ExecutionNotFound, InputNotExpected, InterpreterError
from interpreter.models import Event, EventType, Execution, ExecutionCreate


class AsyncCells:
    """Cells of one session; see `cells.Cells`."""

    def __init__(self, carrier: AsyncCarrier, session_id: str, context: str) -> None:
        self._carrier = carrier
        self._session_id = session_id
        self._context = context

    async def run(
        self,
        code: str,
        *,
        context: str | None = None,
        timeout: float | None = None,
        input: AsyncInput | None = None,
        store_history: bool = True,
        max_output_bytes: int | None = None,
        on_event: Callable[[Event], object] | None = None,
    ) -> AsyncResult:
        """`on_event` may be a coroutine function, and so may a function given as `input`."""
        if input is not None or on_event is not None:
            events = self.stream(
                code,
                context=context,
                timeout=timeout,
                input=input,
                store_history=store_history,
                max_output_bytes=max_output_bytes,
            )
            async with aclosing(events):
                async for event in events:
                    if on_event is not None and inspect.isawaitable(seen := on_event(event)):
                        await seen
            return self.result(event)
        return await self._execute(
            ExecutionCreate(
                code=code,
                context=context or self._context,
                by=self._carrier.wire.by,
                timeout=timeout,
                store_history=store_history,
                max_output_bytes=max_output_bytes,
            )
        )

    async def stream(
        self,
        code: str,
        *,
        context: str | None = None,
        timeout: float | None = None,
        input: AsyncInput | None = None,
        allow_stdin: bool = False,
        store_history: bool = True,
        max_output_bytes: int | None = None,
        cancel_on_disconnect: bool = False,
    ) -> AsyncGenerator[Event, None]:
        cell = ExecutionCreate(
            code=code,
            context=context or self._context,
            by=self._carrier.wire.by,
            timeout=timeout,
            store_history=store_history,
            allow_stdin=allow_stdin or input is not None,
            cancel_on_disconnect=cancel_on_disconnect,
            max_output_bytes=max_output_bytes,
        )
        ask = None if input is None else async_answers(input)
        follow = ExecutionFollow(self._session_id, cell, self._carrier.reconnect)
        async with aclosing(self._carrier.follow(follow)) as events:
            async for event in events:
                yield event
                if ask is not None and event.type is EventType.input_request:
                    await self._reply(event, ask)

    async def submit(
        self,
        code: str,
        *,
        context: str | None = None,
        timeout: float | None = None,
        store_history: bool = True,
    ) -> AsyncResult:
        return await self._execute(
            ExecutionCreate(
                code=code,
                context=context or self._context,
                by=self._carrier.wire.by,
                timeout=timeout,
                store_history=store_history,
                wait=False,
            )
        )

    async def execution(self, execution_id: str, *, wait: bool = False) -> AsyncResult:
        call = cell_requests.execution(self._session_id, execution_id, wait)
        try:
            return self._result(await self._carrier.send(call))
        except InterpreterError as e:
            raise still_running(execution_id, e) from None

    async def executions(
        self, *, limit: int | None = None, after: str | None = None
    ) -> list[AsyncResult]:
        found = await self._carrier.send(cell_requests.executions(self._session_id, limit, after))
        return [self._result(execution) for execution in found.executions]

    def events(self, after: int = 0, *, follow: bool = True) -> AsyncGenerator[Event, None]:
        return self._carrier.follow(
            SessionFollow(self._session_id, after, follow, self._carrier.reconnect)
        )

    async def extend(self, execution_id: str, timeout: float) -> AsyncResult:
        return self._result(
            await self._carrier.send(cell_requests.extend(self._session_id, execution_id, timeout))
        )

    async def cancel(self, execution_id: str) -> AsyncResult:
        return self._result(
            await self._carrier.send(cell_requests.cancel(self._session_id, execution_id))
        )

    async def answer(self, execution_id: str, value: str) -> None:
        await self._carrier.send(cell_requests.answer(self._session_id, execution_id, value))

    def result(self, done: Event) -> AsyncResult:
        """The result that a `done` event carries."""
        return self._result(AsyncResult.of(done).execution)

    def output(self, execution_id: str) -> AsyncGenerator[bytes, None]:
        return self._carrier.read(cell_requests.output(self._session_id, execution_id))

    async def save_output(self, execution_id: str, path: str | Path) -> Path:
        path = Path(path)
        with await asyncio.to_thread(path.open, "wb") as file:
            async for chunk in self.output(execution_id):
                file.write(chunk)
        return path

    def _result(self, execution: Execution) -> AsyncResult:
        return AsyncResult(execution, self._carrier)

    async def _execute(self, cell: ExecutionCreate) -> AsyncResult:
        try:
            return self._result(await self._carrier.send(cell_requests.execute(self._session_id, cell)))
        except InterpreterError as e:
            raise fate_unknown(self._session_id, e) from None

    async def _reply(self, event: Event, ask: AsyncAsk) -> None:
        execution_id = str(event.execution_id)
        try:
            said = ask(event.data["prompt"], event.data["password"])
            value = said if isinstance(said, str) else await said
        except BaseException:
            with suppress(InterpreterError):
                await self.cancel(execution_id)
            raise
        call = cell_requests.answer(self._session_id, execution_id, value)
        with suppress(InputNotExpected, ExecutionNotFound):
            await self._carrier.send(replace(call, repeatable=True))
