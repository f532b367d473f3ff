"""One kernel's channels, from the moment it is started until it has ended.

A `KernelConnection` reads always and hands every message to its owner together with the link's
number for it; the owner says when what it carried is stored. It knows nothing of executions:
requests carry the execution's id as their message id, so every message that answers one names it.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import signal
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec

from interpreter.errors import SandboxFailed
from interpreter.kernel import messages
from interpreter.kernel.messages import KernelMessage, MalformedMessage
from interpreter.link.connection import Incoming, Link
from interpreter.link.wire import Closed, Oversized
from interpreter.models.notebooks import Language

CHANNELS = ("shell", "iopub", "stdin", "control")
START_SECONDS = 60.0
"""How long a kernel has to start, with all that is to be loaded in it."""
SUBSCRIPTION_RETRY = 0.1
LAST_WORDS = 2000
"""Characters of a dead kernel's stderr that are shown."""

_UNNOTICED = {"store_history": False, "allow_stdin": False, "user_expressions": {}, "silent": False}
"""What is said of a cell that is nobody's."""


class Exit(msgspec.Struct, frozen=True):
    """How a kernel process ended."""

    exit_code: int | None = None
    signal: int | None = None
    stderr: str = ""

    @property
    def killed(self) -> bool:
        """Whether it was killed as the system does it when memory runs out."""
        return self.signal == signal.SIGKILL or self.exit_code == 128 + signal.SIGKILL

    def describe(self) -> str:
        if self.signal == signal.SIGSEGV:
            what = "the kernel crashed with a segmentation fault (SIGSEGV)"
        elif self.signal is not None:
            try:
                name = signal.Signals(self.signal).name
            except ValueError:
                name = f"signal {self.signal}"
            what = f"the kernel was killed by {name}"
        else:
            what = f"the kernel process exited with code {self.exit_code}"
        last_words = self.stderr.strip()[-LAST_WORDS:]
        return f"{what}\n{last_words}" if last_words else what


class _Info(msgspec.Struct):
    """The content of a kernel_info_reply."""

    language_info: Language | None = None


class Owner(Protocol):
    """Who a kernel connection reports to."""

    def on_message(self, message: KernelMessage, number: int) -> None: ...
    def on_oversized(self, parts: list[bytes], size: int, number: int) -> None: ...
    def on_malformed(self, channel: str, problem: str, number: int) -> None: ...
    def on_exit(self, kernel: str, exit: Exit, number: int) -> None: ...
    def on_passed(self, number: int) -> None: ...


