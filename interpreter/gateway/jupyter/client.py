"""One Jupyter client's WebSocket.

What a kernel says goes out as it comes. A client that does not read fast enough is not waited for, and
costs a bounded amount of memory: it falls behind, and gets the rest from the record when it reads again.
What was sent may be lost on the way without a word, so it is asked whether that arrived: who comes back
is told everything since the last time that it answered.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import structlog
from tornado.iostream import StreamClosedError
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from interpreter.errors import ExecutionNotFound, ForbiddenHost, InterpreterError, SessionNotFound
from interpreter.gateway.auth import is_own_origin
from interpreter.gateway.handler import JSON
from interpreter.gateway.jupyter import framing
from interpreter.gateway.jupyter.answers import error_answer
from interpreter.gateway.jupyter.framing import BadFrame, Outgoing
from interpreter.gateway.jupyter.replay import messages_of
from interpreter.kernel.messages import KernelMessage
from interpreter.orchestrator.kernel_listener import PREFIX
from interpreter.orchestrator.live_sandbox import DEFAULT
from interpreter.store import EventRow

if TYPE_CHECKING:
    from interpreter.gateway.jupyter.kernels import Jupyter

log = structlog.get_logger()

LIVE_BYTES = 8 * 1024 * 1024
"""A client that has not read so much falls behind."""
MOST_BYTES = 96 * 1024 * 1024
"""A client that has not read so much of what is nowhere recorded is hung up on."""
TOLD = 100
ASK_SECONDS = 0.02
"""How soon after something was sent it is asked whether it arrived: what is sent in between may come
twice to one whose connection breaks."""
ARRIVED = b"arrived?"
LIMIT = "X-Max-Message-Bytes"
"""Tells how large a message may be: the connection of one that sends a larger one is closed (1009)."""
PING_SECONDS = 30.0
"""So that whoever is in between does not take a quiet connection for a dead one. No answer is waited
for: a client that reads slowly answers late."""


class Client(WebSocketHandler):
    """`GET /api/kernels/{kernel_id}/channels`."""

    def initialize(self, jupyter: Jupyter) -> None:
        self.jupyter = jupyter
        self.session_id = ""
        self.seen = 0
        """The number of the last event that it has been sent, or needs not be."""
        self.confirmed: int | None = None
        """The number of the last event that it is known to have got; None if that is too few."""
        self.behind = False
        self._v1 = False
        self._ends: list[str] = []
        """Cells whose reply was sent since it was asked whether things arrived."""
        self._asked: tuple[int | None, list[str]] | None = None
        """What has arrived if it answers the question that is on its way."""
        self._asked_at = 0.0
        self._next_question: asyncio.TimerHandle | None = None
        self._sent_since = False
        self._answer: asyncio.Future[None] | None = None
        self._told_whole = True
        """Whether it has been sent all that there is to tell of cells before those that it follows."""
        self._unsent = 0
        self._drained = asyncio.Event()
        self._told: OrderedDict[tuple[str, str], None] = OrderedDict()
        """What it was told of cells as it happened: it is not told again from the record."""
        self._halves: list[Outgoing] = []
        """Of the last cell that was ending while it was behind."""
        self._again: list[str] = []
        """Cells that it is to be told once more from their beginning."""
        self._following: asyncio.Task[None] | None = None
        self._looked_up = ("", False)
        """The last execution that was, and whether it is of this kernel: events come in a row."""
        self._said_goodbye = False
        self._joined = False
        self._next_ping: asyncio.TimerHandle | None = None

    # -- it connects

    async def prepare(self) -> None:
        guard = self.jupyter.gateway.guard
        guard.check_host(self.request)
        guard.check_token(self.request)
        origin = self.request.headers.get("Origin")
        if origin is not None and not self.check_origin(origin):
            raise ForbiddenHost("A page of another host may not open this.")
        self.set_header(LIMIT, self.max_message_size)
        self.door = self.jupyter.door(self.path_kwargs["kernel_id"])
        given = self.get_query_argument("session_id", "")[:200]
        self.session_id = given or secrets.token_hex(16)

    def check_origin(self, origin: str) -> bool:
        """Only pages of this very host may; what is no page says no origin."""
        return is_own_origin(self.request, origin)

    def select_subprotocol(self, subprotocols: list[str]) -> str | None:
        return framing.V1 if framing.V1 in subprotocols else None

    def open(self, *args: str, **path: str) -> None:
        self._v1 = self.selected_subprotocol == framing.V1
        self._joined = True
        self._notice_goodbye()
        self.jupyter.sockets.add(self)
        self._ping()
        self.door.join(self)

    def _notice_goodbye(self) -> None:
        """Browsers say goodbye without a code, and then nothing tells it from a broken connection but
        that there still is one to answer on."""
        connection = self.ws_connection
        assert connection is not None
        close = connection.close

        def closing(code: int | None = None, reason: str | None = None) -> None:
            there = connection.stream is not None and not connection.stream.closed()
            if connection.client_terminated and there:
                self._said_goodbye = True
            close(code, reason)

        connection.close = closing  # type: ignore[method-assign]

    def on_ws_connection_close(
        self, close_code: int | None = None, close_reason: str | None = None
    ) -> None:
        self._said_goodbye = self._said_goodbye or close_code is not None
        super().on_ws_connection_close(close_code, close_reason)

    def _ping(self) -> None:
        with contextlib.suppress(WebSocketClosedError):
            self.ping()
            self._next_ping = asyncio.get_running_loop().call_later(PING_SECONDS, self._ping)

    def on_close(self) -> None:
        self.jupyter.sockets.discard(self)
        self._drained.set()
        if self._next_ping is not None:
            self._next_ping.cancel()
        if self._next_question is not None:
            self._next_question.cancel()
        if self._following is not None:
            self._following.cancel()
        if self._said_goodbye and self._unsent == 0:
            # And so it had read what it wanted to.
            self._confirm(self._asked)
            self._confirm(self._state())
        if self._joined:
            self.door.leave(self)

    # -- what has arrived

    def _state(self) -> tuple[int | None, list[str]]:
        """What has arrived when all that was sent has."""
        return (self.seen if self._told_whole else None), self._ends

    def _confirm(self, arrived: tuple[int | None, list[str]] | None) -> None:
        if arrived is not None:
            seen, ends = arrived
            self.confirmed = self.confirmed if seen is None else seen
            self.door.told_of_end(self, ends)

    def _ask_soon(self) -> None:
        self._sent_since = True
        if self._next_question is None and self._asked is None:
            loop = asyncio.get_running_loop()
            self._next_question = loop.call_later(ASK_SECONDS, self._ask)

    def _ask(self) -> None:
        self._next_question = None
        with contextlib.suppress(WebSocketClosedError):
            self.ping(ARRIVED)
            self._asked, self._ends, self._sent_since = self._state(), [], False
            self._asked_at = asyncio.get_running_loop().time()

    def on_pong(self, data: bytes) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(None)
        if data != ARRIVED or self._asked is None:
            return
        self._confirm(self._asked)
        self._asked = None
        if self._sent_since:
            self._ask_soon()

    def unheard(self) -> float:
        """For how many seconds it has not answered."""
        return 0 if self._asked is None else asyncio.get_running_loop().time() - self._asked_at

    def answers(self) -> asyncio.Future[None]:
        """Done when it is known to be there."""
        if self._answer is None or self._answer.done():
            self._answer = asyncio.get_running_loop().create_future()
            with contextlib.suppress(WebSocketClosedError):
                self.ping()
        return self._answer

    def write_error(self, status_code: int, **details: Any) -> None:
        status, body = error_answer(status_code, details.get("exc_info", (None, None, None))[1])
        self.set_status(status)
        self.set_header("Content-Type", JSON)
        self.finish(body)

    def log_exception(self, kind: Any, value: Any, trace: Any) -> None:
        if not isinstance(value, InterpreterError | StreamClosedError | WebSocketClosedError):
            log.error("a WebSocket failed", path=self.request.path, exc_info=(kind, value, trace))

    # -- it speaks

    async def on_message(self, message: str | bytes) -> None:
        try:
            await self.door.receive(self, framing.read(message, v1=self._v1))
        except BadFrame as e:
            self.close(1007, f"not a Jupyter message: {e}".encode()[:100].decode(errors="ignore"))
        except (InterpreterError, ConnectionError) as e:
            log.info("a request of a Jupyter client came to nothing", reason=str(e))

    # -- it is spoken to

    def hear(self, message: Outgoing, *, recorded: bool) -> None:
        """Is told something as it happens; what is `recorded` can wait until it has read the rest."""
        if recorded and not self.behind and self._unsent > LIVE_BYTES:
            self.follow(self.seen)
        if recorded and self.behind:
            self._keep_half_an_end(message)
            return
        if recorded:
            self._tell(message.message)
        self.send(message)
        if not self.behind:
            self.seen = self.door.session.events.last_seq

    def _keep_half_an_end(self, message: Outgoing) -> None:
        """A cell's end is recorded when its reply and its idle status are both there: until then the one
        that came is nowhere else."""
        if _what(message.message) in ("execute_reply", "idle"):
            id = message.message.parent_id
            self._halves = [half for half in self._halves if half.message.parent_id == id]
            self._halves.append(message)

    def _tell_half_an_end(self) -> None:
        halves, self._halves = self._halves, []
        for half in halves:
            if (half.message.parent_id, _what(half.message)) not in self._told:
                self._tell(half.message)
                self.send(half)

    def _tell(self, message: KernelMessage) -> None:
        what = _what(message)
        if what == "execute_reply":
            self._ends.append(message.parent_id)
        if what in ("busy", "idle", "execute_reply", "execute_input"):
            self._told[(message.parent_id, what)] = None
            if len(self._told) > TOLD:
                self._told.popitem(last=False)

    def send(self, message: Outgoing) -> None:
        if self._unsent + message.size > MOST_BYTES and self._unsent > LIVE_BYTES:
            self.close(1013, "it does not read what it is sent")
            return
        frame, binary = message.frame(v1=self._v1)
        try:
            sending = asyncio.ensure_future(self.write_message(frame, binary=binary))
        except WebSocketClosedError:
            return
        self._unsent += len(frame)
        self._ask_soon()
        sending.add_done_callback(lambda sent: self._sent(sent, len(frame)))

    def _sent(self, sending: asyncio.Future[None], size: int) -> None:
        if not sending.cancelled():
            sending.exception()  # its end is told by itself
        self._unsent -= size
        if self._unsent < LIVE_BYTES // 8:
            self._drained.set()

    # -- it has fallen behind, or comes back

    def join(self, now: int) -> None:
        """Gets all of the cells that it may have missed up to an event, then everything after that."""
        self._told_whole = False
        self.follow(now)

    def come_back(self, after: int, again: list[str]) -> None:
        """Gets everything after what it is known to have got, and all of some cells once more."""
        self.confirmed = after
        self._again += again
        self.follow(after)

    def follow(self, after: int) -> None:
        """Gets from the record everything after an event."""
        self.behind, self.seen = True, after
        self._following = asyncio.create_task(self._follow_or_hang_up(after))

    def tell_again(self, execution_id: str) -> None:
        """Gets all of a cell once more: what it was told of it had another parent."""
        self._again.append(execution_id)
        if not self.behind:
            self.follow(self.seen)

    async def _follow_or_hang_up(self, after: int) -> None:
        """One that cannot be told what it missed is not left without a word: it may come back."""
        try:
            await self._follow(after)
            if self.behind:
                self.close(1001, "the kernel is gone")
        except SessionNotFound:
            self.close(1001, "the session is gone")
        except Exception:
            log.exception("a Jupyter client could not be told what it missed")
            self.close(1011, "what was missed could not be read")

    async def _follow(self, after: int) -> None:
        executions = self.jupyter.gateway.orchestrator.executions
        session = self.door.session
        if not self._told_whole:
            for id in await self.door.missed_by(self):
                if id not in self._again:
                    await self._replay_cell(id, after)
            self._told_whole = True
        everything = executions.events(session.id, after)
        async with contextlib.aclosing(everything):  # type: ignore[type-var]
            await self._replay_again()
            if self._is_up_to_date():
                return
            async for rows in everything:
                await self._replay([row for row in rows if row.execution_id not in self._again])
                self.seen = rows[-1].seq
                await self._replay_again()
                if self._is_up_to_date():
                    return

    async def _replay_again(self) -> None:
        while self._again:
            id = self._again[0]
            for told in [told for told in self._told if told[0] == id]:
                del self._told[told]
            await self._replay_cell(id, self.seen)
            self._again.pop(0)

    async def _replay_cell(self, execution_id: str, up_to: int) -> None:
        executions = self.jupyter.gateway.orchestrator.executions
        # One for all of it: who asked may become known meanwhile, and is told it again then.
        header = self.door.header_of(execution_id)
        parts = executions.events(self.door.session.id, 0, execution_id=execution_id, wait=False)
        if self.door.may_have_told(execution_id):
            # All of it comes in the place of what of it is there.
            clear = KernelMessage("iopub", "clear_output", execution_id, {"wait": False}, {}, [])
            self.send(Outgoing(clear, header))
        async with contextlib.aclosing(parts):  # type: ignore[type-var]
            async for rows in parts:
                await self._replay([row for row in rows if row.seq <= up_to], header)

    def _is_up_to_date(self) -> bool:
        """Whether it can be told things as they happen again."""
        if self.seen < self.door.session.events.last_seq or self._unsent > LIVE_BYTES or self._again:
            return False
        self.behind = False
        self._tell_half_an_end()
        return True

    async def _replay(self, rows: list[EventRow], header: bytes | None = None) -> None:
        for row in rows:
            if row.execution_id is None or not await self._is_of_this_kernel(row.execution_id):
                continue
            cell = self.door.session.history.get(row.execution_id)
            count = None if cell is None else cell.execution_count
            for message in messages_of(row, count):
                if self._needs(message, row):
                    while self._unsent > LIVE_BYTES:
                        self._drained.clear()
                        await self._drained.wait()
                    self._tell(message)
                    self.send(Outgoing(message, header or self.door.header_of(row.execution_id)))

    async def _is_of_this_kernel(self, execution_id: str) -> bool:
        """Whether it is a cell of the default context: not a command, and none that never was."""
        if not execution_id.startswith(PREFIX):
            return False
        if (cell := self.door.session.history.get(execution_id)) is not None:
            return cell.context == DEFAULT
        if execution_id != self._looked_up[0]:
            executions = self.jupyter.gateway.orchestrator.executions
            try:
                execution = await executions.read(self.door.session.id, execution_id)
                self._looked_up = (execution_id, execution.context == DEFAULT)
            except ExecutionNotFound:
                self._looked_up = (execution_id, False)
        return self._looked_up[1]

    def _needs(self, message: KernelMessage, row: EventRow) -> bool:
        """Whether it has not been told already, and is to be told at all."""
        id = row.execution_id or ""
        match message.type:
            case "execute_reply":
                return (id, "execute_reply") not in self._told and self.door.is_asked_by(self, id)
            case "execute_input":
                return (id, "execute_input") not in self._told
            case "status":
                return (id, str(message.content["execution_state"])) not in self._told
            case "input_request":
                cell = self.door.session.history.active(id)
                waits = cell is not None and cell.awaits_input
                return waits and self.door.is_asked_by(self, id, input=True)
        return True


def _what(message: KernelMessage) -> str:
    """What a message tells of a cell."""
    return str(message.content.get("execution_state")) if message.type == "status" else message.type
