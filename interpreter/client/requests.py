"""What the SDK asks of a gateway, its sessions and their contexts.

With `cell_requests` these functions are all the SDK knows about the gateway's paths; the shells
around them only carry calls there and back. What leaves a session as it is when it is asked twice
is `repeatable`; what finds a session in the first place is not, so that a wrong address is told
at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import UNSET, UnsetType

from interpreter import models
from interpreter.client.call import Call, Nothing, session_path
from interpreter.client.notebook import NotebookGiven, read_notebook
from interpreter.errors import InvalidRequest
from interpreter.models.embeds import Embed, EmbedCreate
from interpreter.models.processes import ProcessesEnded, ProcessList

DEFAULT = "default"
"""The context that every session has."""
PAGE = 1000

LimitsGiven = models.LimitsRequest | Mapping[str, Any]


def health() -> Call[models.Health]:
    return Call(method="GET", path="/healthz", answer=models.Health)


def status() -> Call[models.GatewayStatus]:
    return Call(method="GET", path="/v1/status", answer=models.GatewayStatus)


def audit(session_id: str | None, after: int | None, limit: int) -> Call[models.AuditLog]:
    given = {"session": session_id, "after": after, "limit": limit}
    params = {k: str(v) for k, v in given.items() if v is not None}
    return Call(method="GET", path="/v1/audit", params=params, answer=models.AuditLog)


def create_session(
    name: str | None = None,
    environment: str | None = None,
    labels: Mapping[str, str] | None = None,
    limits: LimitsGiven | None = None,
    env: Mapping[str, str] | None = None,
    on_idle: models.OnIdle | None = None,
    wait: bool = True,
    inputs: Sequence[str] | None = None,
    workspace: str | None = None,
    workspace_read_only: bool = False,
    owner: str | None = None,
    notebook: NotebookGiven | None = None,
    keep_going: bool = False,
    cell_timeout: float | None = None,
) -> Call[models.Session]:
    body = models.SessionCreate(
        name=name,
        environment=environment,
        labels=dict(labels or {}),
        limits=_limits(limits),
        env=dict(env or {}),
        inputs=list(inputs or ()),
        workspace=workspace,
        workspace_read_only=workspace_read_only,
        owner=owner,
        on_idle=on_idle,
        wait=wait,
        notebook=read_notebook(notebook),
        keep_going=keep_going,
        cell_timeout=cell_timeout,
    )
    return Call(
        method="POST", path="/v1/sessions", body=models.to_json(body), answer=models.Session, waits=True
    )


def _limits(given: LimitsGiven | None) -> models.LimitsRequest:
    try:
        return msgspec.convert(given or {}, models.LimitsRequest)
    except msgspec.ValidationError as e:
        raise InvalidRequest(f"The limits are wrong: {e}.", "See interpreter.models.Limits.") from None


def sessions(
    state: models.SessionState | str | None,
    name: str | None,
    labels: Mapping[str, str] | None,
    after: str | None,
) -> Call[models.SessionList]:
    given = {
        "state": state.value if isinstance(state, models.SessionState) else state,
        "name": name,
        "label": _label(labels) if labels else None,
        "after": after,
        "limit": str(PAGE),
    }
    return Call(
        method="GET",
        path="/v1/sessions",
        params={k: v for k, v in given.items() if v is not None},
        answer=models.SessionList,
    )


def _label(labels: Mapping[str, str]) -> str:
    for key, value in labels.items():
        if "," in key + value or "=" in key:
            raise InvalidRequest(
                f"The label '{key}' cannot be looked for: it has a comma, or '=' in its name.",
                "List all sessions and pick from them.",
            )
    return ",".join(f"{key}={value}" for key, value in labels.items())


def session(session_id: str) -> Call[models.Session]:
    return Call(method="GET", path=session_path(session_id), answer=models.Session)


def refresh(session_id: str) -> Call[models.Session]:
    """The same, of a session that was there before."""
    return replace(session(session_id), repeatable=True)


def update_session(
    session_id: str,
    name: str | UnsetType | None,
    labels: Mapping[str, str] | None,
    limits: LimitsGiven | None,
    on_idle: models.OnIdle | None,
) -> Call[models.Session]:
    body = models.SessionUpdate(
        name=name,
        labels=UNSET if labels is None else dict(labels),
        limits=_limits(limits),
        on_idle=on_idle or UNSET,
    )
    return Call(
        method="PATCH",
        path=session_path(session_id),
        body=models.to_json(body),
        answer=models.Session,
        waits=True,
        repeatable=True,
    )


def delete_session(session_id: str) -> Call[models.SessionDeleted]:
    return Call(method="DELETE", path=session_path(session_id), answer=models.SessionDeleted, waits=True)


def delete_kernel(session_id: str) -> Call[None]:
    """As a Jupyter client that is done with a kernel: the gateway's settings say what that does."""
    path = f"/api/kernels/{quote(session_id, safe='')}"
    return Call(method="DELETE", path=path, answer=Nothing, waits=True)


def pause(session_id: str) -> Call[models.Session]:
    return _to_state(session_id, "pause")


def resume(session_id: str) -> Call[models.Session]:
    return _to_state(session_id, "resume")


def stop(session_id: str) -> Call[models.Session]:
    return _to_state(session_id, "stop")


def start(session_id: str) -> Call[models.Session]:
    return _to_state(session_id, "start")


def _to_state(session_id: str, do: str) -> Call[models.Session]:
    path = session_path(session_id, do)
    return Call(method="POST", path=path, answer=models.Session, waits=True, repeatable=True)


def interrupt(session_id: str, context: str) -> Call[models.Session]:
    return _to_kernel(session_id, "interrupt", context)


def restart(session_id: str, context: str) -> Call[models.Session]:
    return _to_kernel(session_id, "restart", context)


def _to_kernel(session_id: str, do: str, context: str) -> Call[models.Session]:
    """Not repeatable: the second one could hit a cell that came after the first."""
    return Call(
        method="POST",
        path=session_path(session_id, do),
        params={} if context == DEFAULT else {"context": context},
        answer=models.Session,
        waits=True,
    )


def embed(session_id: str, seconds: int) -> Call[Embed]:
    return Call(
        method="POST",
        path=session_path(session_id, "embed"),
        body=models.to_json(EmbedCreate(seconds=seconds)),
        answer=Embed,
        repeatable=True,
    )


def contexts(session_id: str) -> Call[models.ContextList]:
    return Call(
        method="GET",
        path=session_path(session_id, "contexts"),
        answer=models.ContextList,
        repeatable=True,
    )


def create_context(session_id: str, name: str | None) -> Call[models.Context]:
    return Call(
        method="POST",
        path=session_path(session_id, "contexts"),
        body=models.to_json(models.ContextCreate(name=name)),
        answer=models.Context,
        waits=True,
    )


def delete_context(session_id: str, name: str) -> Call[None]:
    path = session_path(session_id, "contexts", name)
    return Call(method="DELETE", path=path, answer=Nothing, waits=True)


def processes(session_id: str) -> Call[ProcessList]:
    path = session_path(session_id, "processes")
    return Call(method="GET", path=path, answer=ProcessList, repeatable=True)


def end_process(session_id: str, pid: int) -> Call[ProcessesEnded]:
    path = session_path(session_id, "processes", str(pid))
    return Call(method="DELETE", path=path, answer=ProcessesEnded)


def end_orphans(session_id: str) -> Call[ProcessesEnded]:
    return Call(
        method="DELETE",
        path=session_path(session_id, "processes"),
        params={"orphans": "true"},
        answer=ProcessesEnded,
    )
