"""`interpreter logs`: the history of a session, as a person or a program reads it."""

from __future__ import annotations

import sys

from interpreter.cli.attach import pick
from interpreter.cli.screen import DIM, GREEN, RED, Screen
from interpreter.client import Client, Session
from interpreter.client.requests import DEFAULT
from interpreter.models import Event, EventType, to_json

ROUTINE = (None, "a cell runs", "no cell runs")
"""Why a session goes back and forth between ready and busy, which is no news."""


def logs(wanted: str, follow: bool, json: bool) -> None:
    with Client() as client:
        session = pick(client, wanted)
        history = _History(session)
        for event in session.events(follow=follow):
            if json:
                print(to_json(event).decode(), flush=follow)
            else:
                history.show(event)


class _History(Screen):
    """Adds to the outputs what led to them: the cells, how they ended, what became of the kernel."""

    def __init__(self, session: Session) -> None:
        super().__init__(sys.stdout, sys.stdout, None, labels=True)
        self._session = session
        self._contexts: dict[str | None, str] = {}

    def show(self, event: Event) -> None:
        if event.type is EventType.status and event.execution_id is None:
            self._session_state(event)
        elif event.type is EventType.status and "request" in event.data:
            self._contexts[event.execution_id] = event.data["request"].get("context", DEFAULT)
        elif event.type is EventType.status and "code" in event.data:
            self._cell(event)
        elif event.type is EventType.done:
            self._end(event)
        else:
            super().show(event)

    def _cell(self, event: Event) -> None:
        context = self._contexts.pop(event.execution_id, DEFAULT)
        where = "" if context == DEFAULT else f"{context} "
        is_command = str(event.execution_id).startswith("c-")
        label = "$ " if is_command else f"{where}In [{self._count(event) or ' '}]: "
        first, *more = event.data["code"].splitlines() or [""]
        self.line(self.out, "")
        self.line(self.out, self.paint(self.out, GREEN, label) + first)
        for line in more:
            self.line(self.out, "...: ".rjust(len(label)) + line)

    def _count(self, event: Event) -> int | None:
        """The kernel numbers a cell only after it has begun; the execution knows it by now."""
        known: int | None = event.data.get("execution_count")
        return known or self._session.execution(str(event.execution_id)).execution_count

    def _end(self, event: Event) -> None:
        execution = event.data["execution"]
        if execution["status"] not in ("ok", "error"):
            self._remark(RED, execution["status"], execution.get("reason"))

    def _session_state(self, event: Event) -> None:
        state = event.data.get("state", "contexts")
        reason = event.data.get("reason") or event.data.get("cause")
        if state not in ("ready", "busy") or reason not in ROUTINE:
            self._remark(DIM, state, reason)

    def _remark(self, style: str, what: str, reason: str | None) -> None:
        self.line(
            self.out, self.paint(self.out, style, f"-- {what}" + (f": {reason}" if reason else ""))
        )
