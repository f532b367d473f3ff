"""A session's kernel as Jupyter clients see it: who is connected, who asked what, who is told what.

A cell that a client sends becomes an execution like any other; its outputs come back to everyone with
the client's own header as their parent. Everything else passes to the kernel under an id of ours, so
that its reply finds the one client that asked. A client that left comes back to what it missed: the door
remembers how far it was, and the session's record has the rest.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import structlog
from msgspec import Meta, Struct

from interpreter.errors import InterpreterError
from interpreter.gateway.jupyter import replay
from interpreter.gateway.jupyter.framing import Outgoing, Request
from interpreter.gateway.jupyter.history import HistoryWanted, history
from interpreter.kernel import messages
from interpreter.kernel.messages import KernelMessage
from interpreter.models import Execution, ExecutionCreate
from interpreter.orchestrator.cell import Sent
from interpreter.orchestrator.kernel_listener import PREFIX
from interpreter.orchestrator.live_sandbox import DEFAULT
from interpreter.orchestrator.session import LiveSession
from interpreter.orchestrator.taps import KernelState

if TYPE_CHECKING:
    from interpreter.gateway.jupyter.client import Client
    from interpreter.orchestrator import Orchestrator

log = structlog.get_logger()

CELL_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""As notebooks have them."""
ANSWER_SECONDS = 2.0
"""How long a client has to say that it is there, before another is told of the cells that it sent."""
HELD_BYTES = 64 * 1024
"""Of a reply to something else than a cell, if the one that asked is away."""
REMEMBERED = 1000
"""Requests whose header is remembered, cells and others each, and clients that left. Cells that wait or
run are remembered in any case."""

Name = Annotated[str, Meta(max_length=1000)]
Expression = Annotated[str, Meta(max_length=20_000)]
"""As `user_expressions` has them: a cell that waits keeps them in memory."""


class ExecuteContent(Struct):
    """What an execute_request asks for."""

    code: str
    silent: bool = False
    store_history: bool = True
    user_expressions: Annotated[dict[Name, Expression], Meta(max_length=100)] = {}
    allow_stdin: bool = False
    stop_on_error: bool = True


class ExecuteMetadata(Struct):
    """What a client says of an execute_request besides."""

    idempotency_key: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    """Of a client that sends a cell again after a broken connection."""
    cell_id: Any = msgspec.field(name="cellId", default=None)
    """The cell of a notebook that it is run from, if that is an id: some clients say other things."""

    @property
    def notebook_cell(self) -> str | None:
        is_one = isinstance(self.cell_id, str) and CELL_ID.fullmatch(self.cell_id)
        return self.cell_id if is_one else None


class InputContent(Struct):
    """The content of an input_reply."""

    value: Annotated[str, Meta(max_length=1_000_000)] = ""


@dataclass
class Asked:
    """Something that a client asked for, under the id that the kernel knows it by."""

    header: bytes
    session_id: str
    """What the client calls itself."""
    client: Client | None
    """None while the one that asked is not connected."""
    also: Client | None = None
    """One that came while the first did not answer, and may be the same under another name."""
    keyed: bool = False
    """Whether it was sent with a key: who sends a cell again can be told all of it again."""
    replied: bool = False
    """Whether the kernel has replied to it."""
    over: bool = False
    """Whether the reply has arrived at a client."""
    before: bool = False
    """Whether it was asked of an earlier gateway: nobody knows how much of it was told."""
    held: Outgoing | None = None
    """The reply to something else than a cell, until the one that asked is back."""


