"""A session and its contexts, for programs that wait."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from interpreter import models
from interpreter.client import command_requests, input_requests, requests
from interpreter.client.call import Call
from interpreter.client.carrier import Carrier
from interpreter.client.cells import Cells
from interpreter.client.files import Files
from interpreter.client.notebook import ReplayFollow
from interpreter.client.requests import DEFAULT, LimitsGiven
from interpreter.client.result import Result
from interpreter.client.shell import Shell
from interpreter.errors import (
    ContextExists,
    ContextNotFound,
    InterpreterError,
    SessionNotFound,
    WrongState,
)
from interpreter.models import OnIdle
from interpreter.models.commands import Terminal as TerminalInfo
from interpreter.models.descriptions import Description
from interpreter.models.embeds import Embed
from interpreter.models.processes import Process, ProcessesEnded

if TYPE_CHECKING:
    from interpreter.client.terminal import Terminal


class Session(Cells):
    """A session: cells run one after another and see what earlier ones left in memory.

    One that is being created, or is paused, is waited for and resumed by whatever is asked of it;
    one that is stopped needs `start`.
    """

    def __init__(self, carrier: Carrier, info: models.Session, *, delete_on_exit: bool = False) -> None:
        super().__init__(carrier, info.id, DEFAULT)
        self.info = info
        """What was last known of it; `refresh` asks again."""
        self.files = Files(carrier, info.id)
        self.shell = Shell(carrier, info.id)
        """Runs commands beside the kernel."""
        self._delete_on_exit = delete_on_exit

    @property
    def id(self) -> str:
        return self.info.id

    def refresh(self) -> models.Session:
        return self._update(requests.refresh(self.id))

    def update(
        self,
        *,
        name: str | UnsetType | None = UNSET,
        labels: Mapping[str, str] | None = None,
        limits: LimitsGiven | None = None,
        on_idle: OnIdle | None = None,
    ) -> models.Session:
        """Changes what is given and leaves the rest; `name=None` takes its name away."""
        return self._update(requests.update_session(self.id, name, labels, limits, on_idle))

    def pause(self) -> models.Session:
        """Freezes it: memory is kept, no processor time is used. The next cell resumes it."""
        return self._update(requests.pause(self.id))

    def resume(self) -> models.Session:
        return self._update(requests.resume(self.id))

    def stop(self) -> models.Session:
        """Ends its sandbox: memory is gone; files, history and settings stay."""
        return self._update(requests.stop(self.id))

    def start(self) -> models.Session:
        """Brings it back in a new sandbox, with its files."""
        return self._update(requests.start(self.id))

    def interrupt(self, context: str = DEFAULT) -> models.Session:
        """Interrupts the cell that runs, as Ctrl-C would."""
        return self._update(requests.interrupt(self.id, context))

    def restart(self, context: str = DEFAULT) -> models.Session:
        """A fresh kernel: what was in memory is gone, files stay."""
        return self._update(requests.restart(self.id, context))

    def replay(self) -> Iterator[Result]:
        """The cells of the notebook that it was created with, as each ends, those that have ended
        already first. Afterwards `info.replay` says how it went."""
        following = ReplayFollow()
        if self.refresh().replay is not None:
            for event in self.events():
                if following.ends_cell(event):
                    yield self.result(event)
                if following.over:
                    break
            self.refresh()

    def attach(self, dataset: str) -> models.Session:
        """Has it see a dataset, as it is now, at `/data/input/NAME`."""
        return self._update(input_requests.attach(self.id, dataset))

    def detach(self, dataset: str) -> models.Session:
        return self._update(input_requests.detach(self.id, dataset))

    def describe(self, path: str) -> Description:
        """The table in a file of the workspace, or below `/data/input`: columns, types, a sample."""
        return self._carrier.send(input_requests.describe(self.id, path))

    def embed(self, seconds: int = 3600) -> Embed:
        """A token that lets a page elsewhere show this session's outputs, and do nothing else; and the
        address of a page to put into a frame there."""
        made = self._carrier.send(requests.embed(self.id, seconds))
        return replace(made, url=self._carrier.wire.place.url + made.url)

    def processes(self) -> list[Process]:
        """What runs in the session, each with the id of the execution that started it."""
        return self._carrier.send(requests.processes(self.id)).processes

    def end_process(self, pid: int) -> ProcessesEnded:
        """Ends one process: SIGTERM, and SIGKILL a second later."""
        return self._carrier.send(requests.end_process(self.id, pid))

    def end_orphans(self) -> ProcessesEnded:
        """Ends what finished executions have left running."""
        return self._carrier.send(requests.end_orphans(self.id))

    def terminal(self, name: str = "main") -> Terminal:
        """A terminal of this name, which is made if it is not there."""
        # Loaded late: few programs have a use for it.
        from interpreter.client.terminal import Terminal

        return Terminal(self._carrier, self.id, name)

    def terminals(self) -> list[TerminalInfo]:
        return self._carrier.send(command_requests.terminals(self.id)).terminals

    def delete(self) -> models.SessionDeleted:
        return self._carrier.send(requests.delete_session(self.id))

    def contexts(self) -> list[models.Context]:
        return self._carrier.send(requests.contexts(self.id)).contexts

    def create_context(self, name: str | None = None) -> models.Context:
        """Another kernel: memory of its own, files shared. It stays until it is deleted."""
        return self._carrier.send(requests.create_context(self.id, name))

    def delete_context(self, name: str) -> None:
        self._carrier.send(requests.delete_context(self.id, name))

    def context(self, name: str | None = None) -> Context:
        """A new context that is deleted at the end of its `with` block; one that is there already is
        left as it is."""
        try:
            return Context(self, self.create_context(name).name, delete_on_exit=True)
        except ContextExists:
            return Context(self, str(name))

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if not self._delete_on_exit:
            return
        try:
            self.delete()
        except SessionNotFound:
            pass
        except InterpreterError:
            if error is None:
                raise

    def __repr__(self) -> str:
        return f"<Session {self.id} {self.info.state.value}>"

    def _update(self, call: Call[models.Session]) -> models.Session:
        self.info = self._carrier.send(call)
        return self.info


class Context(Cells):
    """One of the kernels of a session. Its cells run beside those of the others."""

    def __init__(self, session: Session, name: str, *, delete_on_exit: bool = False) -> None:
        super().__init__(session._carrier, session.id, name)
        self.session = session
        self.name = name
        self._delete_on_exit = delete_on_exit

    def interrupt(self) -> None:
        self.session.interrupt(self.name)

    def restart(self) -> None:
        self.session.restart(self.name)

    def delete(self) -> None:
        self.session.delete_context(self.name)

    def __enter__(self) -> Context:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if not self._delete_on_exit:
            return
        try:
            self.delete()
        except (ContextNotFound, SessionNotFound, WrongState):
            pass  # it is gone, or its session is stopped and all contexts with it
        except InterpreterError:
            if error is None:
                raise

    def __repr__(self) -> str:
        return f"<Context {self.name} of {self.session.id}>"
