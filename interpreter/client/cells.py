"""Running cells, and finding those that ran: what sessions and their contexts have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from interpreter.client import cell_requests
from interpreter.client.carrier import Carrier
from interpreter.client.follow import ExecutionFollow, SessionFollow, fate_unknown, still_running
from interpreter.client.result import Result
from interpreter.client.stdin import Ask, Input, answers
from interpreter.errors import ExecutionNotFound, InputNotExpected, InterpreterError
from interpreter.models import Event, EventType, Execution, ExecutionCreate


class Cells:
    """Cells of one session; they run in its context `context` unless they name another.

    A cell whose answer is lost is sent again with the same key, which runs it once.
    """

    def __init__(self, carrier: Carrier, session_id: str, context: str) -> None:
        self._carrier = carrier
        self._session_id = session_id
        self._context = context

    def run(
        self,
        code: str,
        *,
        context: str | None = None,
        timeout: float | None = None,
        input: Input | None = None,
        store_history: bool = True,
        max_output_bytes: int | None = None,
        on_event: Callable[[Event], object] | None = None,
    ) -> Result:
        """Runs a cell to its end. A cell that fails is a result with `error` set."""
        if input is not None or on_event is not None:
            events = self.stream(
                code,
                context=context,
                timeout=timeout,
                input=input,
                store_history=store_history,
                max_output_bytes=max_output_bytes,
            )
            for event in events:
                if on_event is not None:
                    on_event(event)
            return self.result(event)
        return self._execute(
            ExecutionCreate(
                code=code,
                context=context or self._context,
                by=self._carrier.wire.by,
                timeout=timeout,
                store_history=store_history,
                max_output_bytes=max_output_bytes,
            )
        )

    def stream(
        self,
        code: str,
        *,
        context: str | None = None,
        timeout: float | None = None,
        input: Input | None = None,
        allow_stdin: bool = False,
        store_history: bool = True,
        max_output_bytes: int | None = None,
        cancel_on_disconnect: bool = False,
    ) -> Iterator[Event]:
        """Runs a cell, from the first step of the loop on, and yields what happens; `done` is last.

        With `allow_stdin` instead of `input` the caller answers `input_request` with `answer`."""
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
        ask = None if input is None else answers(input)
        follow = ExecutionFollow(self._session_id, cell, self._carrier.reconnect)
        for event in self._carrier.follow(follow):
            yield event
            if ask is not None and event.type is EventType.input_request:
                self._reply(event, ask)

    def submit(
        self,
        code: str,
        *,
        context: str | None = None,
        timeout: float | None = None,
        store_history: bool = True,
    ) -> Result:
        """Queues a cell and returns at once; `execution(result.id, wait=True)` waits for it."""
        return self._execute(
            ExecutionCreate(
                code=code,
                context=context or self._context,
                by=self._carrier.wire.by,
                timeout=timeout,
                store_history=store_history,
                wait=False,
            )
        )

    def execution(self, execution_id: str, *, wait: bool = False) -> Result:
        """A past, running or queued cell. `wait` returns when it has ended."""
        call = cell_requests.execution(self._session_id, execution_id, wait)
        try:
            return self._result(self._carrier.send(call))
        except InterpreterError as e:
            raise still_running(execution_id, e) from None

    def executions(self, *, limit: int | None = None, after: str | None = None) -> list[Result]:
        """The session's cells, oldest first, from the one after `after`."""
        found = self._carrier.send(cell_requests.executions(self._session_id, limit, after))
        return [self._result(execution) for execution in found.executions]

    def events(self, after: int = 0, *, follow: bool = True) -> Iterator[Event]:
        """All that happened in the session, whoever did it, and all that will while `follow`."""
        return self._carrier.follow(
            SessionFollow(self._session_id, after, follow, self._carrier.reconnect)
        )

    def extend(self, execution_id: str, timeout: float) -> Result:
        """Gives a queued or running cell another timeout, counted from its start."""
        return self._result(
            self._carrier.send(cell_requests.extend(self._session_id, execution_id, timeout))
        )

    def cancel(self, execution_id: str) -> Result:
        """Ends a queued or running cell."""
        return self._result(self._carrier.send(cell_requests.cancel(self._session_id, execution_id)))

    def answer(self, execution_id: str, value: str) -> None:
        """Answers an `input_request`."""
        self._carrier.send(cell_requests.answer(self._session_id, execution_id, value))

    def result(self, done: Event) -> Result:
        """The result that a `done` event carries."""
        return self._result(Result.of(done).execution)

    def output(self, execution_id: str) -> Iterator[bytes]:
        """The whole text output of a cell, also where its result was cut."""
        return self._carrier.read(cell_requests.output(self._session_id, execution_id))

    def save_output(self, execution_id: str, path: str | Path) -> Path:
        path = Path(path)
        with path.open("wb") as file:
            file.writelines(self.output(execution_id))
        return path

    def _result(self, execution: Execution) -> Result:
        return Result(execution, self._carrier)

    def _execute(self, cell: ExecutionCreate) -> Result:
        try:
            return self._result(self._carrier.send(cell_requests.execute(self._session_id, cell)))
        except InterpreterError as e:
            raise fate_unknown(self._session_id, e) from None

    def _reply(self, event: Event, ask: Ask) -> None:
        execution_id = str(event.execution_id)
        try:
            value = ask(event.data["prompt"], event.data["password"])
        except BaseException:
            with suppress(InterpreterError):
                self.cancel(execution_id)
            raise
        call = cell_requests.answer(self._session_id, execution_id, value)
        # It may have ended by now; and sent again after a break, the first may have arrived.
        with suppress(InputNotExpected, ExecutionNotFound):
            self._carrier.send(replace(call, repeatable=True))
