"""What one path and method does, as a value.

Requests are validated with the types an operation names, and the OpenAPI description is made
from the same ones, so the two cannot say different things.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from interpreter.errors import InterpreterError

if TYPE_CHECKING:
    from interpreter.gateway.handler import ApiHandler

Function = Callable[["ApiHandler"], Awaitable[Any]]
Answer = type | tuple[type, ...] | None


class Receiver(Protocol):
    """Takes a body as it arrives."""

    async def receive(self, piece: bytes) -> None:
        """Called with every piece; the next one is read when it returns."""

    def leave(self) -> None:
        """Called when there will be no more: the client went away, or was refused."""


@dataclass(frozen=True)
class Operation:
    """`function` returns the answer, or writes it itself and returns None."""

    method: str
    path: str
    summary: str
    function: Function
    body: type | None = None
    receive: Callable[[ApiHandler], Awaitable[Receiver]] | None = None
    """Called with the headers, for a body of any size and type. It is not kept in memory: what is
    returned takes it, and is the handler's `receiver` when `function` is called."""
    largest_body: int = 0
    """Bytes that a JSON body may have, where that is more than elsewhere."""
    raw: bool = False
    """Whether a body that is received is only ever the bytes themselves, and no form."""
    path_types: dict[str, Any] = field(default_factory=dict)
    """Parts of the path that have to be more than some text, and their types."""
    query: type | None = None
    answers: dict[int, Answer] = field(default_factory=dict)
    """Status → type of the JSON body, or which types it can have; None for an empty one."""
    stream: bool = False
    """Whether the answer is, or can be asked for as, Server-Sent Events."""
    text: bool = False
    """Whether the answer is plain text."""
    binary: bool = False
    """Whether the answer can be bytes of any type."""
    headers: dict[str, str] = field(default_factory=dict)
    """Request headers that mean something, and what."""
    longest_header: int | None = None
    """How many characters those may have; None where HTTP itself says what they look like."""
    errors: tuple[type[InterpreterError], ...] = ()
    public: bool = False
    """Whether it needs no token."""
    embeddable: bool = False
    """Whether a token for one session's outputs is enough; the path has a `session_id` then."""

    @property
    def name(self) -> str:
        return self.function.__name__
