"""Which session somebody means who writes an id, a name, or the beginning of an id."""

from __future__ import annotations

from collections.abc import Sequence

from interpreter.client.errors import AmbiguousSession
from interpreter.errors import SessionNotFound
from interpreter.models import Session


def find(sessions: Sequence[Session], wanted: str, *, prefix: bool = False) -> Session:
    """The one session with this id, else with this name, else (`prefix`) whose id begins so."""
    readings = [
        [s for s in sessions if s.id == wanted],
        [s for s in sessions if s.name == wanted],
        [s for s in sessions if prefix and wanted and s.id.startswith(wanted)],
    ]
    for fitting in readings:
        if len(fitting) == 1:
            return fitting[0]
        if fitting:
            ids = ", ".join(s.id for s in fitting)
            raise AmbiguousSession(f"'{wanted}' could be any of {ids}.")
    raise SessionNotFound(f"There is no session '{wanted}'.")
