"""The terminals of one session: shells that any number of viewers look at and type into.

A terminal is a stream on the link. What it shows is kept, as much as fits into a window that moves
along; each viewer has a place in it. One that comes first sees what is kept, one that is too slow
leaves something out, and none of them costs memory or holds up the others. Nothing of it is
recorded. A terminal outlives the gateway: the next one has the sandbox show again what it kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeGuard

import msgspec

from interpreter.errors import SandboxFailed, TerminalNotFound, TooManyCommands
from interpreter.link.connection import Incoming
from interpreter.link.wire import Closed, Message
from interpreter.models import Limits
from interpreter.models.commands import Terminal as TerminalModel
from interpreter.models.commands import TerminalName
from interpreter.orchestrator.command import Exit
from interpreter.orchestrator.events import EventLog
from interpreter.orchestrator.live_sandbox import LiveSandbox
from interpreter.orchestrator.processes import patience
from interpreter.orchestrator.tasks import Tasks

KEPT = 256 * 1024
"""Characters that are kept of what a terminal showed."""
PIECE = 64 * 1024
"""Characters that a viewer gets at once."""
MOST_SIZE = 10_000
ROWS, COLUMNS = 24, 80
END_SECONDS = 60.0


class Terminal:
    """One terminal, as its viewers see it."""

    def __init__(self, name: str, live: LiveSandbox, created_at: datetime | None) -> None:
        self.name = name
        self.ended: str | None = None
        """Why it is over; None while it is not."""
        self.created_at = created_at
        self.last_activity = datetime.now(UTC)
        self.viewers = 0
        self._live = live
        self._text = ""
        self._first = 0
        """How many characters were shown before those that are kept."""
        self._changed = asyncio.Event()

    def model(self) -> TerminalModel:
        return TerminalModel(
            name=self.name,
            viewers=self.viewers,
            created_at=self.created_at,
            last_activity=self.last_activity,
        )

    async def type(self, text: str) -> None:
        """Returns when the sandbox has it."""
        await self._tell("type", text=text)

    async def resize(self, rows: int, columns: int) -> None:
        rows, columns = (max(1, min(MOST_SIZE, n)) for n in (rows, columns))
        await self._tell("resize", rows=rows, cols=columns)

    async def _tell(self, do: str, **arguments: Any) -> None:
        if self.ended is None:
            async with patience():
                await self._live.link.command(do, terminal=self.name, **arguments)

    async def view(self) -> AsyncGenerator[str, None]:
        """What it shows, from the oldest that is kept on, until it is over."""
        self.viewers += 1
        place = self._first
        try:
            while True:
                changed = self._changed
                # What was kept may have been replaced by less, or have moved on.
                place = min(max(place, self._first), self._first + len(self._text))
                piece = self._text[place - self._first :][:PIECE]
                if piece:
                    place += len(piece)
                    yield piece
                elif self.ended is not None:
                    return
                else:
                    await changed.wait()
        finally:
            self.viewers -= 1

    # -- what the sandbox says

    def show(self, text: str) -> None:
        self.last_activity = datetime.now(UTC)
        self._text += text
        if len(self._text) > KEPT + PIECE:
            # At the start of a line, if there is one soon: not in the middle of a colour.
            cut = len(self._text) - KEPT
            line = self._text.find("\n", cut, cut + 1000) + 1
            cut = line or cut
            self._text = self._text[cut:]
            self._first += cut
        self._wake()

    def show_again(self, text: str) -> None:
        """All that was shown so far, of which an earlier gateway knew."""
        self._first, self._text = 0, text
        self._wake()

    def end(self, reason: str) -> None:
        self.ended = self.ended or reason
        self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


def _is_name(name: Any) -> TypeGuard[str]:
    try:
        msgspec.convert(name, TerminalName)
    except msgspec.ValidationError:
        return False
    return True


class Terminals:
    """The terminals of one session, by name."""

    def __init__(self, session_id: str, events: EventLog, variables: dict[str, str]) -> None:
        self._events = events
        self._variables = variables
        self._all: dict[str, Terminal] = {}
        self._live: LiveSandbox | None = None
        self._tasks = Tasks(f"terminals of {session_id}")

    def enter(self, live: LiveSandbox) -> None:
        self._live = live

    def resume_in(self, live: LiveSandbox, limits: Limits) -> None:
        """Goes on with the terminals that an earlier gateway left in this sandbox, which says so itself:
        no others than those could be, and no more."""
        self._live = live
        for stream, info in live.link.wire.streams.items():
            name = info.get("terminal")
            if _is_name(name) and len(self._all) < limits.commands:
                terminal = self._all[name] = Terminal(name, live, None)
                live.link.on_stream(stream, partial(self._take_in, terminal))
                # If it was not started any more, it is now; else that is refused.
                self._tasks.spawn(self._start(live, name))
                self._tasks.spawn(live.link.command("replay", terminal=name))

    def lose(self, reason: str) -> None:
        """The sandbox is gone."""
        self._live = None
        for terminal in self._all.values():
            terminal.end(reason)
        self._all.clear()

    def all(self) -> list[Terminal]:
        return [self._all[name] for name in sorted(self._all)]

    def get(self, name: str) -> Terminal:
        if name not in self._all:
            raise TerminalNotFound(f"This session has no terminal '{name[:100]}'.")
        return self._all[name]

    async def open(self, name: str, limits: Limits) -> Terminal:
        """The terminal of this name; one that is not there is made."""
        if name in self._all:
            return self._all[name]
        if self._live is None:
            raise SandboxFailed("The session has no sandbox.")
        if len(self._all) >= limits.commands:
            raise TooManyCommands(f"{len(self._all)} terminals are there, and no more may be.")
        live = self._live
        terminal = self._all[name] = Terminal(name, live, datetime.now(UTC))
        live.link.open({"terminal": name}, partial(self._take_in, terminal))
        async with patience():
            await self._start(live, name)
        return terminal

    async def _start(self, live: LiveSandbox, name: str) -> None:
        size = {"rows": ROWS, "cols": COLUMNS}
        await live.link.command("terminal", terminal=name, env=self._variables, **size)

    async def end(self, name: str) -> None:
        """Ends a terminal with all that was started in it."""
        terminal = self.get(name)
        if self._live is not None:
            async with patience():
                await self._live.link.command("hang_up", within=END_SECONDS, terminal=name)
        self._over(terminal, "it was ended")

    def _take_in(self, terminal: Terminal, event: Incoming) -> None:
        if isinstance(event, Closed):
            if self._live is not None:
                self._live.link.forget(event.stream)
            exit = Exit.read(event.info)
            self._over(terminal, exit.reason or f"its shell exited with {exit.exit_code}")
        elif isinstance(event, Message) and len(event.parts) == 2:
            kind, data = event.parts
            show: dict[bytes, Callable[[str], None]]
            show = {b"shown": terminal.show, b"again": terminal.show_again}
            if kind in show:
                show[kind](data.decode(errors="replace")[-KEPT:])
        self._events.passed(event.number)

    def _over(self, terminal: Terminal, reason: str) -> None:
        terminal.end(reason)
        if self._all.get(terminal.name) is terminal:
            del self._all[terminal.name]

    def close(self) -> None:
        """The gateway stops; the terminals go on."""
        self._tasks.cancel()
