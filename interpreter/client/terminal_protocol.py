"""How the SDK speaks with a terminal: JupyterLab's protocol on a WebSocket."""

from __future__ import annotations

import json
from typing import Any

from websockets.exceptions import InvalidStatus

from interpreter.client.call import Call, Nothing, session_path
from interpreter.client.errors import ConnectionLost, with_hint
from interpreter.client.place import Place
from interpreter.errors import InterpreterError

MOST_SHOWN = 16 * 1024 * 1024
"""Bytes of one message of a terminal; a gateway sends much less."""

MOST_TYPED = 60_000
"""Characters of one message to a terminal."""


def terminal_url(place: Place, session_id: str, name: str) -> str:
    return place.url.replace("http", "ws", 1) + session_path(session_id, "terminals", name)


def terminal_options(place: Place) -> dict[str, Any]:
    """For either kind of WebSocket client."""
    headers = {"Authorization": f"Bearer {place.token}"} if place.token else {}
    options: dict[str, Any] = {"additional_headers": headers, "max_size": MOST_SHOWN}
    # A gateway on this machine is spoken to directly, whatever proxies the environment names.
    return options | ({"proxy": None} if place.loopback else {})


def refused(place: Place, problem: Exception) -> InterpreterError:
    """Why there is no terminal."""
    if isinstance(problem, InvalidStatus):
        answer = problem.response
        try:
            Call(method="GET", path="", answer=Nothing).read(
                answer.status_code, answer.headers, bytes(answer.body or b"")
            )
        except InterpreterError as e:
            return e
    return with_hint(ConnectionLost(f"There is no way to a terminal at {place.url}: {problem}"))


def typed(text: str) -> list[str]:
    """In pieces that the gateway takes."""
    pieces = (text[at : at + MOST_TYPED] for at in range(0, len(text), MOST_TYPED))
    return [json.dumps(["stdin", piece]) for piece in pieces]


def sized(rows: int, columns: int) -> str:
    return json.dumps(["set_size", rows, columns])


def shown(message: str | bytes) -> str | None:
    """The text that a message shows, which may be none; None when the terminal is over."""
    try:
        said = json.loads(message)
    except ValueError:
        return ""
    match said:
        case ["stdout", str(text)]:
            return text
        case ["disconnect", *_]:
            return None
    return ""
