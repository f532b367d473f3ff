"""The things the API speaks of, as types.

One definition serves everyone: the gateway validates requests with these and generates the
OpenAPI description from them, the orchestrator and the store pass them around, and the SDK
reads answers into them.
"""

from __future__ import annotations

from typing import Any

import msgspec

from interpreter.models.answers import (
    AuditEntry,
    AuditLog,
    ErrorAnswer,
    ErrorBody,
    GatewayStatus,
    Health,
    PoolStatus,
)
from interpreter.models.basics import MOST, Label, Name, Output
from interpreter.models.events import Event, EventType
from interpreter.models.executions import (
    Execution,
    ExecutionCreate,
    ExecutionError,
    ExecutionList,
    ExecutionStatus,
    ExecutionUpdate,
    ExecutionUsage,
    FileChange,
    InputReply,
    InputRequest,
    Truncated,
)
from interpreter.models.limits import Limits, LimitsRequest, OnIdle, Remaining, Usage
from interpreter.models.notebooks import GivenCell, GivenNotebook, Replay, ReplayState
from interpreter.models.sessions import (
    Context,
    ContextCreate,
    ContextList,
    Running,
    Session,
    SessionCreate,
    SessionDeleted,
    SessionList,
    SessionState,
    SessionUpdate,
)
from interpreter.models.workspaces import (
    Workspace,
    WorkspaceCopy,
    WorkspaceCreate,
    WorkspaceDeleted,
    WorkspaceList,
    WorkspaceUpdate,
    WorkspaceUse,
)

__all__ = [
    "MOST",
    "AuditEntry",
    "AuditLog",
    "Context",
    "ContextCreate",
    "ContextList",
    "ErrorAnswer",
    "ErrorBody",
    "Event",
    "EventType",
    "Execution",
    "ExecutionCreate",
    "ExecutionError",
    "ExecutionList",
    "ExecutionStatus",
    "ExecutionUpdate",
    "ExecutionUsage",
    "FileChange",
    "GatewayStatus",
    "GivenCell",
    "GivenNotebook",
    "Health",
    "InputReply",
    "InputRequest",
    "Label",
    "Limits",
    "LimitsRequest",
    "Name",
    "OnIdle",
    "Output",
    "PoolStatus",
    "Remaining",
    "Replay",
    "ReplayState",
    "Running",
    "Session",
    "SessionCreate",
    "SessionDeleted",
    "SessionList",
    "SessionState",
    "SessionUpdate",
    "Truncated",
    "Usage",
    "Workspace",
    "WorkspaceCopy",
    "WorkspaceCreate",
    "WorkspaceDeleted",
    "WorkspaceList",
    "WorkspaceUpdate",
    "WorkspaceUse",
    "to_json",
]


def to_json(value: Any) -> bytes:
    return msgspec.json.encode(value)
