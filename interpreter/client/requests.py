"""Every request the SDK makes, as a value.

A `Call` says what to send and what type the answer has. These functions are all the SDK knows
about the gateway's paths; the shells in `sync` and `aio` only carry calls there and back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import msgspec

from interpreter import models
from interpreter.client.errors import ConnectionLost, GatewayUnreachable, with_hint
from interpreter.errors import BY_CODE, InterpreterError, InvalidRequest

T = TypeVar("T")
Nothing = type(None)
EVENTS = "text/event-stream"
KEEP_ALIVE_LIMIT = 60.0
"""Seconds of silence after which an event stream counts as broken; the gateway sends every 15."""

LONG_CELL = 30.0


@dataclass(frozen=True, kw_only=True)
class Call(Generic[T]):
    """One request and the type of its answer."""

    method: str
    path: str
    answer: type[T]
    body: bytes | None = None
    params: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    waits: bool = False
    """Whether the answer comes when a sandbox is done, however long that takes."""
    silence: float | None = None
    """Seconds without a byte after which the connection counts as broken; None: the client's."""

    def read(self, status: int, body: bytes) -> T:
        """The answer, or the error that it carries."""
        if status >= 400:
            raise with_hint(_error(status, body))
        if self.answer is Nothing:
            return None  # type: ignore[return-value]
        try:
            return msgspec.json.decode(body, type=self.answer)
        except (msgspec.DecodeError, UnicodeDecodeError) as e:
            raise GatewayUnreachable(
                f"Something answered, but not as a gateway does ({e}).",
                "Check the URL: another program may be listening there.",
            ) from None


def _error(status: int, body: bytes) -> InterpreterError:
    try:
        said = msgspec.json.decode(body, type=models.ErrorAnswer).error
    except (msgspec.DecodeError, UnicodeDecodeError):
        if status in (502, 503, 504):  # a proxy whose gateway is away
            return ConnectionLost(f"A proxy answered {status}: the gateway is away.")
        return InterpreterError(
            f"The answer has status {status} and no explanation.",
            "Check the URL: another program may be listening there.",
        )
    return BY_CODE.get(said.code, InterpreterError)(said.message, said.hint)


def health() -> Call[models.Health]:
    return Call(method="GET", path="/healthz", answer=models.Health)


def create_session(
    name: str | None,
    environment: str | None,
    labels: Mapping[str, str] | None,
    limits: models.LimitsRequest | Mapping[str, Any] | None,
) -> Call[models.Session]:
    try:
        wanted = msgspec.convert(limits or {}, models.LimitsRequest)
    except msgspec.ValidationError as e:
        raise InvalidRequest(f"The limits are wrong: {e}.", "See interpreter.models.Limits.") from None
    body = models.SessionCreate(
        name=name, environment=environment, labels=dict(labels or {}), limits=wanted
    )
    return Call(
        method="POST", path="/v1/sessions", body=models.to_json(body), answer=models.Session, waits=True
    )


def sessions() -> Call[models.SessionList]:
    return Call(method="GET", path="/v1/sessions", answer=models.SessionList)


def session(session_id: str) -> Call[models.Session]:
    return Call(method="GET", path=_session(session_id), answer=models.Session)


def delete_session(session_id: str) -> Call[models.SessionDeleted]:
    return Call(method="DELETE", path=_session(session_id), answer=models.SessionDeleted, waits=True)


def interrupt(session_id: str) -> Call[models.Session]:
    return Call(method="POST", path=_session(session_id, "interrupt"), answer=models.Session, waits=True)


def restart(session_id: str) -> Call[models.Session]:
    return Call(method="POST", path=_session(session_id, "restart"), answer=models.Session, waits=True)


def execute(session_id: str, cell: models.ExecutionCreate) -> Call[models.Execution]:
    """Runs a cell; answers when it has ended, or at once when `cell.wait` is False."""
    return Call(
        method="POST",
        path=_session(session_id, "executions"),
        body=models.to_json(cell),
        answer=models.Execution,
        waits=True,
    )


def outlasts_a_connection(cell: models.ExecutionCreate) -> bool:
    """Whether to submit a cell and then wait for it, which survives a broken connection.

    One request that runs and answers is a round trip quicker, and right for a short cell.
    """
    return cell.timeout is not None and cell.timeout > LONG_CELL


def execute_streamed(session_id: str, cell: models.ExecutionCreate) -> Call[None]:
    return Call(
        method="POST",
        path=_session(session_id, "executions"),
        body=models.to_json(cell),
        answer=Nothing,
        headers={"Accept": EVENTS},
        silence=KEEP_ALIVE_LIMIT,
    )


def execution(session_id: str, execution_id: str, wait: bool) -> Call[models.Execution]:
    """Safe to send again, so a silent wait is renewed now and then instead of trusted for ever."""
    return Call(
        method="GET",
        path=_session(session_id, "executions", execution_id),
        params={"wait": "true" if wait else "false"},
        answer=models.Execution,
        silence=KEEP_ALIVE_LIMIT if wait else None,
    )


def executions(session_id: str, limit: int | None, after: str | None) -> Call[models.ExecutionList]:
    given = {"limit": limit, "after": after}
    return Call(
        method="GET",
        path=_session(session_id, "executions"),
        params={k: str(v) for k, v in given.items() if v is not None},
        answer=models.ExecutionList,
    )


def cancel(session_id: str, execution_id: str) -> Call[models.Execution]:
    return Call(
        method="DELETE",
        path=_session(session_id, "executions", execution_id),
        answer=models.Execution,
        waits=True,
    )


def answer(session_id: str, execution_id: str, value: str) -> Call[None]:
    return Call(
        method="POST",
        path=_session(session_id, "executions", execution_id, "input"),
        body=models.to_json(models.InputReply(value=value)),
        answer=Nothing,
    )


def output(session_id: str, execution_id: str) -> Call[None]:
    return Call(
        method="GET", path=_session(session_id, "executions", execution_id, "output"), answer=Nothing
    )


def execution_events(session_id: str, execution_id: str, after: int) -> Call[None]:
    return _events(_session(session_id, "executions", execution_id, "events"), after, {})


def session_events(session_id: str, after: int, follow: bool) -> Call[None]:
    params = {} if follow else {"follow": "false"}
    return _events(_session(session_id, "events"), after, params)


def _events(path: str, after: int, params: Mapping[str, str]) -> Call[None]:
    return Call(
        method="GET",
        path=path,
        params=params,
        answer=Nothing,
        headers={"Accept": EVENTS, "Last-Event-ID": str(after)},
        silence=KEEP_ALIVE_LIMIT,
    )


def _session(session_id: str, *more: str) -> str:
    return "/v1/sessions/" + "/".join(quote(part, safe="") for part in (session_id, *more))
