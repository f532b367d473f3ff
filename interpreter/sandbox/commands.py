"""Commands: programs that run beside the kernels, each with its output on a stream of the link.

A command ends with its process. What that wrote is sent to the last byte, and then the stream is
closed with how it ended. What it has left running keeps its pipes, and what comes through them is
read and forgotten: nobody else should suffer from the end of a command.

Output is cut between characters, so that each message can be read by itself. While the gateway has
too much to acknowledge nothing is read, and the program waits.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import struct
import termios
from collections import deque
from functools import partial
from typing import Any

from interpreter.sandbox.offspring import (
    Offspring,
    exit_report,
    problem_report,
    shell,
    whole_characters,
)
from interpreter.sandbox.reactor import WRITE, Reactor
from interpreter.sandbox.uplink import Uplink

CHUNK = 64 * 1024
MOST_INPUT = 4 * 1024 * 1024
"""Bytes that may wait for a command to read them."""
MOST_LEFT_OPEN = 128
"""Pipes of what ended commands have left running; the oldest are closed beyond that."""


class Outlet:
    """One of the two pipes that a command writes to."""

    def __init__(self, name: bytes) -> None:
        self.name = name
        self.fd, self.end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        os.set_blocking(self.end, True)
        self.open = True
        self.taken = 0
        """Bytes that were read from it."""
        self._held = b""

    def available(self) -> int:
        """Bytes that are in it now."""
        if not self.open:
            return 0
        answer = fcntl.ioctl(self.fd, termios.FIONREAD, bytes(4))
        return int(struct.unpack("i", answer)[0])

    def read(self, most: int = CHUNK) -> bytes | None:
        """Whole characters; None when there is nothing now. At its end it is not `open` any more."""
        try:
            data = os.read(self.fd, most)
        except BlockingIOError:
            return None
        if not data:
            self.open = False
            return self.rest()
        self.taken += len(data)
        data = self._held + data
        whole = whole_characters(data)
        self._held = data[whole:]
        return data[:whole]

    def rest(self) -> bytes:
        """A character that was begun and not ended."""
        rest, self._held = self._held, b""
        return rest


class Inlet:
    """A command's stdin. It takes what the program does not read yet, up to a limit."""

    def __init__(self, reactor: Reactor) -> None:
        self.end, self.fd = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self.fd, False)
        self.open = True
        self._reactor = reactor
        self._unsent = bytearray()
        self._ends = False

    def write(self, data: bytes, *, last: bool) -> str | None:
        """Returns why it was not taken, if it was not."""
        if not self.open or self._ends:
            return "closed"
        if len(self._unsent) + len(data) > MOST_INPUT:
            return "full"
        self._unsent += data
        self._ends = last
        self._flush()
        return None

    def _flush(self) -> None:
        try:
            while self._unsent:
                del self._unsent[: os.write(self.fd, self._unsent[:CHUNK])]
        except BlockingIOError:
            self._reactor.watch(self.fd, self._flush, WRITE)
            return
        except OSError:  # nobody reads it any more
            self._ends = True
            self._unsent.clear()
        self._reactor.forget(self.fd)
        if self._ends:
            self.close()

    def close(self) -> None:
        if self.open:
            self.open = False
            self._reactor.forget(self.fd)
            os.close(self.fd)


class Command:
    """A command whose stream is open."""

    def __init__(self, id: str, stream: int) -> None:
        self.id = id
        self.stream = stream
        self.pid: int | None = None
        self.number = 0
        self.status: int | None = None
        self.inlet: Inlet | None = None
        self.outlets: list[Outlet] = []
        self.stalled: set[Outlet] = set()
        """Those that are not read because the gateway has too much to acknowledge."""
        self.left: dict[Outlet, int] = {}
        """Bytes that were in its pipes when it ended, and are still to be sent."""


