"""Describing the table in a file of a session.

A process in the sandbox reads the file; the gateway never does. What comes back may have been said by
anyone in the sandbox, so it is bounded and checked, and text is cut and cleaned.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from interpreter.errors import CannotDescribe, FileNotFound, InvalidPath, SandboxFailed
from interpreter.models import MOST
from interpreter.models.descriptions import Column, Description, Format
from interpreter.orchestrator.processes import clean
from interpreter.orchestrator.session import LiveSession
from interpreter.runtimes.base import INPUTS

WORKSPACE = "/workspace"
LONGEST_PATH = 4096
LONGEST_ANSWER = 256 * 1024
CELL, TYPE, ROWS = 200, 100, 20
WITHIN = 60.0
"""The kernel host gives up on a description much sooner, and says so."""
ANSWER_SECONDS = 120.0
SPACES = str.maketrans("\n\r\t", "   ")

Number = Annotated[int, Meta(ge=0, le=MOST)]


class _Column(Struct):
    name: str
    type: str
    nulls: Number | None


class _Table(Struct):
    format: Format
    rows: Number | None
    rows_exact: bool
    rows_examined: Number
    columns: Annotated[list[_Column], Meta(max_length=1000)]
    more_columns: Number
    sample: Annotated[list[list[str]], Meta(max_length=ROWS)]
    sheets: Annotated[list[str], Meta(max_length=100)]


class _Said(Struct):
    """What the process in the sandbox says: one or the other."""

    description: _Table | None = None
    problem: Literal["missing", "needs", "memory", "no table"] | None = None
    package: Annotated[str, Meta(pattern=r"^[a-z]{1,20}$")] = ""
    why: str = ""


def path_inside(path: str) -> str:
    """A path as the sandbox knows it: in its workspace, or below its inputs."""
    if "\0" in path or ".." in path.split("/") or len(path) > LONGEST_PATH:
        raise InvalidPath("This path leads nowhere.")
    if path == INPUTS or path.startswith(INPUTS + "/"):
        return path
    path = path.removeprefix(WORKSPACE + "/")
    if path.startswith("/"):
        raise InvalidPath(
            f"'{clean(path, 100)}' is neither in the workspace nor below {INPUTS}.",
            f"Give a path relative to the workspace, or one that begins with {INPUTS}/.",
        )
    return path


async def describe(session: LiveSession, path: str) -> Description:
    """Wakes a session that is paused. Raises FileNotFound, CannotDescribe, SandboxFailed."""
    path = path_inside(path)
    await session.wake()
    live = session.live
    assert live is not None
    session.touch()
    try:
        async with asyncio.timeout(ANSWER_SECONDS), live.describing:
            answer = await live.link.command("describe", within=WITHIN, path=path)
    except TimeoutError:
        raise SandboxFailed("The sandbox does not answer.") from None
    except ConnectionError as e:
        raise SandboxFailed(f"The sandbox is gone: {e}.") from e
    session.touch()
    return _read(answer, path, session.record.environment)


def _read(answer: dict[str, Any], path: str, environment: str) -> Description:
    name = f"'{clean(path, 100)}'"
    if "error" in answer:
        raise SandboxFailed(f"The sandbox could not tell: {clean(str(answer['error']), 200)}.")
    if (problem := answer.get("problem")) is not None:
        raise CannotDescribe(f"{name} is not described: {_OF_HOST.get(str(problem), 'it failed')}.")
    said = _decode(answer.get("said"))
    if said is None:
        # It was killed, or somebody else in the sandbox has answered in its place.
        raise CannotDescribe(
            f"{name} is not described: nothing sensible came back; it may take too much memory.",
            "Look at the beginning of the file with a cell.",
        )
    if said.description is not None:
        return _description(said.description)
    if said.problem == "missing":
        raise FileNotFound(f"This session has no file {name}.")
    if said.problem == "needs":
        raise CannotDescribe(
            f"{name} is not described: that needs the package '{said.package}', which the "
            f"environment '{environment}' does not have.",
            "Use an environment that has it, such as one of the image interpreter/datascience.",
        )
    if said.problem == "memory":
        raise CannotDescribe(f"{name} is not described: it takes too much memory.")
    raise CannotDescribe(f"{name} is not described: {_text(said.why) or 'no table was made out'}.")


_OF_HOST = {
    "time": "it takes too long",
    "length": "its description is too long",
    "busy": "others are being described; try again in a moment",
}


def _decode(said: Any) -> _Said | None:
    if not isinstance(said, str) or len(said) > LONGEST_ANSWER:
        return None
    try:
        found = msgspec.json.decode(base64.b64decode(said, validate=True), type=_Said)
    except (binascii.Error, ValueError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return found if found.description or found.problem else None


def _description(table: _Table) -> Description:
    columns = [
        Column(name=_text(column.name), type=_text(column.type, TYPE), nulls=column.nulls)
        for column in table.columns
    ]
    width = len(columns)
    return Description(
        format=table.format,
        rows=table.rows,
        rows_exact=table.rows_exact and table.rows is not None,
        rows_examined=table.rows_examined,
        columns=columns,
        more_columns=table.more_columns,
        sample=[([_text(cell) for cell in row] + [""] * width)[:width] for row in table.sample],
        sheets=[_text(sheet) for sheet in table.sheets],
    )


def _text(said: str, limit: int = CELL) -> str:
    return clean(said.translate(SPACES), limit)
