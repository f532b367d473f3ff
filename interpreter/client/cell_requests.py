"""What the SDK asks about cells and events.

Every cell goes with an `Idempotency-Key` of its own: sent again with it, it is not run again. That
is what makes it safe to repeat a call whose answer was lost.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from interpreter import models
from interpreter.client.call import Call, Nothing, session_path

EVENTS = "text/event-stream"
KEEP_ALIVE_LIMIT = 60.0
"""Seconds of silence after which a connection counts as broken; on event streams the gateway sends
something every 15."""


def execute(session_id: str, cell: models.ExecutionCreate) -> Call[models.Execution]:
    """A new cell; answers when it has ended, or at once when `cell.wait` is False.

    A silent wait is renewed now and then instead of trusted for ever.
    """
    return Call(
        method="POST",
        path=session_path(session_id, "executions"),
        body=models.to_json(cell),
        answer=models.Execution,
        headers=_new_key(),
        silence=KEEP_ALIVE_LIMIT,
        repeatable=True,
    )


def execute_streamed(session_id: str, cell: models.ExecutionCreate) -> Call[None]:
    return Call(
        method="POST",
        path=session_path(session_id, "executions"),
        body=models.to_json(cell),
        answer=Nothing,
        headers={"Accept": EVENTS, **_new_key()},
        silence=KEEP_ALIVE_LIMIT,
        repeatable=True,
    )


def _new_key() -> dict[str, str]:
    return {"Idempotency-Key": secrets.token_hex(16)}


def execution(session_id: str, execution_id: str, wait: bool) -> Call[models.Execution]:
    return Call(
        method="GET",
        path=session_path(session_id, "executions", execution_id),
        params={"wait": "true" if wait else "false"},
        answer=models.Execution,
        silence=KEEP_ALIVE_LIMIT if wait else None,
        repeatable=True,
    )


def executions(session_id: str, limit: int | None, after: str | None) -> Call[models.ExecutionList]:
    given = {"limit": limit, "after": after}
    return Call(
        method="GET",
        path=session_path(session_id, "executions"),
        params={k: str(v) for k, v in given.items() if v is not None},
        answer=models.ExecutionList,
        repeatable=True,
    )


def extend(session_id: str, execution_id: str, timeout: float) -> Call[models.Execution]:
    return Call(
        method="PATCH",
        path=session_path(session_id, "executions", execution_id),
        body=models.to_json(models.ExecutionUpdate(timeout=timeout)),
        answer=models.Execution,
        waits=True,
        repeatable=True,
    )


def cancel(session_id: str, execution_id: str) -> Call[models.Execution]:
    return Call(
        method="DELETE",
        path=session_path(session_id, "executions", execution_id),
        answer=models.Execution,
        waits=True,
        repeatable=True,
    )


def answer(session_id: str, execution_id: str, value: str) -> Call[None]:
    return Call(
        method="POST",
        path=session_path(session_id, "executions", execution_id, "input"),
        body=models.to_json(models.InputReply(value=value)),
        answer=Nothing,
    )


def output(session_id: str, execution_id: str) -> Call[None]:
    return Call(
        method="GET",
        path=session_path(session_id, "executions", execution_id, "output"),
        answer=Nothing,
    )


def execution_events(session_id: str, execution_id: str, after: int) -> Call[None]:
    return _events(session_path(session_id, "executions", execution_id, "events"), after, {})


def session_events(session_id: str, after: int, follow: bool) -> Call[None]:
    params = {} if follow else {"follow": "false"}
    return _events(session_path(session_id, "events"), after, params)


def _events(path: str, after: int, params: Mapping[str, str]) -> Call[None]:
    return Call(
        method="GET",
        path=path,
        params=params,
        answer=Nothing,
        headers={"Accept": EVENTS, "Last-Event-ID": str(after)},
        silence=KEEP_ALIVE_LIMIT,
        repeatable=True,
    )
