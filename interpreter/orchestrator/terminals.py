"""The terminals of one session: shells that any number of viewers look at and type into.

A terminal is a stream on the link. What it shows is kept, as much as fits into a window that moves
along; each viewer has a place in it. One that comes first sees what is kept, one that is too slow
leaves something out, and none of them costs memory or holds up the others. Nothing of it is
recorded. A terminal outlives the gateway: the next one has the sandbox show again what it kept.
One that is over is told of by the next of its name, also after that.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeGuard

import msgspec

from interpreter.errors import QueueFull, SandboxFailed, TerminalNotFound, TooManyCommands
from interpreter.link.connection import Incoming
from interpreter.link.wire import Closed, Message
from interpreter.models import Limits
from interpreter.models.commands import Terminal as TerminalModel
from interpreter.models.commands import TerminalName
from interpreter.orchestrator.command import Exit
from interpreter.orchestrator.events import EventLog
from interpreter.orchestrator.live_sandbox import LiveSandbox
from interpreter.orchestrator.processes import clean, patience
from interpreter.orchestrator.scrollback import KEPT, Scrollback
from interpreter.orchestrator.tasks import Tasks

MOST_SIZE = 10_000
ROWS, COLUMNS = 24, 80
END_SECONDS = 60.0
TYPE_SECONDS = 20.0
"""How long a program may leave what was typed unread; a viewer that waits longer is taken for dead."""
MOST_ENDS = 64
"""Terminals that are over of which is remembered why."""
LONGEST_END = 300
"""Characters of why."""
USE_SECONDS = 1.0
"""How often it is said that a terminal which shows something to somebody is used."""


class Terminal:
    """One terminal, as its viewers see it."""

    def __init__(
        self,
        name: str,
        live: LiveSandbox,
        created_at: datetime | None,
        on_use: Callable[[], None],
    ) -> None:
        """`created_at` is None for one that an earlier gateway left: what that showed is shown again."""
        self.name = name
        self.ended: str | None = None
        """Why it is over; None while it is not."""
        self.stream: int | None = None
        """Of the link, once it is open."""
        self.created_at = created_at
        self.last_activity = datetime.now(UTC)
        self.viewers = 0
        self._live = live
        self._on_use = on_use
        self._used = 0.0
        self._shown = Scrollback()
        self._old = 0
        """The place up to which it was shown by an earlier gateway."""
        self._waits = created_at is None
        """Whether what it showed so far is yet to come, and nothing is shown before that."""
        self._changed = asyncio.Event()

    def model(self) -> TerminalModel:
        return TerminalModel(
            name=self.name,
            viewers=self.viewers,
            created_at=self.created_at,
            last_activity=self.last_activity,
        )

    async def type(self, text: str) -> None:
        """Returns when the sandbox has it: what the program does not read waits, but not for ever."""
        if self.ended is not None:
            return
        try:
            async with asyncio.timeout(TYPE_SECONDS):
                answer = await self._live.link.command(
                    "type", within=math.inf, terminal=self.name, text=text
                )
        except ConnectionError as e:
            raise SandboxFailed(f"The sandbox is gone: {e}.") from e
        except TimeoutError:
            answer = {"refused": "full"}
        if answer.get("refused") is not None:
            raise QueueFull("What was typed before is not read.", "Type it later.")

    async def resize(self, rows: int, columns: int) -> None:
        rows, columns = (max(1, min(MOST_SIZE, n)) for n in (rows, columns))
        if self.ended is None:
            async with patience():
                await self._live.link.command("resize", terminal=self.name, rows=rows, cols=columns)

    async def view(self) -> AsyncGenerator[str, None]:
        """What it shows, from the oldest that is kept on, until it is over."""
        self.viewers += 1
        shown, place, old = self._shown, 0, self._shown.end
        try:
            while True:
                changed = self._changed
                place = shown.start(place)
                if self._waits and self.ended is None:
                    await changed.wait()
                elif place < (until := max(old, self._old)):
                    piece, place = shown.read_old(place, until)
                    if piece:
                        yield piece
                elif piece := shown.read(place):
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
        self._shown.add(text)
        now = time.monotonic()
        if now - self._used >= USE_SECONDS:
            self._used = now
            self.last_activity = datetime.now(UTC)
            if self.viewers:
                self._on_use()
        self._wake()

    def show_again(self, text: str) -> None:
        """All that was shown so far, of which an earlier gateway knew."""
        self._shown.replace(text)
        self._old, self._waits = self._shown.end, False
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

    def __init__(
        self,
        session_id: str,
        events: EventLog,
        variables: dict[str, str],
        on_use: Callable[[], None],
        known: Mapping[str, str | None],
        store: Callable[[dict[str, str | None]], object],
    ) -> None:
        """`on_use` is called now and then while a terminal shows something to somebody. `known` is what
        an earlier gateway had stored: the terminals there were, and why those that are over are."""
        self._events = events
        self._variables = variables
        self._on_use = on_use
        self._all: dict[str, Terminal] = {}
        self._known = dict(known)
        """By name, those that ended first first; None is one that is not over."""
        self._store = store
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
            if not isinstance(name, str):
                continue
            if not _is_name(name) or len(self._all) >= limits.commands:
                self._tasks.spawn(live.link.command("hang_up", within=END_SECONDS, terminal=name))
                if name in self._known:
                    self._remember(name, "there were more terminals than may be")
                continue
            terminal = self._all[name] = Terminal(name, live, None, self._on_use)
            terminal.stream = stream
            live.link.on_stream(stream, partial(self._take_in, terminal))
            # If it was not started any more, it is now; else that is refused.
            self._tasks.spawn(self._start(live, name))
            self._tasks.spawn(live.link.command("replay", terminal=name))
            if self._known.get(name, "") is not None:
                self._remember(name, None)
        self._lost("it was not there any more when the gateway started again")

    def lose(self, reason: str) -> None:
        """The sandbox is gone."""
        self._live = None
        for terminal in self.all():
            self._over(terminal, reason)
        self._lost(reason)

    def _lost(self, reason: str) -> None:
        """Those that an earlier gateway left, and that are not here, are over."""
        for name, end in list(self._known.items()):
            if end is None and name not in self._all:
                self._remember(name, reason)

    def _remember(self, name: str, end: str | None) -> None:
        """Has it stored, with the events so far, that a terminal is there or why it is over."""
        self._known.pop(name, None)
        self._known[name] = None if end is None else end[:LONGEST_END]
        ends = [name for name, end in self._known.items() if end is not None]
        for oldest in ends[:-MOST_ENDS]:
            del self._known[oldest]
        self._store(dict(self._known))

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
        terminal = self._all[name] = Terminal(name, live, datetime.now(UTC), self._on_use)
        if (before := self._known.get(name)) is not None:
            terminal.show(f"[the terminal before this one is over: {before}]\r\n")
        terminal.stream = live.link.open({"terminal": name}, partial(self._take_in, terminal))
        self._remember(name, None)
        async with patience():
            answer = await self._start(live, name)
        if "error" in answer:
            self._over(terminal, f"it could not be started: {clean(str(answer['error']), 300)}")
        return terminal

    async def _start(self, live: LiveSandbox, name: str) -> dict[str, Any]:
        size = {"rows": ROWS, "cols": COLUMNS}
        return await live.link.command("terminal", terminal=name, env=self._variables, **size)

    async def end(self, name: str) -> None:
        """Ends a terminal with all that was started in it."""
        terminal = self.get(name)
        if self._live is not None:
            async with patience():
                await self._live.link.command("hang_up", within=END_SECONDS, terminal=name)
        self._over(terminal, "it was ended")

    def _take_in(self, terminal: Terminal, event: Incoming) -> None:
        if isinstance(event, Closed):
            exit = Exit.read(event.info)
            self._over(terminal, exit.reason or f"its shell exited with {exit.exit_code}")
        elif isinstance(event, Message) and len(event.parts) == 2:
            kind, data = event.parts
            show: dict[bytes, Callable[[str], None]]
            show = {b"shown": terminal.show, b"again": terminal.show_again}
            if kind in show:
                # A character has four bytes at most: there is nothing to gain from reading more.
                show[kind](data[-4 * KEPT :].decode(errors="replace")[-KEPT:])
        self._events.passed(event.number)

    def _over(self, terminal: Terminal, reason: str) -> None:
        terminal.end(reason)
        if self._live is not None and terminal.stream is not None:
            self._live.link.forget(terminal.stream)
        if self._all.get(terminal.name) is terminal:
            del self._all[terminal.name]
            self._remember(terminal.name, reason)

    def close(self) -> None:
        """The gateway stops; the terminals go on."""
        self._tasks.cancel()
