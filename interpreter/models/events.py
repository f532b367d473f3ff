"""What happens in a session, as its event stream tells it."""

from __future__ import annotations

import enum
from typing import Any

from msgspec import Struct


class EventType(enum.Enum):
    """What can happen in a session, as its event stream names it."""

    status = "status"
    stream = "stream"
    display = "display"
    update = "update"
    clear = "clear"
    error = "error"
    input_request = "input_request"
    warning = "warning"
    files = "files"
    done = "done"


class Event(Struct, frozen=True, kw_only=True):
    """Something that happened in a session. `seq` counts from 1 without gaps."""

    seq: int
    type: EventType
    execution_id: str | None
    """The cell it belongs to; None for the session itself."""
    data: dict[str, Any]