class Door:
    """The door to one session's default context."""

    def __init__(self, session: LiveSession, orchestrator: Orchestrator) -> None:
        self.session = session
        self.clients: list[Client] = []
        self._orchestrator = orchestrator
        self._cells: OrderedDict[str, Asked] = OrderedDict()
        """Execution → what a client asked."""
        self._requests: OrderedDict[str, Asked] = OrderedDict()
        """All other requests that were passed on."""
        self._left: OrderedDict[str, int] = OrderedDict()
        """Clients that left → the number of the last event that is known to have reached them."""
        session.taps.add(DEFAULT, self)
        self._recall()

    def close(self) -> None:
        """The session is gone."""
        self.session.taps.remove(DEFAULT, self)
        for client in list(self.clients):
            client.close(1001, "the kernel is gone")

    def _recall(self) -> None:
        """Takes over what clients asked of an earlier gateway, and is not answered."""
        before, self.session.asked_before = self.session.asked_before, {}
        for id, (sent, notebook_cell) in before.items():
            if sent.header is None:
                continue
            header = _parent(msgspec.json.decode(sent.header), id, notebook_cell)
            asked = Asked(header, sent.by, None, before=True)
            self._remember_cell(id, asked)
            if (cell := self.session.history.active(id)) is not None:
                cell.answers.append(partial(self._ended, asked))

    # -- clients come and go

    def join(self, client: Client) -> None:
        """A client is connected: it hears everything from now on, and what it may have missed."""
        self.session.touch()
        self._recall()
        for former in [c for c in self.clients if c.session_id == client.session_id]:
            # It is back before its old connection is known to be dead.
            self.leave(former)
            former.close(1001, "the client has another connection")
        mine = {i: asked for i, asked in self._cells.items() if asked.session_id == client.session_id}
        for asked in mine.values():
            asked.client, asked.also = client, None
        now = self.session.events.last_seq
        self.clients.append(client)
        for asked in self._requests.values():
            if asked.session_id == client.session_id:
                asked.client = client
                if asked.held is not None:
                    client.send(asked.held)
                    asked.held = None
        if (seen := self._left.pop(client.session_id, None)) is not None:
            again = [id for id, asked in mine.items() if asked.keyed and not asked.over]
            client.come_back(seen, again)
        elif self._current() is not None or any(not asked.over for asked in self._cells.values()):
            client.join(now)
        else:
            client.seen = client.confirmed = now

    def _current(self) -> str | None:
        """The cell that runs."""
        context = self.session.contexts.get(DEFAULT)
        current = None if context is None else context.cells.current
        return None if current is None else current.id

    async def missed_by(self, client: Client) -> list[str]:
        """The cells that a new client is told from their beginning: the one that runs, and those of
        whose end nobody has heard, as the one that asked may be back under another name."""
        others = {asked.client for asked in self._cells.values() if not asked.over} - {None, client}
        gone = {other for other in others if other is not None and other.unheard() > ANSWER_SECONDS}
        answers = {other.answers(): other for other in others - gone if other is not None}
        if answers:
            _, unanswered = await asyncio.wait(answers, timeout=ANSWER_SECONDS)
            gone |= {answers[answer] for answer in unanswered}
        missed = []
        for id, asked in self._cells.items():
            if asked.over or not (asked.client in (None, client) or asked.client in gone):
                continue
            if asked.before and asked.session_id != client.session_id:
                continue  # the one that asked comes back, too
            if asked.client is None:
                asked.client = client
            elif asked.client is not client:
                asked.also = client
            missed.append(id)
        current = self._current()
        return missed if current is None or current in missed else [*missed, current]

    def leave(self, client: Client) -> None:
        if client not in self.clients:
            return
        self.clients.remove(client)
        if client.confirmed is not None:
            self._remember(self._left, client.session_id, client.confirmed)
        for asked in (*self._cells.values(), *self._requests.values()):
            if asked.client is client:
                asked.client, asked.also = asked.also, None
            elif asked.also is client:
                asked.also = None

    def _now(self, client: Client) -> Client | None:
        """A client that may have gone away meanwhile, and may be back already."""
        if client in self.clients:
            return client
        return next((c for c in self.clients if c.session_id == client.session_id), None)

    def _remember(self, where: OrderedDict[str, Any], key: str, value: Any) -> None:
        where[key] = value
        while len(where) > REMEMBERED:
            where.popitem(last=False)

    def _remember_cell(self, id: str, asked: Asked) -> None:
        self._cells[id] = asked
        for old in list(islice(self._cells, max(0, len(self._cells) - REMEMBERED))):
            if self.session.history.active(old) is None:
                del self._cells[old]

    # -- what clients ask

    async def receive(self, client: Client, request: Request) -> None:
        """Does what a client asks for, or passes it on; returns when the next may come."""
        try:
            await self._receive(client, request)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as e:
            self._refuse(client, request, e)

    async def _receive(self, client: Client, request: Request) -> None:
        self.session.touch()
        match request.channel, request.type:
            case "shell", "execute_request":
                await self._execute(client, request)
            case "stdin", "input_reply":
                self._answer_input(client, request)
            case "shell" | "control", "interrupt_request":
                await self._interrupt()
                self._reply(client, request, "interrupt_reply", {"status": "ok"})
            case "shell" | "control", "shutdown_request":
                await self._shut_down(client, request)
            case "shell" | "control", "history_request":
                await self._tell_history(client, request)
            case "shell" | "control", _:
                await self._pass_on(client, request)

    async def _execute(self, client: Client, request: Request) -> None:
        asked = Asked(msgspec.json.encode(request.header), client.session_id, client)
        told = ExecuteMetadata()
        id = ""

        def on_new(execution_id: str) -> None:
            nonlocal id
            id = execution_id
            asked.client = self._now(client)
            asked.header = _parent(request.header, id, told.notebook_cell)
            self._remember_cell(id, asked)

        try:
            content = msgspec.json.decode(request.content, type=ExecuteContent)
            told = msgspec.json.decode(request.metadata, type=ExecuteMetadata)
            key = told.idempotency_key
            asked.keyed = key is not None
            cell = await self._orchestrator.executions.submit_for_jupyter(
                self.session.id,
                ExecutionCreate(
                    code=content.code,
                    timeout=self.session.limits.cell_seconds,
                    store_history=content.store_history and not content.silent,
                    allow_stdin=content.allow_stdin,
                    # A page that comes back has nothing but the record.
                    max_output_bytes=self.session.most_output_bytes,
                    by="jupyter",
                ),
                silent=content.silent,
                expressions=content.user_expressions,
                notebook_cell=told.notebook_cell,
                sent=Sent(
                    client.session_id,
                    _date(request.header),
                    content.stop_on_error and not content.silent,
                    None if asked.keyed else asked.header.decode(),
                ),
                on_new=on_new,
                key=None if key is None else f"jupyter {key}",
            )
        except (InterpreterError, msgspec.MsgspecError) as e:
            self._cells.pop(id, None)
            name = type(e).__name__
            hint = f" {e.hint}" if isinstance(e, InterpreterError) else ""
            for message in replay.failure("", name, f"{e}{hint}"):
                client.send(Outgoing(message, asked.header))
            return
        if isinstance(cell, str):
            asked.header = _parent(request.header, cell, told.notebook_cell)
            self._execute_again(cell, asked)
        else:
            cell.answers.append(partial(self._ended, asked))

    def _execute_again(self, id: str, asked: Asked) -> None:
        """A cell that was sent before: to an earlier gateway, or under another name. It is told all of
        it; one that came back under its own name is told without that."""
        client, known = asked.client, self._cells.get(id)
        if client is None or client not in self.clients:
            return
        if known is not None and known.session_id == client.session_id:
            return
        self._remember_cell(id, asked)
        if (cell := self.session.history.active(id)) is not None:
            cell.answers.append(partial(self._ended, asked))
        client.tell_again(id)

    def _ended(self, asked: Asked, encoded: bytes) -> None:
        """A cell is over; the kernel may not have said so, if it was killed or never got the cell."""
        # Its reply may be what ended it, and is passed on in this turn of the loop.
        asyncio.get_running_loop().call_soon(self._end, asked, encoded)

    def _end(self, asked: Asked, encoded: bytes) -> None:
        if not asked.replied:
            execution = msgspec.json.decode(encoded, type=Execution)
            for message in replay.endings(execution):
                self.on_message(message)

    def _answer_input(self, client: Client, request: Request) -> None:
        content = msgspec.json.decode(request.content, type=InputContent)
        for id, asked in self._cells.items():
            cell = self.session.history.active(id)
            if asked.session_id == client.session_id and cell is not None and cell.awaits_input:
                self.session.answer_input(id, content.value)

    async def _interrupt(self) -> None:
        await self.session.wake()
        await self.session.context(DEFAULT).interrupt_anything()

    async def _shut_down(self, client: Client, request: Request) -> None:
        restart = msgspec.json.decode(request.content).get("restart") is True
        self._reply(client, request, "shutdown_reply", {"status": "ok", "restart": restart})
        if restart:
            await self.session.restart(DEFAULT)
        else:
            await client.jupyter.delete(self.session)

    async def _tell_history(self, client: Client, request: Request) -> None:
        wanted = msgspec.json.decode(request.content, type=HistoryWanted)
        content = await history(self._orchestrator.executions, self.session.id, wanted)
        parent = msgspec.json.encode(request.header)
        for state in ("busy", "idle"):
            status = KernelMessage("iopub", "status", "", {"execution_state": state}, {}, [])
            client.send(Outgoing(status, parent))
            if state == "busy":
                self._reply(client, request, "history_reply", content)

    async def _pass_on(self, client: Client, request: Request) -> None:
        await self.session.come_awake()
        context = self.session.context(DEFAULT)
        await context.room(request.channel)
        id = "j-" + secrets.token_hex(12)
        asked_by = self._now(client)
        asked = Asked(msgspec.json.encode(request.header), client.session_id, asked_by)
        self._remember(self._requests, id, asked)
        header = {**messages.header(request.type), **request.header, "msg_id": id}
        head = msgspec.json.encode(header)
        parts = [head, request.parent, request.metadata, request.content, *request.buffers]
        context.pass_on(request.channel, parts)

    def _refuse(self, client: Client, request: Request, problem: Exception) -> None:
        """Answers something whose content is not as it should be, if it is what has an answer."""
        if not request.type.endswith("_request"):
            log.info("a message of a Jupyter client came to nothing", reason=str(problem))
            return
        what = {"ename": type(problem).__name__, "evalue": str(problem), "traceback": []}
        reply = request.type.removesuffix("_request") + "_reply"
        self._reply(client, request, reply, {"status": "error", **what})
        idle = KernelMessage("iopub", "status", "", {"execution_state": "idle"}, {}, [])
        client.send(Outgoing(idle, msgspec.json.encode(request.header)))

    def _reply(self, client: Client, request: Request, type: str, content: dict[str, Any]) -> None:
        message = KernelMessage(request.channel, type, "", content, {}, [])
        client.send(Outgoing(message, msgspec.json.encode(request.header)))

    # -- what the kernel says

    def on_message(self, message: KernelMessage) -> None:
        if not self.clients and not self._cells:
            return
        if self.session.asked_before:
            self._recall()
        is_cell = message.parent_id.startswith(PREFIX)
        asked = (self._cells if is_cell else self._requests).get(message.parent_id)
        to = list(self._meant(message, asked, is_cell))
        if is_cell and asked is not None and message.type == "execute_reply":
            asked.replied = True
        absent = not is_cell and asked is not None and asked.client is None
        if not to and not absent:
            return
        outgoing = Outgoing(message, self._parent_of(message, asked, is_cell))
        if asked is not None and absent and message.channel in ("shell", "control"):
            asked.held = outgoing if outgoing.size <= HELD_BYTES else None
        recorded = is_cell and not message.type.startswith("comm_")
        for client in to:
            client.hear(outgoing, recorded=recorded)

    def _meant(self, message: KernelMessage, asked: Asked | None, is_cell: bool) -> Iterable[Client]:
        if message.channel == "iopub":
            return self.clients
        if asked is None or asked.client is None:
            return ()
        if message.channel == "stdin":
            # Another one may have taken over what it showed, and is not the one that is asked.
            return (asked.client,) if asked.client.session_id == asked.session_id else ()
        return (asked.client,) if asked.also is None else (asked.client, asked.also)

    def header_of(self, execution_id: str) -> bytes:
        """The parent header of what a cell showed."""
        if asked := self._cells.get(execution_id):
            return asked.header
        cell = self.session.history.get(execution_id)
        header = messages.header("execute_request", execution_id)
        return _parent(header, execution_id, None if cell is None else cell.notebook_cell)

    def _parent_of(self, message: KernelMessage, asked: Asked | None, is_cell: bool) -> bytes | None:
        """What is said in the place of the parent header that the kernel knows."""
        if asked is not None or not is_cell:
            return None if asked is None else asked.header
        cell = self.session.history.get(message.parent_id)
        if cell is None or cell.notebook_cell is None:
            return None
        return self.header_of(message.parent_id)  # a Jupyter client sent it to an earlier gateway

    def may_have_told(self, execution_id: str) -> bool:
        """Whether an earlier gateway may have told of a cell, to those who are told of it now."""
        asked, cell = self._cells.get(execution_id), self.session.history.get(execution_id)
        has_begun = cell is None or cell.started_at is not None
        return asked is not None and asked.before and has_begun

    def told_of_end(self, client: Client, execution_ids: Iterable[str]) -> None:
        """The replies to these cells have arrived at a client."""
        for id in execution_ids:
            if (asked := self._cells.get(id)) and client in (asked.client, asked.also):
                asked.over = True

    def is_asked_by(self, client: Client, execution_id: str, *, input: bool = False) -> bool:
        """Whether a client is still to get the reply to a cell, or its questions."""
        asked = self._cells.get(execution_id)
        if asked is None or client not in (asked.client, asked.also):
            return False
        return asked.session_id == client.session_id if input else not asked.over

    def on_state(self, state: KernelState) -> None:
        message = KernelMessage("iopub", "status", "", {"execution_state": state}, {}, [])
        for client in list(self.clients):
            client.send(Outgoing(message))


def _date(header: dict[str, Any]) -> datetime | None:
    """When a client says that it sent something; many leave that out."""
    try:
        date = msgspec.convert(header.get("date"), datetime)
    except msgspec.ValidationError:
        return None
    if not 1970 < date.year < 3000:
        return None  # nothing can be reckoned with it
    return date if date.tzinfo is not None else date.replace(tzinfo=UTC)


def _parent(header: dict[str, Any], execution_id: str, notebook_cell: str | None) -> bytes:
    """A request's header with the names that it has here: a page that did not send it knows by them
    which of its cells is meant."""
    names = {"execution_id": execution_id} | ({"cell_id": notebook_cell} if notebook_cell else {})
    return msgspec.json.encode(header | names)
