"""Notebooks that sessions are created with: reading them, and following their replay."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import msgspec

from interpreter.client.errors import with_hint
from interpreter.errors import InvalidNotebook
from interpreter.models import Event, EventType, GivenNotebook, Replay

NotebookGiven = str | PathLike[str] | Mapping[str, Any]
"""The path of a notebook file, or what is in it."""


def read_notebook(given: NotebookGiven | None) -> GivenNotebook | None:
    """What is sent of a notebook: its cells, without outputs."""
    if given is None:
        return None
    try:
        if isinstance(given, Mapping):
            return msgspec.convert(dict(given), GivenNotebook)
        return msgspec.json.decode(Path(given).read_bytes(), type=GivenNotebook)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as e:
        what = "This" if isinstance(given, Mapping) else str(given)
        raise with_hint(InvalidNotebook(f"{what} is not a notebook: {e}.")) from None


class ReplayFollow:
    """Which of a session's events are about its notebook."""

    def __init__(self) -> None:
        self.over = False
        self._ids: set[str | None] = set()

    def ends_cell(self, event: Event) -> bool:
        """Takes the next event; returns whether it is the end of one of the notebook's cells."""
        if event.type is EventType.status and "replay" in event.data:
            progress = msgspec.convert(event.data["replay"], Replay)
            self.over = progress.state.final
            if progress.execution_id is not None:
                self._ids.add(progress.execution_id)
        return event.type is EventType.done and event.execution_id in self._ids
