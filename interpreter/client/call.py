"""One request as a value: what to send, what type the answer has, and whether it may be sent twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar
from urllib.parse import quote

import msgspec

from interpreter import models
from interpreter.client.errors import ConnectionLost, GatewayUnreachable, with_hint
from interpreter.errors import BY_CODE, InterpreterError

T = TypeVar("T")
Nothing = type(None)


@dataclass(frozen=True, kw_only=True)
class Call(Generic[T]):
    """One request and the type of its answer."""

    method: str
    path: str
    answer: type[T]
    body: bytes | None = None
    content: Callable[[], Iterator[bytes]] | None = None
    """A body that is sent in pieces, made anew each time it is sent."""
    params: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    waits: bool = False
    """Whether the answer comes when a sandbox is done, however long that takes."""
    silence: float | None = None
    """Seconds without a byte after which the connection counts as broken; None: the client's."""
    repeatable: bool = False
    """Whether it does no harm to send it again when nobody knows whether it arrived."""

    def read(self, status: int, headers: Mapping[str, str], body: bytes) -> T:
        """The answer, or the error that it carries."""
        if status >= 400:
            raise with_hint(_error(status, headers, body))
        if self.answer is Nothing:
            return None  # type: ignore[return-value]
        try:
            return msgspec.json.decode(body, type=self.answer)
        except (msgspec.DecodeError, UnicodeDecodeError) as e:
            raise GatewayUnreachable(
                f"Something answered, but not as a gateway does ({e}).",
                "Check the URL: another program may be listening there.",
            ) from None


def _error(status: int, headers: Mapping[str, str], body: bytes) -> InterpreterError:
    try:
        said = msgspec.json.decode(body, type=models.ErrorAnswer).error
    except (msgspec.DecodeError, UnicodeDecodeError):
        if status in (502, 503, 504):  # a proxy whose gateway is away
            return ConnectionLost(f"A proxy answered {status}: the gateway is away.")
        return InterpreterError(
            f"The answer has status {status} and no explanation.",
            "Check the URL: another program may be listening there.",
        )
    error = BY_CODE.get(said.code, InterpreterError)(said.message, said.hint)
    if (after := headers.get("Retry-After", "")).isdecimal():
        error.retry_after = float(after)
    return error


def session_path(session_id: str, *more: str) -> str:
    return "/v1/sessions/" + "/".join(quote(part, safe="") for part in (session_id, *more))
