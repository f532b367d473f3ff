"""The kernel host: one loop between the link and the kernels.

It relays the channels of its kernels over the link without looking into messages, starts
kernels from its zygote, passes signals on, and tells how a kernel ended after everything that
kernel had sent. It keeps what the gateway has not acknowledged, and when that is too much it
stops reading, so that the kernel waits. It goes on when the gateway is away.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import socket
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import zmq

from interpreter.link.frames import FrameError
from interpreter.link.wire import CONTROL, Connected, Message, Opened, Oversized, Wire
from interpreter.sandbox.channels import NAMES
from interpreter.sandbox.kernels import Kernel, Launcher
from interpreter.sandbox.settings import Settings

PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36
CHUNK = 256 * 1024
DYING_POLL = 0.02
DRAIN_SECONDS = 0.5
"""How long a dead kernel's connections are waited for when they do not end by themselves."""


class Host:
    """Everything there is in a sandbox besides the kernels and what they start."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._wire = Wire(opens=False, max_message=64 * 1024 * 1024, facts={"pid": os.getpid()})
        self._listener = socket.socket(fileno=settings.listen_fd)
        self._listener.setblocking(False)
        self._connection: socket.socket | None = None
        self._unsent = memoryview(b"")
        self._context: zmq.Context[Any] = zmq.Context()
        self._kernels: dict[str, Kernel] = {}
        self._streams: dict[int, tuple[str, str]] = {}
        """Link stream → kernel name and channel."""
        self._epoll = select.epoll()
        self._on_ready: dict[int, Callable[[], None]] = {}
        self._waits_to_send = False
        self._commands = {"start": self._start_kernel, "signal": self._signal_kernel}

    def run(self) -> None:
        libc = ctypes.CDLL(None)
        libc.prctl(PR_SET_CHILD_SUBREAPER, 1)
        # Cells run as the same user: without this they could read this process's memory.
        libc.prctl(PR_SET_DUMPABLE, 0)
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
            dying = any(kernel.status is not None for kernel in self._kernels.values())
            for fd, _ in self._epoll.poll(DYING_POLL if dying else None):
                # One callback can end what another descriptor belonged to.
                if on_ready := self._on_ready.get(fd):
                    on_ready()
            for kernel in list(self._kernels.values()):
                if kernel.status is not None:
                    self._finish(kernel)
                else:
                    self._resume(kernel)
            self._flush()

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
        self._watch(connection.fileno(), lambda: self._receive(connection))
        self._wire.connect()

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
                target.channels.send(channel, event.parts)
                # Sending takes in what ZMQ has to tell, so it will not tell it again.
                self._relay(target, channel)
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

    # -- commands

    def _start_kernel(self, command: dict[str, Any]) -> None:
        name = command["kernel"]
        streams = {channel: i for i, (kernel, channel) in self._streams.items() if kernel == name}
        if name in self._kernels or set(streams) != set(NAMES):
            raise ValueError(f"kernel {name} cannot be started")
        kernel = Kernel(name, streams, self._context, self._settings)
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
        for name, sock in kernel.channels.sockets.items():
            # ZMQ signals on its descriptor when there is something new, and only then.
            relay = partial(self._relay, kernel, name)
            self._watch(sock.FD, relay, select.EPOLLIN | select.EPOLLET)
            monitor = kernel.channels.monitors[name]
            read = partial(kernel.channels.read_monitor, name)
            self._watch(monitor.FD, read, select.EPOLLIN | select.EPOLLET)
            relay()
            read()
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

    def _relay(self, kernel: Kernel, channel: str) -> None:
        """Passes on what a kernel sent, as long as not too much of it is unacknowledged."""
        stream = kernel.streams[channel]
        if not self._wire.writable(stream):
            kernel.stalled.add(channel)
            return
        for parts in kernel.channels.read(channel):
            self._wire.send(stream, parts)
            if not self._wire.writable(stream):
                kernel.stalled.add(channel)
                return

    def _resume(self, kernel: Kernel) -> None:
        """Goes on reading where the gateway has acknowledged enough."""
        for channel in [c for c in kernel.stalled if self._wire.writable(kernel.streams[c])]:
            kernel.stalled.discard(channel)
            self._relay(kernel, channel)

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
        channels = kernel.channels
        for name in NAMES:
            stream = kernel.streams[name]
            while self._wire.writable(stream):
                parts = next(channels.read(name), None)
                if parts is None:
                    break
                self._wire.send(stream, parts)
        late = time.monotonic() - kernel.ended_at > DRAIN_SECONDS
        if not channels.drained() and not (late and kernel.idle_drain()):
            return
        for sock in (*channels.sockets.values(), *channels.monitors.values()):
            self._forget(sock.FD)
        self._forget(kernel.stderr)
        del self._kernels[kernel.name]
        for stream in kernel.streams.values():
            self._streams.pop(stream, None)
            self._wire.close(stream, kernel.exit_report())
        kernel.close()
