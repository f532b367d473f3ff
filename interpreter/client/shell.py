"""The commands of a session, for programs that wait.

print(s.shell("ls -l").stdout)
training = s.shell.start("python train.py")
...
print(training.wait().exit_code)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from interpreter.client import command_requests as requests
from interpreter.client.carrier import Carrier
from interpreter.client.command_requests import CommandFollow, Line
from interpreter.models import Event
from interpreter.models.commands import Command


class Shell:
    """Runs commands beside the kernel. A text is a line for a shell, a list a program and arguments."""

    def __init__(self, carrier: Carrier, session_id: str) -> None:
        self._carrier = carrier
        self._session_id = session_id

    def __call__(
        self,
        command: Line,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str = "",
        timeout: float | None = None,
        max_output_bytes: int | None = None,
    ) -> Command:
        """Runs a command to its end."""
        asked = requests.asked(
            command, cwd, env, stdin, timeout, max_output_bytes, by=self._carrier.wire.by
        )
        return self._carrier.send(requests.run(self._session_id, asked))

    def start(
        self,
        command: Line,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str = "",
        interactive: bool = True,
        timeout: float | None = None,
        max_output_bytes: int | None = None,
    ) -> RunningCommand:
        """Starts a command and leaves it running; an `interactive` one reads what it is sent."""
        asked = requests.asked(
            command, cwd, env, stdin, timeout, max_output_bytes,
            by=self._carrier.wire.by, background=True, interactive=interactive,
        )  # fmt: skip
        started = self._carrier.send(requests.run(self._session_id, asked))
        return RunningCommand(self._carrier, started)

    def get(self, command_id: str) -> RunningCommand:
        """A command that was started before, by whomever."""
        found = self._carrier.send(requests.command(self._session_id, command_id, wait=False))
        return RunningCommand(self._carrier, found)

    def list(
        self,
        *,
        limit: int | None = None,
        after: str | None = None,
        newest: bool = False,
        running: bool = True,
    ) -> list[Command]:
        """The session's commands that run, or else all, oldest first or `newest`, from the one after
        `after`."""
        call = requests.commands(self._session_id, limit, after, newest=newest, running=running)
        return self._carrier.send(call).commands


class RunningCommand:
    """A command that was started; `info` is what was last known of it."""

    def __init__(self, carrier: Carrier, info: Command) -> None:
        self._carrier = carrier
        self.info = info

    @property
    def id(self) -> str:
        return self.info.id

    def refresh(self) -> Command:
        return self._update(wait=False)

    def wait(self) -> Command:
        """Returns when it has ended."""
        return self._update(wait=True)

    def send(self, text: str, *, eof: bool = False) -> None:
        """Has it read something; `eof` says that this was all."""
        self._carrier.send(requests.send(self.info.session_id, self.id, text, eof))

    def cancel(self) -> Command:
        """Ends it, with all that it has started."""
        self.info = self._carrier.send(requests.cancel(self.info.session_id, self.id))
        return self.info

    def events(self) -> Iterator[Event]:
        """What happened and happens, from its start on; `done` is last."""
        follow = CommandFollow(self.info.session_id, self.id, self._carrier.reconnect)
        return self._carrier.follow(follow)

    def _update(self, *, wait: bool) -> Command:
        self.info = self._carrier.send(requests.command(self.info.session_id, self.id, wait))
        return self.info

    def __repr__(self) -> str:
        return f"<RunningCommand {self.id} {self.info.status.value}>"