class KernelConnection:
    """The gateway's side of one kernel."""

    def __init__(self, link: Link, name: str, owner: Owner) -> None:
        self.name = name
        self.exit: Exit | None = None
        self.owner = owner
        self.language: Language | None = None
        """What it says that its cells are written in."""
        self._link = link
        self._streams: dict[str, int] = {}
        self._closed: set[str] = set()
        self._awaited: asyncio.Future[None] | None = None
        self._awaited_id = ""
        self._awaited_type = ""
        self._iopub_seen = asyncio.Event()
        self._exited = asyncio.Event()

    async def start(self, variables: dict[str, str] | None = None, *, hurry: bool = True) -> None:
        """Starts the kernel and waits until it answers on both of its channels.

        Without hurry everything that is to be preloaded is loaded in it.
        """
        for channel in CHANNELS:
            info = {"kernel": self.name, "channel": channel}
            self._streams[channel] = self._link.open(info, self._handler(channel))
        arguments = {"kernel": self.name, "env": variables or {}, "hurry": hurry}
        answer = await self._link.command("start", within=START_SECONDS, **arguments)
        if "error" in answer:
            raise SandboxFailed(f"The kernel could not be started: {str(answer['error'])[:1000]}")
        while not self._iopub_seen.is_set():
            await self.ready()
            # A subscription made late has missed the kernel's first words: make it speak again.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SUBSCRIPTION_RETRY):
                    await self._iopub_seen.wait()

    def adopt(self) -> bool:
        """Takes over a kernel that an earlier gateway started, if it is still there."""
        for stream, info in self._link.wire.streams.items():
            if info.get("kernel") == self.name and info.get("channel") in CHANNELS:
                self._streams[info["channel"]] = stream
                self._link.on_stream(stream, self._handler(info["channel"]))
        return len(self._streams) == len(CHANNELS)

    async def ready(self) -> None:
        """Returns when the kernel has worked off everything it was sent before this."""
        await self._ask("kernel_info_request", {}, "kernel_info_reply")

    async def rehearse(self) -> None:
        """Has a kernel of ours go through a whole cell, with a result that is not remembered: the first
        one takes longer than all others. Returns when it has said the last of it."""
        await self._ask("execute_request", {**_UNNOTICED, "code": "0", "rehearsal": True}, "status")

    def rouse(self) -> None:
        """Has a kernel of Python go through a cell that does nothing: one after a long rest takes
        longer than all others."""
        self._do("None")

    async def enter(self, folder: str) -> None:
        """Has a kernel of Python that nobody has used yet go to a folder."""
        self._do(f"__import__('os').chdir({folder!r})")
        await self.ready()

    def _do(self, code: str) -> None:
        """Runs a cell that leaves no trace."""
        self._send("shell", "execute_request", {**_UNNOTICED, "code": code, "silent": True})

    async def _ask(self, type: str, content: dict[str, Any], answer: str) -> None:
        """Sends a request and waits for an answer of this type; a status only when it is idle."""
        self._awaited = asyncio.get_running_loop().create_future()
        # An earlier gateway may have asked the same: its answer tells nothing of what was sent since.
        self._awaited_id, self._awaited_type = secrets.token_hex(8), answer
        self._send("shell", type, content, self._awaited_id)
        await self._awaited

    def execute(
        self,
        id: str,
        code: str,
        *,
        store_history: bool,
        allow_stdin: bool,
        silent: bool = False,
        expressions: Mapping[str, Any] | None = None,
    ) -> None:
        content = {
            "code": code,
            "silent": silent,
            "store_history": store_history,
            "user_expressions": expressions or {},
            "allow_stdin": allow_stdin,
            "stop_on_error": False,
        }
        self._send("shell", "execute_request", content, id, now=True)

    def answer_input(self, value: str) -> None:
        self._send("stdin", "input_reply", {"status": "ok", "value": value})

    def takes(self, channel: str) -> bool:
        """Whether another message can be passed on now; else it should wait."""
        return channel in self._closed or self._link.wire.writable(self._streams[channel])

    async def room(self, channel: str) -> None:
        """Returns when another message can be passed on."""
        while not self.takes(channel):
            await self._link.acknowledged()

    def pass_on(self, channel: str, parts: list[bytes]) -> None:
        """Sends a message that somebody else made: header, parent, metadata, content and buffers."""
        if channel not in self._closed:
            self._link.send(self._streams[channel], [messages.DELIMITER, b"", *parts], now=True)

    async def interrupt(self, cell: str | None = None) -> None:
        """Interrupts this cell, and no other if it has ended meanwhile; None is whatever runs."""
        await self._signal(signal.SIGINT, **({} if cell is None else {"cell": cell}))

    async def kill(self) -> None:
        """Ends the kernel and waits until its last output is here."""
        if self.exit is None:
            await self._signal(signal.SIGKILL)
            await self._link.heard(self._exited.wait())

    async def _signal(self, number: signal.Signals, **more: Any) -> None:
        if self.exit is None:
            await self._link.command("signal", kernel=self.name, signal=int(number), **more)

    def _send(
        self,
        channel: str,
        type: str,
        content: dict[str, Any],
        msg_id: str | None = None,
        *,
        now: bool = False,
    ) -> None:
        if channel not in self._closed:
            self._link.send(self._streams[channel], messages.build(type, content, msg_id), now=now)

    def _handler(self, channel: str) -> Callable[[Incoming], None]:
        def handle(event: Incoming) -> None:
            if isinstance(event, Closed):
                self._on_closed(channel, event)
            elif isinstance(event, Oversized):
                self.owner.on_oversized(event.parts, event.size, event.number)
            else:
                try:
                    message = messages.parse(channel, event.parts)
                except MalformedMessage as e:
                    self.owner.on_malformed(channel, str(e), event.number)
                    return
                if channel == "iopub":
                    self._iopub_seen.set()
                if message.parent_id == self._awaited_id and self._answers(message):
                    self._note_language(message)
                    self._awaited.set_result(None)  # type: ignore[union-attr]
                self.owner.on_message(message, event.number)

        return handle

    def _note_language(self, message: KernelMessage) -> None:
        if message.type == "kernel_info_reply" and message.raw is not None:
            with contextlib.suppress(msgspec.MsgspecError):
                self.language = msgspec.json.decode(message.raw[3], type=_Info).language_info

    def _answers(self, message: KernelMessage) -> bool:
        """Whether it is what somebody waits for."""
        if self._awaited is None or self._awaited.done() or message.type != self._awaited_type:
            return False
        return message.type != "status" or message.content.get("execution_state") == "idle"

    def _on_closed(self, channel: str, event: Closed) -> None:
        self._closed.add(channel)
        self._link.forget(event.stream)
        if len(self._closed) < len(CHANNELS):
            self.owner.on_passed(event.number)
            return
        try:
            self.exit = msgspec.convert(event.info, Exit)
        except msgspec.ValidationError:
            self.exit = Exit()
        if self._awaited is not None and not self._awaited.done():
            # The whole of its last words would tell of paths that are nobody's business.
            what = self.exit.describe().splitlines()
            why = f"{what[0]}: {what[-1]}" if len(what) > 1 else what[0]
            self._awaited.set_exception(SandboxFailed(f"A kernel did not start: {why}."))
        self._exited.set()
        self.owner.on_exit(self.name, self.exit, event.number)

    def lost(self, reason: str) -> None:
        """The sandbox is gone, and the kernel with it."""
        if self.exit is None:
            self.exit = Exit(stderr=reason)
            if self._awaited is not None and not self._awaited.done():
                self._awaited.set_exception(SandboxFailed(reason))
            self._exited.set()
