"""The kernel host's commands, where starting one fails half way."""

from __future__ import annotations

import errno
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interpreter.link.wire import Event, Message, Opened
from interpreter.sandbox.commands import Commands
from tests.sandbox.test_terminals import Sandbox


class Shell(Sandbox):
    """The commands of a kernel host that has nothing else."""

    def __init__(self, place: Path) -> None:
        super().__init__(place)
        self.commands = Commands(self.offspring, self.reactor, self.uplink)

    def _handle(self, event: Event) -> None:
        if isinstance(event, Opened):
            self.commands.opened(event.info["command"], event.stream)
        elif isinstance(event, Message):
            asked = json.loads(event.parts[0])
            getattr(self.commands, asked["do"])(asked)

    def run(self, id: str, text: str) -> dict[str, Any]:
        """How it ends, or why it was not started."""
        stream = self.wire.open({"command": id})
        more = {"argv": None, "cwd": None, "env": {}, "stdin": "x", "interactive": True}
        self.ask("run", command=id, text=text, **more)
        self.until(lambda: stream in self.closed or not self.reap())
        self.until(lambda: stream in self.closed)
        return self.closed[stream]

    def reap(self) -> bool:
        """Returns whether there is nothing to reap, or nothing yet."""
        for pid in set(self.offspring._census.programs):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                self.offspring.reaped(pid)
                self.commands.reaped(pid, status)
                self.ends = status
                return False
        return True

    def end(self) -> None:
        for pid in self.offspring._census.programs:
            os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(tmp_path)
    yield shell
    shell.end()


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_a_command_that_cannot_be_followed_is_ended_and_leaves_nothing(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = open_files()
    watch, calls = shell.reactor.watch, iter(range(100))

    def fail(*arguments: Any) -> None:
        if next(calls) == 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        watch(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(shell.reactor, "watch", fail)
        problem = shell.run("c-1", "sleep 600")["problem"]
    assert problem.startswith("No space left on device")
    shell.until(lambda: not shell.reap())
    assert os.waitstatus_to_exitcode(shell.ends) == -signal.SIGKILL
    assert open_files() == before
    assert shell.run("c-2", "exit 3") == {"exit_code": 3, "signal": None}


@pytest.mark.parametrize("pipes", [0, 1, 2])
def test_a_command_for_which_there_are_no_pipes_leaves_none(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, pipes: int
) -> None:
    before = open_files()
    pipe2, calls = os.pipe2, iter(range(100))

    def fail(flags: int) -> tuple[int, int]:
        if next(calls) == pipes:
            raise OSError(errno.EMFILE, "Too many open files")
        return pipe2(flags)

    with monkeypatch.context() as patched:
        patched.setattr(os, "pipe2", fail)
        assert shell.run("c-1", "true")["problem"].startswith("Too many open files")
    assert open_files() == before
    assert shell.run("c-2", "exit 3") == {"exit_code": 3, "signal": None}
