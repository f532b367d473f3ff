"""Getting hold of a session: one that was named, or a new one."""

from __future__ import annotations

import sys

from interpreter.cli.spinner import Spinner
from interpreter.client import Client, Session
from interpreter.client.lookup import find


def pick(client: Client, wanted: str) -> Session:
    """The session with this id, name, or beginning of an id."""
    return client.session(find(client.sessions(), wanted, prefix=True).id)


def open_session(
    client: Client, joined: str | None, name: str | None, environment: str | None
) -> Session:
    """The session that was named, or a new one that is kept."""
    if joined is not None:
        return pick(client, joined)
    with Spinner(sys.stderr, "starting a session"):
        return client.create_session(name=name, environment=environment)
