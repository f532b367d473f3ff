"""Carries messages between an application's sockets and the WebSocket of a session.

Requests go to the gateway in the order they came, and replies back to the client that asked. When the
connection breaks it is made again, under the same name, so that the gateway goes on where it was;
requests that have had no answer are sent again. Every cell has a key by which the gateway knows it: sent
twice, it runs once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import secrets
from collections import OrderedDict, deque
from dataclasses import dataclass
from urllib.parse import quote

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException
from websockets.typing import Subprotocol

from interpreter.client.backoff import Backoff
from interpreter.client.errors import ConnectionLost
from interpreter.client.place import Place
from interpreter.client.terminal_protocol import refused, terminal_options
from interpreter.errors import InterpreterError
from interpreter.provisioner.frames import V1, BadMessage, Message, Signer, pack, unpack
from interpreter.provisioner.shown import Shown
from interpreter.provisioner.sockets import Address, Sockets, message

log = logging.getLogger(__name__)

PATIENCE = 60.0
"""Seconds without a gateway after which the kernel counts as dead."""
REMEMBERED = 10_000
"""Requests without an answer; a kernel that was restarted answers none that it had."""
KEY = "idempotency_key"
LIMIT = "X-Max-Message-Bytes"
"""Where a gateway says how large a message may be: it hangs up on who sends a larger one."""
SENT_ONCE = ("shutdown_request", "interrupt_request")


@dataclass
class Asked:
    """A request that has had no answer yet."""

    by: list[bytes]
    """Who asked, as the socket names it."""
    frame: bytes | None
    """What to send again on a new connection, if it may be."""
    sent: bool = False
    shown: Shown | None = None
    """Of a cell: what it has shown so far."""
    replied: bool = False
    idle: bool = False


class Bridge:
    """Between one session and its sockets; made and used in the worker's thread."""

    def __init__(self, place: Place, address: Address, signer: Signer) -> None:
        self.exit_code: int | None = None
        """None while the kernel lives, as a process would have it."""
        self.over = asyncio.Event()
        self._place = place
        self._name = secrets.token_hex(16)
        """What the gateway knows us by, also when we come back."""
        self._asked: OrderedDict[str, Asked] = OrderedDict()
        self._waiting: deque[tuple[str, bytes]] = deque()
        """What is to be sent: the id of the request, and the frame."""
        self._more = asyncio.Event()
        self._carrying: asyncio.Task[None] | None = None
        self._sockets = Sockets(address, signer, self._take, log.warning)

    @property
    def address(self) -> Address:
        return self._sockets.address

    async def open(self, session_id: str) -> None:
        """Begins to carry; returns when the gateway is connected."""
        await self._hang_up()
        self._asked.clear()
        self._waiting.clear()
        self.exit_code = None
        self.over.clear()
        socket = await self._connect(session_id)
        self._carrying = asyncio.create_task(self._carry(session_id, socket))

    def end(self, exit_code: int) -> None:
        """The kernel is dead, as far as the application is told."""
        if self.exit_code is None:
            self.exit_code = exit_code
        self.over.set()

    async def close(self) -> None:
        await self._hang_up()
        self._sockets.close()

    async def _hang_up(self) -> None:
        if self._carrying is not None:
            self._carrying.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._carrying

    # -- the gateway's side

    async def _connect(self, session_id: str) -> ClientConnection:
        path = f"/api/kernels/{quote(session_id, safe='')}/channels?session_id={self._name}"
        options = {**terminal_options(self._place), "max_size": None, "subprotocols": [Subprotocol(V1)]}
        try:
            return await connect(self._place.url.replace("http", "ws", 1) + path, **options)
        except (OSError, WebSocketException) as e:
            raise refused(self._place, e) from None

    async def _carry(self, session_id: str, socket: ClientConnection) -> None:
        """Until the kernel is gone, or the gateway for too long."""
        backoff = Backoff(PATIENCE, repeatable=True)
        try:
            while True:
                backoff.works()
                await self._carry_by(socket)
                if self.exit_code is not None:
                    return
                error: InterpreterError = ConnectionLost("The connection to the gateway broke.")
                while True:
                    await asyncio.sleep(backoff.pause_after(error))
                    try:
                        socket = await self._connect(session_id)
                        break
                    except InterpreterError as e:
                        error = e
        except InterpreterError as e:
            log.warning("the session %s is out of reach: %s", session_id, e)
            self.end(1)

    async def _carry_by(self, socket: ClientConnection) -> None:
        """As long as this connection lasts."""
        self._send_again()
        sending = asyncio.create_task(self._send(socket))
        try:
            async for frame in socket:
                try:
                    self._deliver(unpack(frame if isinstance(frame, bytes) else frame.encode()))
                except BadMessage as e:
                    log.warning("the gateway: %s", e)
        except (OSError, WebSocketException):
            pass
        finally:
            sending.cancel()
            await socket.close()

    def _send_again(self) -> None:
        unsent = {id for id, _ in self._waiting}
        again = [
            (id, asked.frame)
            for id, asked in self._asked.items()
            if asked.sent and asked.frame is not None and id not in unsent
        ]
        self._waiting.extendleft(reversed(again))
        self._more.set()

    async def _send(self, socket: ClientConnection) -> None:
        most = math.inf if socket.response is None else float(socket.response.headers.get(LIMIT, "inf"))
        with contextlib.suppress(OSError, WebSocketException):
            while True:
                while self._waiting:
                    id, frame = self._waiting[0]
                    if len(frame) > most:
                        self._waiting.popleft()
                        self._refuse(id, frame, most)
                        continue
                    await socket.send(frame)
                    self._waiting.popleft()
                    if id in self._asked:
                        self._asked[id].sent = True
                self._more.clear()
                await self._more.wait()

    def _refuse(self, id: str, frame: bytes, most: float) -> None:
        """A message that the gateway does not take: whoever waits for an answer gets one."""
        reason = f"A message of {len(frame):,} bytes was not sent: the gateway takes {most:,.0f}."
        log.warning(reason)
        if (asked := self._asked.pop(id, None)) is None:
            return
        request = unpack(frame)
        head, type = request.parts[0], request.header().msg_type
        error = {"ename": "MessageTooLarge", "evalue": reason, "traceback": [reason]}
        self._sockets.publish(message("status", {"execution_state": "busy"}, head))
        if asked.shown is not None:
            self._sockets.publish(message("error", {**error}, head))
        content = {"status": "error", "execution_count": 0, **error}
        reply = message(type.removesuffix("_request") + "_reply", content, head)
        self._sockets.send(request.channel, asked.by, reply)
        self._sockets.publish(message("status", {"execution_state": "idle"}, head))

    def _deliver(self, said: Message) -> None:
        id = said.parent().msg_id
        asked = self._asked.get(id)
        if said.channel == "iopub":
            self._publish(said, asked)
        elif asked is None or said.channel not in ("shell", "stdin", "control"):
            return  # it was answered already, or whoever asked is not one of ours
        elif said.channel == "stdin":
            self._sockets.send("stdin", asked.by, said.parts)
        elif not asked.replied:
            asked.replied = True
            self._sockets.send(said.channel, asked.by, said.parts)
        if asked is not None and asked.replied and (asked.idle or asked.shown is None):
            self._asked.pop(id, None)

    def _publish(self, said: Message, asked: Asked | None) -> None:
        type, parts = said.header().msg_type, said.parts
        if asked is not None and asked.shown is not None:
            new = asked.shown.new(type, parts)
            if new is None:
                return
            parts = new
        self._sockets.publish(parts)
        if type == "status" and b'"dead"' in parts[3]:
            self.end(1)
        if type == "status" and b'"idle"' in parts[3] and asked is not None:
            asked.idle = True

    # -- the application's side

    def _take(self, request: Message, sender: list[bytes]) -> None:
        header = request.header()
        if header.msg_type == "shutdown_request":
            # Whoever asked for it, it is the application that ends or restarts its kernels.
            content = {"status": "ok", "restart": b"true" in request.parts[3]}
            self._sockets.send(
                request.channel, sender, message("shutdown_reply", content, request.parts[0])
            )
            self.end(0)
            return
        if header.msg_type == "execute_request":
            request.parts[2] = _with_key(request.parts[2], header.msg_id)
        frame = pack(request)
        if header.msg_type.endswith("_request"):
            again = None if header.msg_type in SENT_ONCE else frame
            shown = Shown() if header.msg_type == "execute_request" else None
            self._asked[header.msg_id] = Asked(sender, again, shown=shown)
            if len(self._asked) > REMEMBERED:
                self._asked.popitem(last=False)
        self._waiting.append((header.msg_id, frame))
        self._more.set()


def _with_key(metadata: bytes, key: str) -> bytes:
    try:
        given = msgspec.json.decode(metadata, type=dict[str, msgspec.Raw])
    except (msgspec.MsgspecError, UnicodeError):
        given = {}
    return msgspec.json.encode({**given, KEY: key})
