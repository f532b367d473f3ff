"""The commands of a session: the same as `shell`, with `await`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping

from interpreter.client import command_requests as requests
from interpreter.client.async_carrier import AsyncCarrier
from interpreter.client.command_requests import CommandFollow, Line
from interpreter.models import Event
from interpreter.models.commands import Command


class AsyncShell:
    """Runs commands; see `shell.Shell`."""

    def __init__(self, carrier: AsyncCarrier, session_id: str) -> None:
        self._carrier = carrier
        self._session_id = session_id

    async def __call__(
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
        return await self._carrier.send(requests.run(self._session_id, asked))

    async def start(
        self,
        command: Line,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str = "",
        interactive: bool = True,
        timeout: float | None = None,
        max_output_bytes: int | None = None,
    ) -> AsyncRunningCommand:
        """Starts a command and leaves it running; an `interactive` one reads what it is sent."""
        asked = requests.asked(
            command, cwd, env, stdin, timeout, max_output_bytes,
            by=self._carrier.wire.by, background=True, interactive=interactive,
        )  # fmt: skip
        started = await self._carrier.send(requests.run(self._session_id, asked))
        return AsyncRunningCommand(self._carrier, started)

    async def get(self, command_id: str) -> AsyncRunningCommand:
        """A command that was started before, by whomever."""
        found = await self._carrier.send(requests.command(self._session_id, command_id, wait=False))
        return AsyncRunningCommand(self._carrier, found)

    async def list(
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
        return (await self._carrier.send(call)).commands


class AsyncRunningCommand:
    """A command that was started; `info` is what was last known of it."""

    def __init__(self, carrier: AsyncCarrier, info: Command) -> None:
        self._carrier = carrier
        self.info = info

    @property
    def id(self) -> str:
        return self.info.id

    async def refresh(self) -> Command:
        return await self._update(wait=False)

    async def wait(self) -> Command:
        """Returns when it has ended."""
        return await self._update(wait=True)

    async def send(self, text: str, *, eof: bool = False) -> None:
        """Has it read something; `eof` says that this was all."""
        await self._carrier.send(requests.send(self.info.session_id, self.id, text, eof))

    async def cancel(self) -> Command:
        """Ends it, with all that it has started."""
        self.info = await self._carrier.send(requests.cancel(self.info.session_id, self.id))
        return self.info

    def events(self) -> AsyncGenerator[Event, None]:
        """What happened and happens, from its start on; `done` is last."""
        follow = CommandFollow(self.info.session_id, self.id, self._carrier.reconnect)
        return self._carrier.follow(follow)

    async def _update(self, *, wait: bool) -> Command:
        self.info = await self._carrier.send(requests.command(self.info.session_id, self.id, wait))
        return self.info

    def __repr__(self) -> str:
        return f"<AsyncRunningCommand {self.id} {self.info.status.value}>"
