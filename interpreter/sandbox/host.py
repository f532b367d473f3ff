"""The kernel host: one loop between the link and the kernels.

It relays the channels of its kernels over the link without looking into what they say, starts
kernels from its zygote, marks each with the cell it is given, passes signals on, and tells how a
kernel ended after everything that kernel had sent. Beside them it runs commands and terminals. It
keeps what the gateway has not acknowledged, and when that is too much it stops reading, so that the
kernel waits. It goes on when the gateway is away.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import math
import os
import select
import signal
import socket
import time
from functools import partial
from typing import Any

from interpreter.link.frames import FrameError
from interpreter.link.wire import CONTROL, Event, Message, Opened, Oversized
from interpreter.sandbox.census import Census
from interpreter.sandbox.channels import NAMES, answers, says_idle
from interpreter.sandbox.commands import Commands
from interpreter.sandbox.describing import Describing
from interpreter.sandbox.doors import open_door
from interpreter.sandbox.endings import Endings
from interpreter.sandbox.kernels import Kernel, Launcher, payload_path
from interpreter.sandbox.offspring import Offspring
from interpreter.sandbox.reactor import READ, WRITE, Reactor
from interpreter.sandbox.settings import Settings
from interpreter.sandbox.terminals import Terminals
from interpreter.sandbox.uplink import HOLD_SECONDS, Uplink

PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36
CONNECT_POLL = 0.002
"""How often a kernel that starts is asked whether it listens."""
DYING_POLL = 0.02
DRAIN_SECONDS = 0.5
"""How long a dead kernel's connections are waited for when they do not end by themselves."""


