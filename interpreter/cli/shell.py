"""`interpreter exec` and `interpreter shell`: commands and terminals of a session from this one.

`exec` is as if the program ran here: its output as it comes, stdout and stderr apart, its exit code,
and Ctrl-C ends it. `shell` gives this terminal to one of the session until that is over, or until
Ctrl-] leaves it running.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import re
import shutil
import signal
import sys
import termios
import tty
from collections.abc import Sequence

from interpreter.cli.attach import pick, read_pairs
from interpreter.cli.exits import OF_STATUS, Exit, complain
from interpreter.client import AsyncClient, Client
from interpreter.client.async_terminal import AsyncTerminal
from interpreter.client.errors import ConnectionLost
from interpreter.client.shell import RunningCommand
from interpreter.models import EventType, ExecutionStatus

LEAVE = b"\x1d"
"""Ctrl-]"""
CHUNK = 4096
MODE = re.compile(r"\x1b\[\?([0-9;]{1,50})([hl])")
ON_AT_FIRST = {"7", "25"}
"""Modes that a terminal has by itself: lines are wrapped, the cursor is seen."""


class Modes:
    """What programs have made of the user's terminal, so that it can be had back as it was."""

    def __init__(self) -> None:
        self._changed: dict[str, str] = {}
        self._tail = ""

    def follow(self, text: str) -> None:
        text = self._tail + text
        for modes, switch in MODE.findall(text):
            for mode in modes.split(";"):
                if (switch == "h") == (mode in ON_AT_FIRST):
                    self._changed.pop(mode, None)
                else:
                    self._changed[mode] = "l" if switch == "h" else "h"
        half = text.rfind("\x1b", max(0, len(text) - 60))
        self._tail = "" if half < 0 else text[half:]

    def undo(self) -> str:
        """Takes back modes, among them a screen of its own and reports of the mouse, and also colours,
        what the keypad sends and how keys are told apart."""
        modes = "".join(f"\x1b[?{mode}{switch}" for mode, switch in self._changed.items())
        return f"{modes}\x1b[m\x1b>\x1b[>4m"


def execute(
    session: str,
    command: Sequence[str],
    *,
    cwd: str | None,
    env: Sequence[str] | None,
    timeout: float | None,
    stdin: bool,
) -> int:
    variables = read_pairs(env, "--env")
    given = sys.stdin.read() if stdin else ""
    with Client(by="cli") as client:
        # One word is a line for a shell, as with ssh; several are a program and its arguments.
        line = command[0] if len(command) == 1 else list(command)
        running = pick(client, session).shell.start(
            line, cwd=cwd, env=variables, timeout=timeout, interactive=False, stdin=given
        )
        try:
            return _show(running)
        except KeyboardInterrupt:
            running.cancel()
            return Exit.interrupted


def _show(running: RunningCommand) -> int:
    for event in running.events():
        if event.type is EventType.stream:
            to = sys.stderr if event.data["name"] == "stderr" else sys.stdout
            to.write(event.data["text"])
            to.flush()
    done = running.wait()
    if done.reason is not None:
        complain(done.reason)
    if done.status in (ExecutionStatus.ok, ExecutionStatus.error) and done.exit_code is not None:
        return done.exit_code
    return OF_STATUS[done.status]


def shell(session: str, name: str) -> int:
    with Client(by="cli") as client:
        id = pick(client, session).id
    if not sys.stdin.isatty():
        complain("A shell needs a terminal.", "'interpreter exec' runs commands without one.")
        return Exit.usage
    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setraw(sys.stdin)
        return asyncio.run(_attach(id, name))
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


async def _attach(session_id: str, name: str) -> int:
    async with AsyncClient(by="cli") as client:
        session = await client.session(session_id)
        async with session.terminal(name) as terminal:
            left = await _use(terminal)
    if left:
        os.write(1, f"\r\n[left; 'interpreter shell {session_id}' comes back]\r\n".encode())
    return Exit.ok


async def _use(terminal: AsyncTerminal) -> bool:
    """Returns when the terminal is over, or the user leaves it; whether that is so."""
    modes = Modes()
    showing = asyncio.create_task(_show_terminal(terminal, modes))
    typing = asyncio.create_task(_type(terminal))
    await asyncio.wait({showing, typing}, return_when="FIRST_COMPLETED")
    if typing.done() and typing.exception() is None and not typing.result():
        await asyncio.wait({showing})
    left = not showing.done()
    for task in (showing, typing):
        task.cancel()
    results = await asyncio.gather(showing, typing, return_exceptions=True)
    _write(modes.undo().encode())
    for result in results:
        if isinstance(result, Exception):
            raise result
    return left


async def _show_terminal(terminal: AsyncTerminal, modes: Modes) -> None:
    async for text in terminal:
        modes.follow(text)
        await asyncio.to_thread(_write, text.encode())


def _write(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]


async def _type(terminal: AsyncTerminal) -> bool:
    """Returns whether the user left; else there is nothing to type to, and why is still to be shown."""
    loop = asyncio.get_running_loop()
    events: asyncio.Queue[bytes | None] = asyncio.Queue()
    loop.add_reader(0, lambda: events.put_nowait(os.read(0, CHUNK)))
    loop.add_signal_handler(signal.SIGWINCH, events.put_nowait, None)
    events.put_nowait(None)
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    try:
        while True:
            typed = await events.get()
            if typed is None:
                size = shutil.get_terminal_size()
                await terminal.resize(size.lines, size.columns)
                continue
            before, leaves, _ = typed.partition(LEAVE)
            if text := decoder.decode(before):
                await terminal.send(text)
            if leaves or not typed:
                return True
    except ConnectionLost:
        return False
    finally:
        loop.remove_reader(0)
        loop.remove_signal_handler(signal.SIGWINCH)
