"""The SDK for programs that wait.

`Client` is a gateway, `Session` one of its sessions. Both may be used from several threads. What
they do is decided in `requests`, `follow` and `result`; `aio` has the same with `await`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx
from msgspec.structs import replace

from interpreter import models
from interpreter.client import lookup, requests
from interpreter.client.carrier import Carrier
from interpreter.client.follow import ExecutionFollow, SessionFollow, fate_unknown, still_running
from interpreter.client.place import locate
from interpreter.client.requests import Call
from interpreter.client.result import Result
from interpreter.client.stdin import Ask, Input, answers
from interpreter.client.wire import Wire
from interpreter.errors import ExecutionNotFound, InputNotExpected, InterpreterError, SessionNotFound
from interpreter.models import Event, EventType, ExecutionCreate, LimitsRequest


class Client:
    """A gateway. `timeout` bounds ordinary answers, never the wait for a cell; `reconnect` is for
    how many seconds a cell is looked for again when the gateway goes away."""

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        timeout: float = 60.0,
        reconnect: float = 30.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._carrier = Carrier(Wire(locate(url, token), timeout), reconnect, transport)

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
    ) -> Session:
        """A new session that is deleted at the end of its `with` block. With an `id` (or the name
        of a session), that session, which is left as it is."""
        if id is not None:
            return Session(self._carrier, self._find(id))
        call = requests.create_session(name, environment, labels, limits)
        return Session(self._carrier, self._carrier.send(call), delete_on_exit=True)

    def create_session(
        self,
        *,
        name: str | None = None,
        environment: str | None = None,
        labels: Mapping[str, str] | None = None,
        limits: LimitsRequest | Mapping[str, Any] | None = None,
    ) -> Session:
        """A new session that stays until it is deleted."""
        call = requests.create_session(name, environment, labels, limits)
        return Session(self._carrier, self._carrier.send(call))

    def sessions(self) -> list[models.Session]:
        return self._carrier.send(requests.sessions()).sessions

    def health(self) -> models.Health:
        return self._carrier.send(requests.health())

    def close(self) -> None:
        self._carrier.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _find(self, wanted: str) -> models.Session:
        try:
            return self._carrier.send(requests.session(wanted))
        except SessionNotFound:
            return lookup.find(self.sessions(), wanted)


class Session:
    """A live session: cells run one after another and see what earlier ones left in memory."""

    def __init__(self, carrier: Carrier, info: models.Session, *, delete_on_exit: bool = False) -> None:
        self.info = info
        """What was last known of it; `refresh` asks again."""
        self._carrier = carrier
        self._delete_on_exit = delete_on_exit

    @property
    def id(self) -> str:
        return self.info.id

    def run(
        self,
        code: str,
        *,
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
                timeout=timeout,
                input=input,
                store_history=store_history,
                max_output_bytes=max_output_bytes,
            )
            for event in events:
                if on_event is not None:
                    on_event(event)
            return Result.of(event)
        cell = ExecutionCreate(
            code=code, timeout=timeout, store_history=store_history, max_output_bytes=max_output_bytes
        )
        if not requests.outlasts_a_connection(cell):
            return self._submit(cell)
        return self.execution(self._submit(replace(cell, wait=False)).id, wait=True)

    def stream(
        self,
        code: str,
        *,
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
            timeout=timeout,
            store_history=store_history,
            allow_stdin=allow_stdin or input is not None,
            cancel_on_disconnect=cancel_on_disconnect,
            max_output_bytes=max_output_bytes,
        )
        ask = None if input is None else answers(input)
        for event in self._carrier.follow(ExecutionFollow(self.id, cell, self._carrier.reconnect)):
            yield event
            if ask is not None and event.type is EventType.input_request:
                self._reply(event, ask)

    def submit(self, code: str, *, timeout: float | None = None, store_history: bool = True) -> Result:
        """Queues a cell and returns at once; `execution(result.id, wait=True)` waits for it."""
        return self._submit(
            ExecutionCreate(code=code, timeout=timeout, store_history=store_history, wait=False)
        )

    def execution(self, execution_id: str, *, wait: bool = False) -> Result:
        """A past, running or queued cell. `wait` returns when it has ended."""
        call = requests.execution(self.id, execution_id, wait)
        if not wait:
            return Result(self._carrier.send(call))
        try:
            return Result(self._carrier.send_until_answered(call))
        except InterpreterError as e:
            raise still_running(execution_id, e) from None

    def executions(self, *, limit: int | None = None, after: str | None = None) -> list[Result]:
        """The session's cells, oldest first, from the one after `after`."""
        found = self._carrier.send(requests.executions(self.id, limit, after))
        return [Result(execution) for execution in found.executions]

    def events(self, after: int = 0, *, follow: bool = True) -> Iterator[Event]:
        """All that happened in the session, whoever did it, and all that will while `follow`."""
        return self._carrier.follow(SessionFollow(self.id, after, follow, self._carrier.reconnect))

    def cancel(self, execution_id: str) -> Result:
        """Ends a queued or running cell."""
        return Result(self._carrier.send(requests.cancel(self.id, execution_id)))

    def answer(self, execution_id: str, value: str) -> None:
        """Answers an `input_request`."""
        self._carrier.send(requests.answer(self.id, execution_id, value))

    def output(self, execution_id: str) -> Iterator[bytes]:
        """The whole text output of a cell, also where its result was cut."""
        return self._carrier.read(requests.output(self.id, execution_id))

    def save_output(self, execution_id: str, path: str | Path) -> Path:
        path = Path(path)
        with path.open("wb") as file:
            file.writelines(self.output(execution_id))
        return path

    def refresh(self) -> models.Session:
        return self._update(requests.session(self.id))

    def interrupt(self) -> models.Session:
        """Interrupts the cell that runs, as Ctrl-C would."""
        return self._update(requests.interrupt(self.id))

    def restart(self) -> models.Session:
        """A fresh kernel: what was in memory is gone, files stay."""
        return self._update(requests.restart(self.id))

    def delete(self) -> models.SessionDeleted:
        return self._carrier.send(requests.delete_session(self.id))

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if not self._delete_on_exit:
            return
        try:
            self.delete()
        except SessionNotFound:
            pass
        except InterpreterError:
            if error is None:
                raise

    def __repr__(self) -> str:
        return f"<Session {self.id} {self.info.state.value}>"

    def _submit(self, cell: ExecutionCreate) -> Result:
        try:
            return Result(self._carrier.send(requests.execute(self.id, cell)))
        except InterpreterError as e:
            raise fate_unknown(self.id, e) from None

    def _reply(self, event: Event, ask: Ask) -> None:
        execution_id = str(event.execution_id)
        try:
            value = ask(event.data["prompt"], event.data["password"])
        except BaseException:
            with suppress(InterpreterError):
                self.cancel(execution_id)
            raise
        # It may have ended by now; and sent again after a break, the first may have arrived.
        with suppress(InputNotExpected, ExecutionNotFound):
            self._carrier.send_until_answered(requests.answer(self.id, execution_id, value))

    def _update(self, call: Call[models.Session]) -> models.Session:
        self.info = self._carrier.send(call)
        return self.info
