"""What one path and method does, as a value.

Requests are validated with the types an operation names, and the OpenAPI description is made
from the same ones, so the two cannot say different things.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from interpreter.errors import InterpreterError

if TYPE_CHECKING:
    from interpreter.gateway.handler import ApiHandler

Function = Callable[["ApiHandler"], Awaitable[Any]]


@dataclass(frozen=True)
class Operation:
    """`function` returns the answer, or writes it itself and returns None."""

    method: str
    path: str
    summary: str
    function: Function
    body: type | None = None
    query: type | None = None
    answers: dict[int, type | None] = field(default_factory=dict)
    """Status → type of the JSON body; None for an empty one."""
    stream: bool = False
    """Whether the answer is, or can be asked for as, Server-Sent Events."""
    text: bool = False
    """Whether the answer is plain text."""
    binary: str | None = None
    """The media type of an answer that is bytes of it."""
    streamed: bool = False
    """Whether the body is bytes of any number: the function takes them with `call.chunks()`, as they
    come, and is called before they have come."""
    path_types: dict[str, Any] = field(default_factory=dict)
    """Parts of the path that have to be more than some text, and their types."""
    headers: dict[str, str] = field(default_factory=dict)
    """Request headers that mean something, and what."""
    errors: tuple[type[InterpreterError], ...] = ()
    public: bool = False
    """Whether it needs no token."""

    @property
    def name(self) -> str:
        return self.function.__name__
