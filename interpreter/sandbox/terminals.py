"""Terminals: shells on a pseudo-terminal each, with their output on a stream of the link.

Little of what a terminal shows is on its way at a time: the rest waits in the program, so that a
flood costs nothing and Ctrl-C is answered at once. The last of it is kept here, for a gateway that
comes after another one. A terminal ends with its shell.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import termios
from collections import deque
from typing import Any

from interpreter.sandbox.offspring import (
    Offspring,
    exit_report,
    problem_report,
    shell,
    whole_characters,
)
from interpreter.sandbox.reactor import READ, WRITE, Reactor
from interpreter.sandbox.uplink import Uplink

CHUNK = 16 * 1024
AHEAD = 128 * 1024
"""Bytes that may be on their way to the gateway."""
KEPT = 128 * 1024
"""Bytes of what was shown last that are kept."""
MOST_INPUT = 1024 * 1024
"""Bytes that may wait for the terminal to take them; what is typed beyond that is taken later."""
MOST_WAITING = 16
"""How many may wait for that."""
IUTF8 = 0o40000
"""Of a terminal's input: Backspace takes away a character, not a byte."""
LAST_READS = 64
"""How much of what a shell showed last is read after its end, lest one that it left never ends it."""


class Terminal:
    """A shell and the terminal that it is on."""

    def __init__(self, name: str, stream: int) -> None:
        self.name = name
        self.stream = stream
        self.fd = -1
        self.pid: int | None = None
        self.number = 0
        self.status: int | None = None
        self.last_reads = LAST_READS
        """How often it is still read after its shell has ended."""
        self.shown = bytearray()
        self.held = b""
        """A character of which not all is here yet."""
        self.unsent = bytearray()
        self.waiting: deque[tuple[dict[str, Any], bytes]] = deque()
        """What was typed and is not taken yet: it is answered when it is."""
        self.stalled = False


