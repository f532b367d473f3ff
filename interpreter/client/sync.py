"""The SDK for programs that wait: `Client` is a gateway, `Session` one of its sessions.

Both may be used from several threads. What they do is decided in `requests`, `follow` and `result`;
`aio` has the same with `await`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import httpx

from interpreter import models
from interpreter.client import lookup, requests
from interpreter.client.carrier import Carrier
from interpreter.client.datasets import Datasets
from interpreter.client.notebook import NotebookGiven
from interpreter.client.place import locate
from interpreter.client.requests import LimitsGiven
from interpreter.client.session import Session
from interpreter.client.wire import Wire
from interpreter.client.workspaces import Workspaces
from interpreter.errors import SessionNotFound
from interpreter.models import OnIdle, SessionState


class Client:
    """A gateway. `timeout` bounds ordinary answers, never the wait for a cell; `reconnect` is for
    how many seconds a gateway that goes away is waited for before that is an error; `by` is who runs
    cells and commands, for others to see."""

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        timeout: float = 60.0,
        reconnect: float = 30.0,
        by: str = "sdk",
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._carrier = Carrier(Wire(locate(url, token), timeout, by), reconnect, transport)

    @property
    def datasets(self) -> Datasets:
        """What was uploaded for sessions to read."""
        return Datasets(self._carrier)

    @property
    def workspaces(self) -> Workspaces:
        """Files that outlive the sessions that use them."""
        return Workspaces(self._carrier)

    @property
    def url(self) -> str:
        return self._carrier.wire.place.url

    def session(
        self,
        id: str | None = None,
        *,
        name: str | None = None,
        environment: str | None = None,
        labels: Mapping[str, str] | None = None,
        limits: LimitsGiven | None = None,
        env: Mapping[str, str] | None = None,
        inputs: Sequence[str] | None = None,
        workspace: str | None = None,
        workspace_read_only: bool = False,
        owner: str | None = None,
        on_idle: OnIdle | None = None,
        wait: bool = True,
        notebook: NotebookGiven | None = None,
        keep_going: bool = False,
        cell_timeout: float | None = None,
    ) -> Session:
        """A new session that is deleted at the end of its `with` block. With an `id` (or the name
        of a session), that session, which is left as it is."""
        if id is not None:
            return Session(self._carrier, self._find(id))
        more = (inputs, workspace, workspace_read_only, owner, notebook, keep_going, cell_timeout)
        call = requests.create_session(name, environment, labels, limits, env, on_idle, wait, *more)
        return Session(self._carrier, self._carrier.send(call), delete_on_exit=True)

    def create_session(
        self,
        *,
        name: str | None = None,
        environment: str | None = None,
        labels: Mapping[str, str] | None = None,
        limits: LimitsGiven | None = None,
        env: Mapping[str, str] | None = None,
        inputs: Sequence[str] | None = None,
        workspace: str | None = None,
        workspace_read_only: bool = False,
        owner: str | None = None,
        on_idle: OnIdle | None = None,
        wait: bool = True,
        notebook: NotebookGiven | None = None,
        keep_going: bool = False,
        cell_timeout: float | None = None,
    ) -> Session:
        """A new session that stays until it is deleted. Without `wait` it may still be `creating`,
        and the first thing that is asked of it waits instead.

        The cells of a `notebook`, a file or what is in one, are run in it before anything else;
        `replay` follows them."""
        more = (inputs, workspace, workspace_read_only, owner, notebook, keep_going, cell_timeout)
        call = requests.create_session(name, environment, labels, limits, env, on_idle, wait, *more)
        return Session(self._carrier, self._carrier.send(call))

    def sessions(
        self,
        *,
        state: SessionState | str | None = None,
        name: str | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> list[models.Session]:
        """All sessions, newest first, or those that are so; however many pages they fill."""
        found: list[models.Session] = []
        after: str | None = None
        while True:
            page = self._carrier.send(requests.sessions(state, name, labels, after))
            found += page.sessions
            after = page.next
            if after is None:
                return found

    def status(self) -> models.GatewayStatus:
        """How full the gateway is."""
        return self._carrier.send(requests.status())

    def audit(
        self, session_id: str | None = None, *, after: int | None = None, limit: int = 100
    ) -> list[models.AuditEntry]:
        """What became of a session, or of all, and why: the last entries, or those after a number."""
        return (self._carrier.send(requests.audit(session_id, after, limit))).entries

    def health(self) -> models.Health:
        return self._carrier.send(requests.health())

    def close(self) -> None:
        self._carrier.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _find(self, wanted: str) -> models.Session:
        try:
            return self._carrier.send(requests.session(wanted))
        except SessionNotFound:
            return lookup.find(self.sessions(name=wanted), wanted)
