"""`interpreter exec` and `interpreter shell` against a live gateway."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable

import pytest

from interpreter import Client
from interpreter.cli import shell
from interpreter.cli.shell import Modes
from interpreter.client.errors import ConnectionLost
from interpreter.models import ExecutionStatus

from .terminal import Terminal
from .test_live import Run, client, env, run, session, terminal

__all__ = ["client", "env", "run", "session", "terminal"]


def test_exec_is_as_if_the_program_ran_here(run: Run, session: str) -> None:
    done = run("exec", session, "--", "sh", "-c", "echo out; echo err >&2; exit 3")
    assert (done.stdout, done.stderr, done.returncode) == ("out\n", "err\n", 3)
    done = run("exec", session, "--cwd", "/tmp", "--env", "A=b c", "pwd; echo $A")
    assert (done.stdout, done.returncode) == ("/tmp\nb c\n", 0)
    assert run("exec", session, "-i", "--", "tr", "a-z", "A-Z", stdin="text").stdout == "TEXT"
    assert "\n$ tr a-z A-Z\nTEXT" in run("logs", session).stdout, "a command is not shown as a cell"
    missing = run("exec", session, "--", "no-such-program", "-x")
    assert missing.returncode == 1
    assert "it could not be started: No such file or directory" in missing.stderr
    late = run("exec", session, "--timeout", "0.5", "--", "sleep", "600")
    assert (late.returncode, late.stdout) == (124, "")


def test_ctrl_c_ends_the_command(
    terminal: Callable[..., Terminal], client: Client, session: str
) -> None:
    with terminal("exec", session, "--", "sh", "-c", "echo on; sleep 600") as screen:
        screen.expect("on\n", 90)
        screen.type("\x03")
        assert screen.exit_code(90) == 130
    last = client.session(session).shell.list(running=False)[-1]
    assert last.status is ExecutionStatus.cancelled


def test_a_shell_is_used_left_and_come_back_to(
    terminal: Callable[..., Terminal], client: Client, session: str
) -> None:
    with terminal("shell", session) as screen:
        screen.expect(r"\$ ", 90)
        screen.type("x=kept; echo größe-$((6*7))\r")
        screen.expect("größe-42\n", 90)
        screen.type("\x1d")
        screen.expect("comes back", 90)
        assert screen.exit_code(90) == 0
    assert [t.name for t in client.session(session).terminals()] == ["main"]
    with terminal("shell", session) as screen:
        screen.expect("größe-42\n", 90)
        screen.type("echo $x-$((1+1)); exit\r")
        screen.expect("kept-2\n", 90)
        screen.expect("this terminal is over: its shell exited with 0", 90)
        assert screen.exit_code(90) == 0


def test_a_shell_is_interrupted_and_resized_and_left_with_the_terminal_as_it_was(
    terminal: Callable[..., Terminal], session: str
) -> None:
    with terminal("shell", session, "--name", "keys") as screen:
        screen.expect(r"\$ ", 90)
        screen.type("echo on-$((1+1)); sleep 600\r")
        screen.expect("on-2\n", 90)
        screen.type("\x03")
        screen.expect(r"\^C", 90)
        screen.resize(33, 99)
        screen.type("stty size\r")
        screen.expect("33 99\n", 90)
        screen.type("printf '\\033[?1049h\\033[?1000;1006h\\033[?25lin''side'\r")
        screen.expect("inside", 90)
        screen.type("\x1d")
        assert screen.exit_code(90) == 0
        after = screen.raw.rpartition("inside")[2]
        for mode in ("1049l", "1000l", "1006l", "25h"):
            assert f"\x1b[?{mode}" in after


class Over:
    """A terminal that has ended, which is not shown before somebody types on."""

    def __init__(self) -> None:
        self.typed = asyncio.Event()

    async def send(self, text: str) -> None:
        self.typed.set()
        raise ConnectionLost("it was closed")

    async def resize(self, rows: int, columns: int) -> None:
        pass

    async def __aiter__(self) -> AsyncIterator[str]:
        await self.typed.wait()
        await asyncio.sleep(0)
        yield "[this terminal is over]"


async def test_what_is_typed_after_the_end_of_a_shell_does_not_hide_it(
    capfd: pytest.CaptureFixture[str],
) -> None:
    ours, theirs = os.pipe()
    before = os.dup(0)
    os.dup2(ours, 0)
    try:
        os.write(theirs, b"ls\r")
        async with asyncio.timeout(60):
            assert await shell._use(Over()) is False  # type: ignore[arg-type]
    finally:
        os.dup2(before, 0)
        for end in (ours, theirs, before):
            os.close(end)
    assert "[this terminal is over]" in capfd.readouterr().out


def test_modes_are_followed_wherever_they_are_cut() -> None:
    modes = Modes()
    for character in "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[?7hx\x1b[?2004h\x1b[?2004l":
        modes.follow(character)
    assert modes.undo().startswith("\x1b[?1049l\x1b[?25h\x1b[m")


def test_a_shell_needs_a_terminal(run: Run, session: str) -> None:
    done = run("shell", session)
    assert done.returncode == 2
    assert "A shell needs a terminal." in done.stderr