class Commands:
    """All commands of this sandbox."""

    def __init__(self, offspring: Offspring, reactor: Reactor, uplink: Uplink) -> None:
        self._offspring = offspring
        self._reactor = reactor
        self._uplink = uplink
        self._wire = uplink.wire
        self._all: dict[str, Command] = {}
        self._by_pid: dict[int, Command] = {}
        self._left_open: deque[Outlet] = deque()

    # -- what the gateway asks for

    def opened(self, id: str, stream: int) -> None:
        self._all[id] = Command(id, stream)

    def run(self, asked: dict[str, Any]) -> None:
        """Asked for again, as a gateway does that does not know whether it was, it is not run again."""
        command = self._all.get(asked["command"])
        if command is None or command.pid is not None:
            self._uplink.answer(asked, run=False)
            return
        try:
            self._start(command, asked)
        except Exception as e:
            if command.pid is not None:
                os.killpg(command.pid, signal.SIGKILL)
            self._close(command, problem_report(e))
        self._uplink.answer(asked, run=True)

    def input(self, asked: dict[str, Any]) -> None:
        command = self._all.get(asked["command"])
        if command is None or command.inlet is None:
            self._uplink.answer(asked, refused="closed")
            return
        refused = command.inlet.write(asked["text"].encode(), last=asked["eof"])
        self._uplink.answer(asked, refused=refused)

    def stop(self, asked: dict[str, Any]) -> None:
        command = self._all.get(asked["command"])
        if command is None:
            self._uplink.answer(asked, ended=[], left=[])
        elif command.pid is None:
            self._close(command, {"problem": "it was never started"})
            self._uplink.answer(asked, ended=[], left=[])
        else:
            self._offspring.end(asked, command.pid, command.number)

    # -- running

    def _start(self, command: Command, asked: dict[str, Any]) -> None:
        argv = asked["argv"] or [shell(), "-c", asked["text"]]
        given = asked["stdin"].encode()
        with contextlib.ExitStack() as theirs, contextlib.ExitStack() as ours:
            inlet = Inlet(self._reactor)
            theirs.callback(os.close, inlet.end)
            ours.callback(inlet.close)
            outlets = []
            for name in (b"stdout", b"stderr"):
                outlets.append(outlet := Outlet(name))
                theirs.callback(os.close, outlet.end)
                ours.callback(self._let_go, outlet)
            ends = (inlet.end, outlets[0].end, outlets[1].end)
            command.pid, command.number = self._offspring.start(
                command.id, argv, asked["cwd"], asked["env"], ends
            )
            inlet.write(given, last=not asked["interactive"])
            for outlet in outlets:
                self._listen(command, outlet)
            ours.pop_all()
        command.outlets, command.inlet = outlets, inlet
        self._by_pid[command.pid] = command

    def _listen(self, command: Command, outlet: Outlet) -> None:
        self._reactor.watch(outlet.fd, partial(self._relay, command, outlet))

    def _relay(self, command: Command, outlet: Outlet) -> None:
        """Passes on some of what a command wrote; the rest has its turn after the others'."""
        if not self._wire.writable(command.stream):
            command.stalled.add(outlet)
            self._reactor.forget(outlet.fd)
            return
        if data := outlet.read():
            self._uplink.send(command.stream, [outlet.name, data])
        if not outlet.open:
            self._let_go(outlet)

    def _let_go(self, outlet: Outlet) -> None:
        self._reactor.forget(outlet.fd)
        os.close(outlet.fd)

    def reaped(self, pid: int, status: int) -> None:
        """A child has ended; maybe it was a command."""
        command = self._by_pid.pop(pid, None)
        if command is not None:
            command.status = status
            command.left = {o: o.available() for o in command.outlets if o.open}
            for outlet in command.left:
                self._reactor.forget(outlet.fd)
            self._finish(command)

    def step(self) -> None:
        """Goes on where the gateway has acknowledged enough."""
        for command in list(self._all.values()):
            if command.status is not None:
                self._finish(command)
            elif command.stalled and self._wire.writable(command.stream):
                for outlet in command.stalled:
                    self._listen(command, outlet)
                command.stalled.clear()

    def _finish(self, command: Command) -> None:
        """Sends what an ended command had written, then how it ended."""
        for outlet, left in command.left.items():
            while left > 0 and outlet.open:
                if not self._wire.writable(command.stream):
                    command.left[outlet] = left
                    return
                before = outlet.taken
                data = outlet.read(min(CHUNK, left))
                left = 0 if data is None else left - (outlet.taken - before)
                if data:
                    self._uplink.send(command.stream, [outlet.name, data])
            command.left[outlet] = 0
            if rest := outlet.rest():
                self._uplink.send(command.stream, [outlet.name, rest])
        assert command.status is not None
        self._close(command, exit_report(command.status))

    def _close(self, command: Command, report: dict[str, Any]) -> None:
        del self._all[command.id]
        self._wire.close(command.stream, report)
        self._uplink.flush_soon()
        if command.inlet is not None:
            command.inlet.close()
        for outlet in command.outlets:
            if outlet.open:
                self._leave_open(outlet)

    # -- what is left running

    def _leave_open(self, outlet: Outlet) -> None:
        self._left_open.append(outlet)
        self._reactor.watch(outlet.fd, partial(self._forget, outlet))
        if len(self._left_open) > MOST_LEFT_OPEN:
            self._shut(self._left_open[0])

    def _forget(self, outlet: Outlet) -> None:
        with contextlib.suppress(OSError):
            outlet.read()
        if not outlet.open:
            self._shut(outlet)

    def _shut(self, outlet: Outlet) -> None:
        outlet.open = False
        self._left_open.remove(outlet)
        self._let_go(outlet)
