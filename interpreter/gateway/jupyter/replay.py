"""Recorded events as the messages they were made from.

A client that comes back, or that reads more slowly than a kernel prints, gets from the record what it
did not get as it came.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from interpreter.kernel.messages import KernelMessage
from interpreter.models import Execution, ExecutionStatus
from interpreter.store import EventRow

FULL_REPLY: dict[str, Any] = {"payload": [], "user_expressions": {}}


def messages_of(row: EventRow, count: int | None) -> Iterator[KernelMessage]:
    """What a kernel said, or would have; `count` is the cell's execution count if it is known."""
    parent = row.execution_id or ""
    data = msgspec.json.decode(row.data)
    if row.type == "done":
        yield from endings(msgspec.convert(data["execution"], Execution))
        return
    if row.type == "status":
        if data.get("status") == "running" and "code" in data:
            yield _iopub("status", parent, {"execution_state": "busy"})
            if data.get("silent"):
                return
            yield _iopub("execute_input", parent, {"code": data["code"], "execution_count": count or 0})
        return
    match row.type:
        case "stream":
            yield _iopub("stream", parent, {"name": data["name"], "text": data["text"]})
        case "display":
            content: dict[str, Any] = {"data": data["data"], "metadata": data["metadata"]}
            content["transient"] = {k: data[k] for k in ("display_id",) if k in data}
            if data["output_type"] == "execute_result":
                content["execution_count"] = data.get("execution_count")
            yield _iopub(data["output_type"], parent, content)
        case "update":
            content = {"data": data["data"], "metadata": data["metadata"]}
            content["transient"] = {"display_id": data["display_id"]}
            yield _iopub("update_display_data", parent, content)
        case "clear":
            yield _iopub("clear_output", parent, {"wait": data["wait"]})
        case "error":
            yield _iopub("error", parent, {k: data[k] for k in ("ename", "evalue", "traceback")})
        case "input_request":
            content = {k: data[k] for k in ("prompt", "password")}
            yield KernelMessage("stdin", "input_request", parent, content, {}, [])


def endings(execution: Execution) -> Iterator[KernelMessage]:
    """The reply of a cell, and that the kernel is done with it."""
    content: dict[str, Any] = {"execution_count": execution.execution_count or 0, **FULL_REPLY}
    error = execution.error
    if execution.status is ExecutionStatus.ok:
        content["status"] = "ok"
    elif execution.status is ExecutionStatus.cancelled and execution.started_at is None:
        content["status"] = "aborted"
    else:
        content["status"] = "error"
        content["ename"] = error.ename if error else execution.status.value.capitalize()
        content["evalue"] = execution.reason or (error.evalue if error else "")
        content["traceback"] = error.traceback if error else []
    yield KernelMessage("shell", "execute_reply", execution.id, content, {}, [])
    yield _iopub("status", execution.id, {"execution_state": "idle"})


def failure(execution_id: str, name: str, reason: str) -> Iterator[KernelMessage]:
    """Of a cell that could not be run at all."""
    error = {"ename": name, "evalue": reason, "traceback": [f"{name}: {reason}"]}
    yield _iopub("error", execution_id, error)
    content = {"status": "error", "execution_count": 0, **error, **FULL_REPLY}
    yield KernelMessage("shell", "execute_reply", execution_id, content, {}, [])
    yield _iopub("status", execution_id, {"execution_state": "idle"})


def _iopub(type: str, parent_id: str, content: dict[str, Any]) -> KernelMessage:
    return KernelMessage("iopub", type, parent_id, content, {}, [])
