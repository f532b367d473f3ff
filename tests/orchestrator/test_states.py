"""The state tables."""

from __future__ import annotations

import pytest

from interpreter.models import ExecutionStatus, SessionState
from interpreter.orchestrator import states


def test_every_state_has_its_row() -> None:
    assert set(states.SESSION) == set(SessionState)
    assert set(states.EXECUTION) == set(ExecutionStatus)


def test_final_states_are_final() -> None:
    assert {s for s, after in states.EXECUTION.items() if not after} == {
        status for status in ExecutionStatus if status.final
    }
    # A session that has ended comes back only by getting a new sandbox.
    assert states.SESSION[SessionState.stopped] == {SessionState.creating}


def test_an_illegal_change_raises() -> None:
    with pytest.raises(states.IllegalTransition):
        states.change(states.EXECUTION, ExecutionStatus.ok, ExecutionStatus.running)
    assert states.change(states.SESSION, SessionState.ready, SessionState.busy) is SessionState.busy
