"""The kernel host: one loop between the link and the kernels.

It relays the channels of its kernels over the link without looking into messages, starts
kernels from its zygote, passes signals on, and tells how a kernel ended after everything that
kernel had sent. It keeps what the gateway has not acknowledged, and when that is too much it
stops reading, so that the kernel waits. It goes on when the gateway is away.
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
from collections.abc import Callable
from functools import partial
from typing import Any

from interpreter.link.frames import FrameError
from interpreter.link.wire import CONTROL, Connected, Message, Opened, Oversized, Wire
from interpreter.sandbox.channels import NAMES
from interpreter.sandbox.kernels import Kernel, Launcher
from interpreter.sandbox.settings import Settings

PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36
CHUNK = 256 * 1024
CONNECT_POLL = 0.002
"""How often a kernel that starts is asked whether it listens."""
DYING_POLL = 0.02
DRAIN_SECONDS = 0.5
"""How long a dead kernel's connections are waited for when they do not end by themselves."""
HOLD_SECONDS = 0.005
HOLD_BYTES = 64 * 1024
"""Output waits this long for more of it, or until it is this much, and so does reading it; the end
of a cell does not wait. Passing on each message by itself would wake this process and the
gateway five times each for a short cell."""


class Host:
    """Everything there is in a sandbox besides the kernels and what they start."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._wire = Wire(opens=False, max_message=64 * 1024 * 1024, facts={"pid": os.getpid()})
        self._listener = socket.socket(fileno=settings.listen_fd)
        self._listener.setblocking(False)
        self._connection: socket.socket | None = None
        self._unsent = memoryview(b"")
        self._kernels: dict[str, Kernel] = {}
        self._streams: dict[int, tuple[str, str]] = {}
        """Link stream → kernel name and channel."""
        self._epoll = select.epoll()
        self._on_ready: dict[int, Callable[[], None]] = {}
        self._waits_to_send = False
        self._flush_at = math.inf
        self._held = 0
        self._commands = {"start": self._start_kernel, "signal": self._signal_kernel}

    def run(self) -> None:
        libc = ctypes.CDLL(None)
        libc.prctl(PR_SET_CHILD_SUBREAPER, 1)
        # Cells run as the same user: without this they could read this process's memory.
        libc.prctl(PR_SET_DUMPABLE, 0)
        with contextlib.suppress(OSError):
            # Work that does not interrupt the gateway's when there are more sandboxes than cores.
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        self._launcher = Launcher(self._settings)
        children, wakeup = socket.socketpair()
        for end in (children, wakeup):
            end.setblocking(False)
        signal.set_wakeup_fd(wakeup.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._children = children
        self._watch(children.fileno(), self._reap)
        self._watch(self._listener.fileno(), self._accept)
        self._watch(self._launcher.channel.fileno(), self._launched)
        while True:
            for fd, _ in self._epoll.poll(self._patience()):
                # One callback can end what another descriptor belonged to.
                if on_ready := self._on_ready.get(fd):
                    on_ready()
            for kernel in list(self._kernels.values()):
                if kernel.status is not None:
                    self._finish(kernel)
                elif not kernel.channels.connected:
                    self._connect(kernel)
                else:
                    self._resume(kernel)
            if time.monotonic() >= self._flush_at:
                for kernel in self._kernels.values():
                    self._wake(kernel)
                self._flush()

    def _patience(self) -> float | None:
        """How long to wait for something to happen."""
        kernels = self._kernels.values()
        longest = math.inf
        if any(kernel.status is not None for kernel in kernels):
            longest = DYING_POLL
        if any(not kernel.channels.connected for kernel in kernels):
            longest = CONNECT_POLL
        if self._flush_at != math.inf:
            longest = min(longest, max(0.0, self._flush_at - time.monotonic()))
        return None if longest == math.inf else longest

    def _flush_soon(self, seconds: float = 0.0) -> None:
        self._flush_at = min(self._flush_at, time.monotonic() + seconds)

    def _watch(self, fd: int, on_ready: Callable[[], None], events: int = select.EPOLLIN) -> None:
        self._on_ready[fd] = on_ready
        self._epoll.register(fd, events)

    def _forget(self, fd: int) -> None:
        del self._on_ready[fd]
        self._epoll.unregister(fd)

    # -- the link

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        if self._connection is not None:
            # What an earlier gateway managed to send before it died still counts.
            self._receive(self._connection)
            self._disconnect()
        connection.setblocking(False)
        self._connection = connection
        self._watch(connection.fileno(), lambda: self._talk(connection))
        self._wire.connect()

    def _talk(self, connection: socket.socket) -> None:
        """The gateway sent something, or takes something again."""
        self._receive(connection)
        if self._waits_to_send or self._held == 0:
            self._flush_soon()

    def _receive(self, connection: socket.socket) -> None:
        while True:
            try:
                data = connection.recv(CHUNK)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self._disconnect()
                return
            try:
                for event in self._wire.receive(data):
                    if isinstance(event, Connected):
                        continue
                    self._handle(event)
                    self._wire.handled(event.number)
            except FrameError:
                self._disconnect()
                return
            if len(data) < CHUNK:
                return

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._forget(self._connection.fileno())
            self._connection.close()
            self._connection = None
            self._unsent, self._waits_to_send = memoryview(b""), False
            self._wire.disconnect()

    def _flush(self) -> None:
        connection = self._connection
        self._flush_at, self._held = math.inf, 0
        if connection is None:
            return
        try:
            while True:
                if not self._unsent:
                    data = self._wire.take()
                    if not data:
                        break
                    self._unsent = memoryview(data)
                sent = connection.send(self._unsent)
                self._unsent = self._unsent[sent:]
        except BlockingIOError:
            pass
        except OSError:
            self._disconnect()
            return
        if bool(self._unsent) != self._waits_to_send:
            self._waits_to_send = bool(self._unsent)
            out = select.EPOLLOUT if self._waits_to_send else 0
            self._epoll.modify(connection.fileno(), select.EPOLLIN | out)

    def _handle(self, event: Any) -> None:
        if isinstance(event, Opened):
            kernel, channel = event.info.get("kernel"), event.info.get("channel")
            if isinstance(kernel, str) and channel in NAMES:
                self._streams[event.stream] = (kernel, channel)
        elif isinstance(event, Message) and event.stream in self._streams:
            name, channel = self._streams[event.stream]
            target = self._kernels.get(name)
            if target is not None:
                self._send(target, channel, event.parts)
        elif isinstance(event, Message) and event.stream == CONTROL:
            command = json.loads(event.parts[0])
            do = self._commands.get(command.get("do"))
            if do is None:
                self._answer(command, error=f"there is no command {command.get('do')!r}")
                return
            try:
                do(command)
            except Exception as e:
                self._answer(command, error=f"{type(e).__name__}: {e}")
        elif isinstance(event, Oversized):
            raise FrameError("a message to the sandbox is over the limit")

    def _answer(self, command: dict[str, Any], **values: Any) -> None:
        self._wire.send_json({"id": command.get("id"), **values})
        self._flush_soon()

    # -- commands

    def _start_kernel(self, command: dict[str, Any]) -> None:
        name = command["kernel"]
        streams = {channel: i for i, (kernel, channel) in self._streams.items() if kernel == name}
        if name in self._kernels or set(streams) != set(NAMES):
            raise ValueError(f"kernel {name} cannot be started")
        kernel = Kernel(name, streams, self._settings)
        self._kernels[name] = kernel
        kernel.start_command = command
        if self._settings.argv is None:
            if not self._launcher.fork(kernel):
                # The zygote was killed: a new one takes its place.
                self._renew_launcher()
                self._launcher.fork(kernel)
        else:
            self._launcher.spawn(kernel)
            self._answer(command, pid=kernel.pid)
        self._watch(kernel.stderr, kernel.read_stderr)

    def _renew_launcher(self) -> None:
        self._forget(self._launcher.channel.fileno())
        self._launcher.close()
        self._launcher = Launcher(self._settings)
        self._watch(self._launcher.channel.fileno(), self._launched)

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
            failed = answer["preload_failed"]
            self._answer(started.start_command, pid=started.pid, preload_failed=failed)

    def _signal_kernel(self, command: dict[str, Any]) -> None:
        kernel = self._kernels.get(command["kernel"])
        sent = False
        if kernel is not None and kernel.pid is not None and kernel.status is None:
            try:
                os.killpg(kernel.pid, command["signal"])
                sent = True
            except ProcessLookupError:
                pass
        self._answer(command, sent=sent)

    # -- kernels

    def _connect(self, kernel: Kernel) -> None:
        for name in kernel.channels.connect():
            sock = kernel.channels[name].socket
            assert sock is not None
            self._watch(sock.fileno(), partial(self._exchange, kernel, name))
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
        channel = kernel.channels[name]
        channel.send(parts)
        if channel.waits_to_send:
            self._choose_events(kernel, name)
        if name == "shell":
            self._rest(kernel)

    def _rest(self, kernel: Kernel) -> None:
        """Leaves the kernel's output alone for a moment, so that it is read in one go."""
        self._flush_soon(HOLD_SECONDS)
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
            if fd in self._on_ready:
                self._forget(fd)
            return
        resting = name in kernel.stalled or (name == "iopub" and kernel.resting)
        reading = 0 if resting else select.EPOLLIN
        self._epoll.modify(fd, reading | (select.EPOLLOUT if channel.waits_to_send else 0))

    def _relay(self, kernel: Kernel, name: str) -> None:
        """Passes on what a kernel sent, as long as not too much of it is unacknowledged."""
        stream, channel = kernel.streams[name], kernel.channels[name]
        while self._wire.writable(stream):
            messages = channel.read()
            if messages is None:
                return
            for parts in messages:
                self._wire.send(stream, parts)
                self._held += sum(map(len, parts))
                if name == "iopub":
                    kernel.idle = says_idle(parts)
            # A cell has ended when it is idle and its reply is there, in either order.
            if kernel.idle or name in ("stdin", "control") or self._held >= HOLD_BYTES:
                self._flush_soon()
            elif name == "shell":
                kernel.resting = False
                self._choose_events(kernel, "iopub")
                self._flush_soon(HOLD_SECONDS)
            elif not channel.halfway:
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
            for kernel in self._kernels.values():
                if kernel.pid == pid:
                    kernel.end(status)

    def _finish(self, kernel: Kernel) -> None:
        """Closes a dead kernel's streams once everything it sent is on its way."""
        kernel.read_stderr()
        for name in NAMES:
            kernel.stalled.discard(name)
            self._exchange(kernel, name)
        late = time.monotonic() - kernel.ended_at > DRAIN_SECONDS
        if kernel.stalled or not (kernel.channels.drained or late):
            return
        for name in NAMES:
            sock = kernel.channels[name].socket
            if sock is not None and sock.fileno() in self._on_ready:
                self._forget(sock.fileno())
        self._forget(kernel.stderr)
        del self._kernels[kernel.name]
        for stream in kernel.streams.values():
            self._streams.pop(stream, None)
            self._wire.close(stream, kernel.exit_report())
        kernel.close()
        self._flush_soon()


def says_idle(parts: list[bytes]) -> bool:
    """A guess at what an IOPub message says, good enough to know whether to hurry."""
    return len(parts[-1]) < 100 and b'"idle"' in parts[-1]
