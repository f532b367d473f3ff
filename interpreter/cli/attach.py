"""Getting hold of a session: one that was named, or a new one."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import typer

from interpreter.cli.spinner import Spinner
from interpreter.client import Client, Session
from interpreter.client.lookup import find
from interpreter.models import SessionState


def pick(client: Client, wanted: str) -> Session:
    """The session with this id, name, or beginning of an id."""
    return client.session(find(client.sessions(), wanted, prefix=True).id)


def read_pairs(given: Sequence[str] | None, option: str) -> dict[str, str]:
    """What an option that is written K=V says, however often it is there."""
    pairs = {}
    for one in given or ():
        key, equals, value = one.partition("=")
        if not key or not equals:
            raise typer.BadParameter(f"'{one}' is not written K=V.", param_hint=option)
        pairs[key] = value
    return pairs


def open_session(
    client: Client,
    joined: str | None,
    name: str | None,
    environment: str | None,
    env: Sequence[str] | None = None,
    inputs: Sequence[str] | None = None,
    workspace: str | None = None,
    read_only: bool = False,
) -> Session:
    """The session that was named, or a new one that is kept. Either sees these datasets."""
    variables = read_pairs(env, "--env")
    if read_only and workspace is None:
        raise typer.BadParameter("Only a named workspace can be read-only.", param_hint="--read-only")
    if joined is None:
        with Spinner(sys.stderr, "starting a session"):
            return client.create_session(
                name=name,
                environment=environment,
                env=variables,
                inputs=inputs,
                workspace=workspace,
                workspace_read_only=read_only,
            )
    if workspace is not None:
        raise typer.BadParameter("A session has its workspace from the start.", param_hint="--workspace")
    if variables:
        raise typer.BadParameter("A session has its variables from the start.", param_hint="--env")
    session = pick(client, joined)
    if session.info.state is SessionState.creating:
        with Spinner(sys.stderr, "the session is being created"):
            session.resume()
    for dataset in inputs or ():
        session.attach(dataset)
    return session
