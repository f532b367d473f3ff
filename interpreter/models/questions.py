"""What an editor asks a kernel about code that is being written."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from interpreter.models.basics import MOST, ContextName

Patience = Annotated[float, Meta(gt=0, le=60)]
"""How many seconds the kernel has to answer. Its first answer takes longer: it loads what it needs."""
Cursor = Annotated[int, Meta(ge=0, le=MOST)]
"""A place in code, in Unicode code points from its beginning."""


class CompleteRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What could follow at a place in some code?"""

    code: str
    cursor: Cursor
    context: ContextName = "default"
    timeout: Patience = 30


class Completion(Struct, frozen=True, kw_only=True):
    """What could stand between `cursor_start` and `cursor_end`; at most 1,000."""

    matches: list[str]
    cursor_start: int
    cursor_end: int
    metadata: dict[str, Any] = {}
    """`_jupyter_types_experimental`, where the kernel has it: what each match is."""


class InspectRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is at a place in some code?"""

    code: str
    cursor: Cursor
    detail: Literal[0, 1] = 0
    """1 for the source, where there is one."""
    context: ContextName = "default"
    timeout: Patience = 30


class Inspection(Struct, frozen=True, kw_only=True):
    """What the kernel knows of it, by MIME type."""

    found: bool
    data: dict[str, str] = {}
