"""The states of sessions and executions, and every change that is allowed.

Nothing changes a state without asking here first. What a gateway shows of a session that it leaves to
another runtime is no change: nothing of it is stored. Every change is recorded with its cause: that a
session is busy and ready again, which every cell makes it, and what becomes of executions are events of
the session; all else is in the audit log.
"""

from __future__ import annotations

from typing import TypeVar

from interpreter.models import ExecutionStatus as E
from interpreter.models import SessionState as S

SESSION: dict[S, frozenset[S]] = {
    S.creating: frozenset({S.ready, S.busy, S.paused, S.stopped, S.failed}),
    S.ready: frozenset({S.busy, S.paused, S.stopped, S.failed}),
    S.busy: frozenset({S.ready, S.paused, S.stopped, S.failed}),
    S.paused: frozenset({S.ready, S.busy, S.stopped, S.failed}),
    S.stopped: frozenset({S.creating}),
    S.failed: frozenset({S.creating, S.stopped}),
}
"""A session that has no sandbox any more comes back by `creating` another."""

EXECUTION: dict[E, frozenset[E]] = {
    E.queued: frozenset({E.running, E.cancelled, E.lost}),
    E.running: frozenset({E.ok, E.error, E.timeout, E.cancelled, E.lost}),
    E.ok: frozenset(),
    E.error: frozenset(),
    E.timeout: frozenset(),
    E.cancelled: frozenset(),
    E.lost: frozenset(),
}

AWAKE = frozenset({S.ready, S.busy})
WITH_SANDBOX = frozenset({S.creating, S.ready, S.busy, S.paused})
"""The states of sessions that have a sandbox, or are about to."""


class IllegalTransition(Exception):
    """A change that the tables do not have: a fault in the orchestrator."""


State = TypeVar("State", S, E)


def change(table: dict[State, frozenset[State]], old: State, new: State) -> State:
    """The new state, if the table allows it."""
    if new not in table[old]:
        raise IllegalTransition(f"{old.value} cannot become {new.value}")
    return new