class Terminals:
    """All terminals of this sandbox."""

    def __init__(self, offspring: Offspring, reactor: Reactor, uplink: Uplink) -> None:
        self._offspring = offspring
        self._reactor = reactor
        self._uplink = uplink
        self._wire = uplink.wire
        self._all: dict[str, Terminal] = {}

    # -- what the gateway asks for

    def opened(self, name: str, stream: int) -> None:
        if (before := self._all.get(name)) is not None:
            # It is about to end, or the gateway has forgotten it.
            if before.pid is not None:
                self._offspring.hang_up(before.pid)
            self._close(before, {} if before.status is None else exit_report(before.status))
        self._all[name] = Terminal(name, stream)

    def start(self, asked: dict[str, Any]) -> None:
        terminal = self._all.get(asked["terminal"])
        if terminal is None or terminal.pid is not None:
            self._uplink.answer(asked, error="it cannot be started")
            return
        try:
            self._start(terminal, asked)
        except (OSError, ValueError) as e:
            self._close(terminal, problem_report(e))
        self._uplink.answer(asked, pid=terminal.pid)

    def type(self, asked: dict[str, Any]) -> None:
        terminal = self._all.get(asked["terminal"])
        if terminal is None or terminal.fd < 0:
            self._uplink.answer(asked)
        elif len(terminal.waiting) >= MOST_WAITING:
            self._uplink.answer(asked, refused="full")
        else:
            terminal.waiting.append((asked, asked["text"].encode()))
            self._flush(terminal)

    def resize(self, asked: dict[str, Any]) -> None:
        terminal = self._all.get(asked["terminal"])
        if terminal is not None and terminal.fd >= 0:
            _set_size(terminal.fd, asked)
        self._uplink.answer(asked)

    def replay(self, asked: dict[str, Any]) -> None:
        """What was shown last, on the terminal's stream: it takes the place of all that came before."""
        terminal = self._all.get(asked["terminal"])
        if terminal is not None:
            self._uplink.send(terminal.stream, [b"again", bytes(terminal.shown)])
        self._uplink.answer(asked, there=terminal is not None)

    def hang_up(self, asked: dict[str, Any]) -> None:
        terminal = self._all.get(asked["terminal"])
        if terminal is None or terminal.pid is None:
            if terminal is not None:
                self._close(terminal, {"problem": "it was never started"})
            self._uplink.answer(asked, ended=[], left=[])
            return
        self._offspring.hang_up(terminal.pid)
        self._offspring.end(asked, terminal.pid, terminal.number)

    # -- running

    def _start(self, terminal: Terminal, asked: dict[str, Any]) -> None:
        terminal.fd, theirs = os.openpty()
        try:
            _set_size(theirs, asked)
            _expect_utf8(theirs)
            variables = {"TERM": "xterm-256color", **asked["env"]}
            terminal.pid, terminal.number = self._offspring.start(
                None, [shell()], None, variables, (theirs, theirs, theirs), before=_take_terminal
            )
        except BaseException:
            os.close(terminal.fd)
            terminal.fd = -1
            raise
        finally:
            os.close(theirs)
        os.set_blocking(terminal.fd, False)
        self._choose_events(terminal)

    def _choose_events(self, terminal: Terminal) -> None:
        events = (0 if terminal.stalled else READ) | (WRITE if terminal.unsent else 0)
        self._reactor.watch(terminal.fd, lambda: self._exchange(terminal), events)

    def _exchange(self, terminal: Terminal) -> None:
        self._flush(terminal)
        if terminal.fd >= 0 and not terminal.stalled:
            self._relay(terminal)

    def _flush(self, terminal: Terminal) -> None:
        try:
            while terminal.unsent or terminal.waiting:
                self._take_typed(terminal)
                del terminal.unsent[: os.write(terminal.fd, terminal.unsent[:CHUNK])]
        except BlockingIOError:
            pass
        except OSError:
            terminal.unsent.clear()
            self._drop_typed(terminal)
        self._choose_events(terminal)

    def _take_typed(self, terminal: Terminal) -> None:
        """Takes what was typed as far as there is room for it."""
        while terminal.waiting:
            asked, text = terminal.waiting[0]
            if terminal.unsent and len(terminal.unsent) + len(text) > MOST_INPUT:
                return
            terminal.waiting.popleft()
            terminal.unsent += text
            self._uplink.answer(asked)

    def _drop_typed(self, terminal: Terminal) -> None:
        """Nobody will read it."""
        while terminal.waiting:
            self._uplink.answer(terminal.waiting.popleft()[0])

    def _relay(self, terminal: Terminal) -> bool:
        """Passes on some of what a terminal shows; returns whether there was any."""
        if self._wire.kept(terminal.stream) >= AHEAD:
            terminal.stalled = True
            self._choose_events(terminal)
            return False
        try:
            data = os.read(terminal.fd, CHUNK)
        except BlockingIOError:
            return False
        except OSError:  # nobody has the other end any more
            data = b""
        if not data:
            terminal.stalled = True
            self._choose_events(terminal)
            return False
        data = terminal.held + data
        whole = whole_characters(data)
        terminal.held = data[whole:]
        self._show(terminal, data[:whole])
        return True

    def _show(self, terminal: Terminal, data: bytes) -> None:
        if data:
            terminal.shown += data
            _cut(terminal.shown)
            self._uplink.send(terminal.stream, [b"shown", data])
            self._uplink.flush_soon()

    def step(self) -> None:
        """Goes on where the gateway has acknowledged enough."""
        for terminal in list(self._all.values()):
            if terminal.status is not None:
                self._finish(terminal)
            elif terminal.stalled and terminal.fd >= 0 and self._wire.kept(terminal.stream) < AHEAD:
                terminal.stalled = False
                self._exchange(terminal)

    def reaped(self, pid: int, status: int) -> None:
        for terminal in list(self._all.values()):
            if terminal.pid == pid and terminal.status is None:
                terminal.status = status
                self._finish(terminal)

    def _finish(self, terminal: Terminal) -> None:
        terminal.stalled = False
        while terminal.last_reads and self._relay(terminal):
            terminal.last_reads -= 1
        if terminal.last_reads and self._wire.kept(terminal.stream) >= AHEAD:
            return
        self._show(terminal, terminal.held)
        assert terminal.status is not None
        self._close(terminal, exit_report(terminal.status))

    def _close(self, terminal: Terminal, report: dict[str, Any]) -> None:
        del self._all[terminal.name]
        if terminal.fd >= 0:
            self._reactor.forget(terminal.fd)
            with contextlib.suppress(OSError):
                os.close(terminal.fd)
            terminal.fd = -1
        self._drop_typed(terminal)
        self._wire.close(terminal.stream, report)
        self._uplink.flush_soon()


def _take_terminal() -> None:
    """In the shell's process, which leads a session of its own: its stdin controls it."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _expect_utf8(fd: int) -> None:
    attributes = termios.tcgetattr(fd)
    attributes[0] |= IUTF8
    termios.tcsetattr(fd, termios.TCSANOW, attributes)


def _cut(shown: bytearray) -> None:
    """Keeps the last of it, from the start of a character on."""
    if (over := len(shown) - KEPT) > 0:
        while over < len(shown) and shown[over] & 0xC0 == 0x80:
            over += 1
        del shown[:over]


def _set_size(fd: int, asked: dict[str, Any]) -> None:
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", asked["rows"], asked["cols"], 0, 0))