class Host:
    """Everything there is in a sandbox besides the kernels and what they start."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._reactor = Reactor()
        self._uplink = Uplink(open_door(settings), self._reactor, self._handle)
        self._wire = self._uplink.wire
        self._kernels: dict[str, Kernel] = {}
        self._streams: dict[int, tuple[str, str]] = {}
        """Link stream → kernel name and channel."""
        self._census = Census(self._kernels)
        self._endings = Endings(self._census, self._kernels, self._uplink.answer)
        self._describing = Describing(
            settings.workspace, payload_path(), self._reactor, self._uplink.answer
        )
        self._offspring = Offspring(settings, self._census, self._endings)
        self._shell_commands = Commands(self._offspring, self._reactor, self._uplink)
        self._terminals = Terminals(self._offspring, self._reactor, self._uplink)
        self._commands = {
            "start": self._start_kernel,
            "signal": self._signal_kernel,
            "processes": self._endings.report,
            "end": self._endings.end,
            "describe": self._describing.begin,
            "workspace": self._show_workspace,
            "run": self._shell_commands.run,
            "input": self._shell_commands.input,
            "stop": self._shell_commands.stop,
            "terminal": self._terminals.start,
            "type": self._terminals.type,
            "resize": self._terminals.resize,
            "replay": self._terminals.replay,
            "hang_up": self._terminals.hang_up,
        }

    def run(self) -> None:
        libc = ctypes.CDLL(None)
        libc.prctl(PR_SET_CHILD_SUBREAPER, 1)
        # Cells run as the same user: without this they could read this process's memory.
        libc.prctl(PR_SET_DUMPABLE, 0)
        with contextlib.suppress(OSError):
            # Work that does not interrupt the gateway's when there are more sandboxes than cores.
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        os.chdir("/")  # not in the workspace: another may be mounted over it
        self._launch()
        children, wakeup = socket.socketpair()
        for end in (children, wakeup):
            end.setblocking(False)
        signal.set_wakeup_fd(wakeup.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        # Not ignored, which what is started here would inherit.
        signal.signal(signal.SIGINT, lambda *_: None)
        self._children = children
        self._reactor.watch(children.fileno(), self._reap)
        while True:
            self._reactor.turn(self._patience())
            for kernel in list(self._kernels.values()):
                if kernel.status is not None:
                    self._finish(kernel)
                elif not kernel.channels.connected:
                    self._connect(kernel)
                else:
                    self._resume(kernel)
            self._shell_commands.step()
            self._terminals.step()
            self._endings.step()
            self._describing.step()
            if self._uplink.patience == 0.0:
                for kernel in self._kernels.values():
                    self._wake(kernel)
                self._uplink.flush()

    def _patience(self) -> float | None:
        """How long to wait for something to happen."""
        kernels = self._kernels.values()
        longest = min(self._uplink.patience, self._endings.patience, self._describing.patience)
        if any(kernel.status is not None for kernel in kernels):
            longest = min(longest, DYING_POLL)
        if any(not kernel.channels.connected for kernel in kernels):
            longest = min(longest, CONNECT_POLL)
        return None if longest == math.inf else longest

    # -- the link

    def _handle(self, event: Event) -> None:
        if isinstance(event, Opened):
            kernel, channel = event.info.get("kernel"), event.info.get("channel")
            if isinstance(kernel, str) and channel in NAMES:
                self._streams[event.stream] = (kernel, channel)
            elif isinstance(command := event.info.get("command"), str):
                self._shell_commands.opened(command, event.stream)
            elif isinstance(terminal := event.info.get("terminal"), str):
                self._terminals.opened(terminal, event.stream)
        elif isinstance(event, Message) and event.stream in self._streams:
            name, channel = self._streams[event.stream]
            target = self._kernels.get(name)
            if target is not None:
                self._send(target, channel, event.parts)
        elif isinstance(event, Message) and event.stream == CONTROL:
            asked = json.loads(event.parts[0])
            do = self._commands.get(asked.get("do"))
            if do is None:
                self._uplink.answer(asked, error=f"there is no command {asked.get('do')!r}")
                return
            try:
                do(asked)
            except Exception as e:
                self._uplink.answer(asked, error=f"{type(e).__name__}: {e}")
        elif isinstance(event, Oversized):
            raise FrameError("a message to the sandbox is over the limit")

    # -- commands

    def _start_kernel(self, command: dict[str, Any]) -> None:
        name = command["kernel"]
        streams = {channel: i for i, (kernel, channel) in self._streams.items() if kernel == name}
        if name in self._kernels or set(streams) != set(NAMES):
            raise ValueError(f"kernel {name} cannot be started")
        kernel = Kernel(name, streams, self._settings)
        self._kernels[name] = kernel
        kernel.start_command = command
        kernel.variables = command.get("env", {})
        if self._settings.argv is None:
            if not self._launcher.fork(kernel):
                # The zygote was killed: a new one takes its place.
                self._renew_launcher()
                self._launcher.fork(kernel)
        else:
            self._launcher.spawn(kernel)
            self._census.started(kernel)
            self._uplink.answer(command, pid=kernel.pid)
        self._reactor.watch(kernel.stderr, kernel.read_stderr)

    def _show_workspace(self, command: dict[str, Any]) -> None:
        """Which folder is at its place now, and whether its files can be used."""
        place = self._settings.workspace
        seen = os.stat(place)
        usable = os.access(place, os.R_OK | os.X_OK)
        self._uplink.answer(
            command, device=seen.st_dev, inode=seen.st_ino, place=place, usable=usable,
            writable=os.access(place, os.W_OK),
        )  # fmt: skip

    def _launch(self) -> None:
        self._launcher = Launcher(self._settings)
        self._census.zygote = self._launcher.zygote
        self._describing.environment = self._launcher.environment
        self._offspring.environment = self._launcher.environment
        self._reactor.watch(self._launcher.channel.fileno(), self._launched)

    def _renew_launcher(self) -> None:
        self._reactor.forget(self._launcher.channel.fileno())
        self._launcher.close()
        self._launch()

    def _launched(self) -> None:
        """The zygote's answer: a kernel runs; or its end."""
        answer = self._launcher.read()
        if answer is None:
            waiting = [k for k in self._kernels.values() if k.pid is None]
            self._renew_launcher()
            for kernel in waiting:
                if kernel.attempts < 2:
                    self._launcher.fork(kernel)
                else:
                    kernel.end(1 << 8)
            return
        started = self._kernels.get(answer["kernel"])
        if started is not None:
            started.pid = answer["pid"]
            self._census.started(started)
            failed = answer["preload_failed"]
            self._uplink.answer(started.start_command, pid=started.pid, preload_failed=failed)

    def _signal_kernel(self, command: dict[str, Any]) -> None:
        kernel = self._kernels.get(command["kernel"])
        if kernel is not None and command["signal"] == signal.SIGINT:
            # Its reply may be here already: then the cell that is meant has ended.
            self._exchange(kernel, "shell")
            if kernel.asked == 0:
                self._uplink.answer(command, sent=False)
                return
            if cell := command.get("cell"):
                with contextlib.suppress(OSError):  # a full disk
                    kernel.channels.name_target(cell)
        self._endings.signal_kernel(command)

    # -- kernels

    def _connect(self, kernel: Kernel) -> None:
        for name in kernel.channels.connect():
            self._choose_events(kernel, name)

    def _exchange(self, kernel: Kernel, name: str) -> None:
        """A kernel sent something, or takes something again."""
        if name != "iopub":
            self._wake(kernel)  # what was shown before a reply or a question goes before it
        channel = kernel.channels[name]
        if channel.waits_to_send:
            channel.flush()
        self._relay(kernel, name)
        self._choose_events(kernel, name)

    def _send(self, kernel: Kernel, name: str, parts: list[bytes]) -> None:
        if name == "shell":
            kernel.newest = (self._census.passing(kernel, parts) or "").encode()
        channel = kernel.channels[name]
        channel.send(parts)
        if channel.waits_to_send:
            self._choose_events(kernel, name)
        if name == "shell":
            kernel.asked += 1
            kernel.idle = kernel.replied = False
            self._rest(kernel)

    def _rest(self, kernel: Kernel) -> None:
        """Leaves the kernel's output alone for a moment, so that it is read in one go."""
        self._uplink.flush_soon(HOLD_SECONDS)
        if not kernel.resting:
            kernel.resting = True
            self._choose_events(kernel, "iopub")

    def _wake(self, kernel: Kernel) -> None:
        if kernel.resting:
            kernel.resting = False
            self._exchange(kernel, "iopub")

    def _choose_events(self, kernel: Kernel, name: str) -> None:
        channel = kernel.channels[name]
        if channel.socket is None:
            return
        fd = channel.socket.fileno()
        if channel.ended:
            self._reactor.forget(fd)
            return
        resting = name in kernel.stalled or (name == "iopub" and kernel.resting)
        events = (0 if resting else READ) | (WRITE if channel.waits_to_send else 0)
        self._reactor.watch(fd, partial(self._exchange, kernel, name), events)

    def _relay(self, kernel: Kernel, name: str) -> None:
        """Passes on what a kernel sent, as long as not too much of it is unacknowledged."""
        stream, channel = kernel.streams[name], kernel.channels[name]
        while self._wire.writable(stream):
            messages = channel.read()
            if messages is None:
                return
            for parts in messages:
                self._uplink.send(stream, parts)
                if name == "iopub":
                    kernel.idle = says_idle(parts) and answers(parts, kernel.newest)
                elif name == "shell":
                    kernel.asked = max(0, kernel.asked - 1)
                    kernel.replied = kernel.replied or answers(parts, kernel.newest)
            # A cell has ended when it is idle and its reply is there, in either order. ipykernel
            # sends from another thread what it shows, and mostly the reply overtakes all of it.
            if kernel.idle and kernel.replied:
                kernel.replied = False
                self._uplink.flush_soon()
            elif name in ("stdin", "control"):
                self._uplink.flush_soon()
            elif name == "shell":
                kernel.resting = False
                self._choose_events(kernel, "iopub")
            elif not kernel.replied and not channel.halfway and self._uplink.patience:
                self._rest(kernel)
        kernel.stalled.add(name)

    def _resume(self, kernel: Kernel) -> None:
        """Goes on reading where the gateway has acknowledged enough."""
        for name in [c for c in kernel.stalled if self._wire.writable(kernel.streams[c])]:
            kernel.stalled.discard(name)
            self._exchange(kernel, name)

    def _reap(self) -> None:
        """Takes in every child that ended: kernels, and orphans of theirs."""
        try:
            while self._children.recv(4096):
                pass
        except BlockingIOError:
            pass
        # A kernel can end before the zygote's word that it runs has been read.
        while select.select([self._launcher.channel], [], [], 0)[0] and self._launcher.alive:
            self._launched()
        while True:
            try:
                pid, status, _ = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._offspring.reaped(pid)
            self._shell_commands.reaped(pid, status)
            self._terminals.reaped(pid, status)
            for kernel in self._kernels.values():
                if kernel.pid == pid:
                    kernel.end(status)

    def _finish(self, kernel: Kernel) -> None:
        """Closes a dead kernel's streams once everything it sent is on its way."""
        kernel.read_stderr()
        for name in NAMES:
            kernel.stalled.discard(name)
            self._exchange(kernel, name)
        kernel.childless = kernel.childless or self._endings.end_rest_of(kernel)
        late = time.monotonic() - kernel.ended_at > DRAIN_SECONDS
        if kernel.stalled or not ((kernel.channels.drained and kernel.childless) or late):
            return
        for name in NAMES:
            sock = kernel.channels[name].socket
            if sock is not None:
                self._reactor.forget(sock.fileno())
        self._reactor.forget(kernel.stderr)
        del self._kernels[kernel.name]
        for stream in kernel.streams.values():
            self._streams.pop(stream, None)
            self._wire.close(stream, kernel.exit_report())
        kernel.close()
        self._uplink.flush_soon()
