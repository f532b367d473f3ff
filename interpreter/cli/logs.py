"""`interpreter logs`: the history of a session, as a person or a program reads it."""

from __future__ import annotations

import sys

from interpreter.cli.attach import pick
from interpreter.cli.screen import DIM, GREEN, RED, Screen
from interpreter.client import Client
from interpreter.models import Event, EventType, to_json


def logs(wanted: str, follow: bool, json: bool) -> None:
    history = _History(sys.stdout, sys.stderr, None, labels=True)
    with Client() as client:
        for event in pick(client, wanted).events(follow=follow):
            if json:
                print(to_json(event).decode(), flush=follow)
            else:
                history.show(event)


class _History(Screen):
    """Adds to the outputs what led to them: the cells, how they ended, what became of the kernel."""

    def show(self, event: Event) -> None:
        if event.type is EventType.status and event.execution_id is None:
            self._session_state(event)
        elif event.type is EventType.status and event.data.get("status") == "running":
            self._cell(event)
        elif event.type is EventType.done:
            self._end(event)
        else:
            super().show(event)

    def _cell(self, event: Event) -> None:
        count = event.data.get("execution_count")
        label = f"In [{' ' if count is None else count}]: "
        first, *more = event.data.get("code", "").splitlines() or [""]
        self.line(self.out, "")
        self.line(self.out, self.paint(self.out, GREEN, label) + first)
        for line in more:
            self.line(self.out, "...: ".rjust(len(label)) + line)

    def _end(self, event: Event) -> None:
        execution = event.data["execution"]
        if execution["status"] not in ("ok", "error"):
            self._remark(RED, execution["status"], execution.get("reason"))

    def _session_state(self, event: Event) -> None:
        state, reason = event.data.get("state", ""), event.data.get("reason")
        # Between cells a session goes back and forth between these two; that is no news.
        if reason or state not in ("ready", "busy"):
            self._remark(DIM, state, reason)

    def _remark(self, style: str, what: str, reason: str | None) -> None:
        self.line(
            self.out, self.paint(self.out, style, f"-- {what}" + (f": {reason}" if reason else ""))
        )
