"""The cells of one context: a queue, one of them running, each with its own outputs.

Cells run in the order they came, one at a time. A failing cell aborts no other, unless its sender
wants that of those it sent along with it. A cell ends when the kernel's reply and its idle status
are both there; or it is interrupted when its time is up, and the kernel is killed if the cell does
not yield.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

import msgspec

from interpreter.config import Config
from interpreter.errors import InputNotExpected, QueueFull
from interpreter.kernel.connection import KernelConnection
from interpreter.models import EventType, ExecutionCreate, ExecutionStatus, Limits, to_json
from interpreter.orchestrator import policy
from interpreter.orchestrator.cell import Cell, Sent, request_facts
from interpreter.orchestrator.events import EventLog
from interpreter.orchestrator.history import History
from interpreter.orchestrator.tasks import Tasks
from interpreter.orchestrator.time_limit import WARN_SECONDS, TimeLimit
from interpreter.runtimes.base import Meter
from interpreter.workspace import Found, Watched

LATE_RESULT = 0.05
"""How long a kernel that is not ours is given to send a result after it said idle."""
NO_REPLY = 2.0
"""How long a reply may come after the idle status; a kernel can be interrupted out of giving one."""
ON_THE_WAY = 10.0
"""How long after a cell failed others may come that were sent before that could be known."""
ABORTED = "it never ran: one that its sender sent before it failed"
SENT_ALONG = 1000
"""How many cells of Jupyter's clients may wait, which send all of a notebook's at once. They are not
among those that `queued_cells` limits, unless that is more."""
SENT_ALONG_CODE = 64 * 1024 * 1024
"""Characters that those may have together."""
CATCH_UPS = 3
"""How often a cell waits for what happens in its workspace to be taken in, before it is sent."""


class Cells:
    """The queue of one context. `KernelListener` tells it what the kernel says."""

    def __init__(
        self,
        config: Config,
        limits: Limits,
        events: EventLog,
        history: History,
        *,
        late_results: bool,
        on_activity: Callable[[], None],
        others: Callable[[], Iterable[Cells]],
    ) -> None:
        self.limits = limits
        self.events = events
        self.history = history
        self.late_results = late_results
        self.meter: Meter | None = None
        """What cells use is measured with it; a runtime may have none."""
        self.watched: Watched | None = None
        """What cells change in the workspace is found with it."""
        self.current: Cell | None = None
        self.on_end: Callable[[Cell, Cells], None] = lambda cell, cells: None
        """Told of every cell that has ended, before the next one is sent."""
        self._config = config
        self._on_activity = on_activity
        self._others = others
        self._queue: deque[Cell] = deque()
        self._kernel: KernelConnection | None = None
        self._taking_up = False
        """Whether it is still being found out how far the cells of an earlier gateway are."""
        self.holds_queue = False
        """Whether cells that wait are left for the next gateway."""
        self._frozen = False
        """Whether the sandbox is frozen, or about to be: no cell is started."""
        self._failed: dict[str, tuple[datetime, float]] = {}
        """Sender → the moment before which it could not know that a cell failed, and when that was."""
        self._sending: asyncio.Task[None] | None = None
        """Sends the running cell, if that had to wait."""
        self._tasks = Tasks("cells")
        self._ending = Tasks("cells that end")
        events.before_flush.append(self._note_half_finished)

    @property
    def busy(self) -> bool:
        return self.current is not None or bool(self._queue)

    @property
    def running(self) -> Sequence[Cell]:
        return [] if self.current is None else [self.current]

    # -- what callers ask for

    def submit(
        self,
        id: str,
        session_id: str,
        request: ExecutionCreate,
        *,
        silent: bool = False,
        expressions: Mapping[str, Any] | None = None,
        of_notebook: bool = False,
        notebook_cell: str | None = None,
        sent: Sent | None = None,
    ) -> Cell:
        policy.check_code(self._config, request.code)
        timeout = policy.cell_timeout(self._config, self.limits, request.timeout)
        limit = policy.output_limit(self._config, request)
        if not of_notebook:
            self._check_room(sent_along=sent is not None)
        cell = Cell(id, session_id, request, timeout, limit)
        cell.silent, cell.expressions = silent, expressions or {}
        cell.of_notebook = of_notebook
        cell.notebook_cell = notebook_cell
        cell.sent = sent
        facts = request_facts(request, sent)
        # Before it is sent: a gateway that comes after this one must not send it again.
        self.history.write_down(cell, facts)
        self.history.add(cell)
        self._queue.append(cell)
        unaware = self._was_sent_unaware(cell)
        started = None if unaware else self._start_next()
        self.events.append(EventType.status, cell.id, {"status": "queued", "request": facts})
        if started is not None:
            self._record_start(started, new=True)
        self.history.save_written_down(cell)
        if unaware:
            self.cancel(cell, ABORTED)
        return cell

    def _check_room(self, *, sent_along: bool) -> None:
        alike = [c for c in self._queue if not c.of_notebook and (c.sent is not None) == sent_along]
        most = max(self.limits.queued_cells, SENT_ALONG if sent_along else 0)
        too_long = sent_along and sum(len(c.code) for c in alike) > SENT_ALONG_CODE
        if len(alike) >= most or too_long:
            raise QueueFull(f"{len(alike)} cells are queued here, and no more may be.")

    def cancel(self, cell: Cell, reason: str) -> None:
        """Takes a cell out of the queue, or interrupts it."""
        if cell is not self.current:
            self._queue.remove(cell)
            self._finish(cell, ExecutionStatus.cancelled, reason)
        else:
            self.stop_running(cell, ExecutionStatus.cancelled, reason)

    def _abort_behind(self, failed: Cell) -> None:
        """Takes out of the queue what the sender of a failed cell sent before it could know of that."""
        sent, now = failed.sent, asyncio.get_running_loop().time()
        if sent is None or not sent.stops:
            return
        self._failed = {by: one for by, one in self._failed.items() if now - one[1] < ON_THE_WAY}
        until = failed.was_sent_unaware_until()
        if until is not None:
            self._failed[sent.by] = (until, now)
        for cell in list(self._queue):
            if cell.sent is None or cell.sent.by != sent.by:
                continue
            if until is None or cell.sent.at is None or cell.sent.at <= until:
                self.cancel(cell, ABORTED)

    def _was_sent_unaware(self, cell: Cell) -> bool:
        """Whether it belongs behind one that has failed already, and was only longer on its way."""
        sent = cell.sent
        if sent is None or sent.at is None or sent.by not in self._failed:
            return False
        until, when = self._failed[sent.by]
        return sent.at <= until and asyncio.get_running_loop().time() - when < ON_THE_WAY

    def cancel_notebook(self, reason: str) -> None:
        """Takes the cells of a notebook out of the queue."""
        for cell in [cell for cell in self._queue if cell.of_notebook]:
            self.cancel(cell, reason)

    def extend(self, cell: Cell, timeout: float) -> None:
        """Gives a queued or running cell another timeout, counted from its start."""
        policy.cell_timeout(self._config, self.limits, timeout)
        more, cell.timeout = timeout - cell.timeout, timeout
        if cell.time_limit is not None:
            cell.time_limit.extend(more)
        self.events.append(EventType.status, cell.id, {"status": cell.status.value, "timeout": timeout})
        self.history.save(cell)

    def answer_input(self, cell: Cell, value: str) -> None:
        if not cell.awaits_input or self._kernel is None:
            raise InputNotExpected("This cell is not waiting for input.")
        cell.input_request = None
        self._kernel.answer_input(value)
        self._note(cell, {"answered": True})

    def hold(self) -> None:
        """The sandbox is about to be frozen, and with it the time of the running cell."""
        self._frozen = True
        if self.current is not None:
            self._hold_time(self.current)
            self._give_grace(self.current)

    def _hold_time(self, cell: Cell) -> None:
        if cell.time_limit is not None:
            cell.time_limit.hold()
            self._note(cell, cell.hold())

    def go_on(self) -> None:
        self._frozen = False
        cell = self.current
        if cell is not None and cell.time_limit is not None:
            cell.time_limit.go_on()
            self._note(cell, cell.go_on())
        if cell is not None:
            self._give_grace(cell)
        if (started := self._start_next()) is not None:
            self._record_start(started)

    def _note(self, cell: Cell, facts: dict[str, Any]) -> None:
        """Has something remembered of a cell that goes on running."""
        self.events.append(EventType.status, cell.id, {"status": "running", **facts})

    # -- the kernel comes and goes

    def attach(self, kernel: KernelConnection) -> None:
        self._kernel = kernel
        self._pump()

    def detach(self) -> None:
        """The kernel is gone or about to go; queued cells wait for the next one."""
        self._kernel = None

    def end_all(self, status: ExecutionStatus, reason: str) -> None:
        """Ends the running cell with this status, unless it has a verdict, and the queued ones."""
        cell = self.current
        if cell is not None:
            if cell.verdict is not None:
                status, verdict_reason = cell.verdict
                self._finish(cell, status, f"{verdict_reason}; {reason}")
            else:
                self._finish(cell, status, reason)
        elif self._taking_up and self._queue:
            # An earlier gateway may have sent it, to a kernel that had no time to say so.
            self._finish(self._queue.popleft(), status, f"it may have run: {reason}")
        self._taking_up = False
        while self._queue:
            self._finish(self._queue.popleft(), ExecutionStatus.cancelled, f"it never ran: {reason}")

    def abandon(self, unfinished: list[Cell], reason: str) -> None:
        """Ends the cells that an earlier gateway left and whose kernel is gone."""
        contexts: set[str] = set()
        for cell in unfinished:
            self.history.add(cell)
            # The first of a context may have been sent, and not be known to run.
            ran = cell.status is ExecutionStatus.running or cell.context not in contexts
            contexts.add(cell.context)
            self._finish(cell, ExecutionStatus.lost if ran else ExecutionStatus.cancelled, reason)

    def take_up(self, unfinished: list[Cell]) -> None:
        """Takes over the cells that an earlier gateway left."""
        self._taking_up = True
        for cell in unfinished:
            self.history.add(cell)
            if cell.status is ExecutionStatus.running and self.current is None:
                self.current = cell
                if cell.paused_tick is not None:
                    self._note(cell, cell.go_on())
                self._limit_time(cell, cell.remaining())
            else:
                self._queue.append(cell)

    async def resume(self, kernel: KernelConnection) -> None:
        """Goes on with the cells that were taken over.

        The kernel says again what was not recorded of them, and that tells which it knows: a cell
        that was sent just before the gateway was killed is taken for running, not sent twice.
        """
        self._kernel = kernel
        if self.current is not None:
            self.maybe_finish(self.current)
        if self.current is not None and self.current.verdict is not None:
            self._interrupt(self.current)
        await kernel.ready()
        # Everything the kernel had been sent is worked off now: what it knows nothing of never
        # reached it.
        self._taking_up = False
        running = self.current
        if running is not None and not running.seen and running.reply is None and not running.idle:
            self._send(running)
        self._pump()

    def may_run(self, cell: Cell) -> bool:
        """Whether the kernel may have been sent this cell and not be done with it."""
        return cell is self.current or self._taking_up

    def notice(self, cell: Cell) -> None:
        """The kernel says something of a cell."""
        cell.seen = True
        if self._taking_up and self.current is None and cell in self._queue:
            self._queue.remove(cell)
            self.current = cell
            cell.start()
            self._record_start(cell)

    # -- running

    def _pump(self) -> None:
        if (started := self._start_next()) is not None:
            self._record_start(started)
        elif self.current is None and not self._queue:
            self._on_activity()

    def _start_next(self) -> Cell | None:
        """Sends the next cell to the kernel if it has none; recording it can wait until it is sent."""
        if self.current is not None or not self._queue or self._kernel is None:
            return None
        if self.holds_queue or self._frozen:
            return None
        if self._taking_up and not self._queue[0].seen:
            return None
        cell = self.current = self._queue.popleft()
        cell.start()
        if self._taking_up:
            asyncio.get_running_loop().call_soon(self.maybe_finish, cell)
        else:
            self._send(cell)
        return cell

    def _record_start(self, cell: Cell, *, new: bool = False) -> None:
        self._on_activity()
        silent = {"silent": True} if cell.silent else {}
        self._note(cell, {"code": cell.request.code, "tick": cell.started_tick, **silent})
        if not new:
            self.history.save(cell)
        self._limit_time(cell, cell.timeout)

    def _limit_time(self, cell: Cell, seconds: float) -> None:
        cell.time_limit = TimeLimit(seconds, partial(self._warn, cell), partial(self._timed_out, cell))
        if self._frozen:  # an earlier gateway had sent it, and that is only known now
            self._hold_time(cell)

    def _warn(self, cell: Cell) -> None:
        message = f"The cell ends in {WARN_SECONDS:g} s, unless its timeout is extended."
        facts = {"what": "timeout", "message": message, "left": WARN_SECONDS}
        self.events.append(EventType.warning, cell.id, facts)

    def _send(self, cell: Cell) -> None:
        if self.watched is not None and (waiting := self.watched.catch_up()) is not None:
            self._sending = self._tasks.spawn(self._send_later(cell, self.watched, waiting))
        else:
            self._send_now(cell)

    async def sent(self) -> None:
        """Returns when the kernel has been sent the running cell, or never will be."""
        if self._sending is not None:
            await asyncio.wait({self._sending})

    async def _send_later(
        self, cell: Cell, watched: Watched, waiting: asyncio.Future[None] | None
    ) -> None:
        """Much happened in the workspace since the last cell: that is not to be taken for this one's."""
        for _ in range(CATCH_UPS):
            if waiting is None:
                break
            await asyncio.shield(waiting)
            waiting = watched.catch_up()
        if cell is not self.current or cell.ending or self._kernel is None:
            return  # it was ended, or the kernel is gone and ends it
        if cell.verdict is not None:
            self._finish(cell, *cell.verdict)
        else:
            self._send_now(cell)

    def _send_now(self, cell: Cell) -> None:
        assert self._kernel is not None
        request = cell.request
        if self.watched is not None:
            cell.recording = self.watched.begin(f"/v1/sessions/{cell.session_id}/files/")
        if self.meter is not None:
            self.meter.begin()
            cell.metered = True
        self._not_alone(cell)
        self._kernel.execute(
            cell.id,
            request.code,
            store_history=request.store_history,
            allow_stdin=request.allow_stdin,
            silent=cell.silent,
            expressions=cell.expressions,
        )

    def _not_alone(self, cell: Cell) -> None:
        """Those that run at once reset each other's mark of how much memory was used at most."""
        for cells in self._others():
            for other in cells.running:
                if other is not cell:
                    cell.alone = other.alone = False

    def _set_timer(self, cell: Cell, seconds: float, what: Callable[[Cell], None]) -> None:
        cell.timers.append(asyncio.get_running_loop().call_later(seconds, what, cell))

    def _timed_out(self, cell: Cell) -> None:
        self.stop_running(
            cell, ExecutionStatus.timeout, f"it ran longer than its timeout of {cell.timeout:g} s"
        )

    def stop_running(self, cell: Cell, status: ExecutionStatus, reason: str) -> None:
        """Interrupts a running cell, and kills the kernel if that does not end it in time."""
        if cell.verdict is None and self._kernel is not None and not cell.ending:
            cell.verdict = (status, reason)
            self._note(cell, {"verdict": status.value, "reason": reason})
            self._interrupt(cell)

    def _interrupt(self, cell: Cell) -> None:
        self._tasks.spawn(self._send_interrupt(cell))

    async def _send_interrupt(self, cell: Cell) -> None:
        # What becomes of it is written down first, or the next gateway takes it for an error; where
        # nothing can be written it is interrupted all the same.
        await self.events.caught_up()
        if cell is self.current and self._kernel is not None:
            await self._kernel.interrupt(cell.id)
            cell.interrupted = True
            self._give_grace(cell)

    def _give_grace(self, cell: Cell) -> None:
        """A cell that was interrupted has a while to end, which begins anew when it was frozen."""
        if cell.grace is not None:
            cell.grace.cancel()
        if cell.interrupted and not cell.ending and not self._frozen:
            grace = self._config.interrupt_grace
            cell.grace = asyncio.get_running_loop().call_later(grace, self._did_not_yield, cell)

    def _did_not_yield(self, cell: Cell) -> None:
        if self._kernel is not None and cell is self.current:
            self._tasks.spawn(self._kernel.kill())

    # -- ending

    def maybe_finish(self, cell: Cell) -> None:
        """Ends a cell if the kernel has said all that there is to say of it."""
        if cell is not self.current:
            return
        if cell.reply is None and cell.idle:
            self._set_timer(cell, NO_REPLY, self._finish_without_reply)
        if cell.reply is None or not cell.idle:
            return
        if self.late_results and cell.reply == "ok" and not cell.fold.has_result:
            self._set_timer(cell, LATE_RESULT, self.finish_by_reply)
        else:
            self.finish_by_reply(cell)

    def _finish_without_reply(self, cell: Cell) -> None:
        if cell.verdict is not None:
            self._finish(cell, *cell.verdict)
        else:
            self._finish(cell, ExecutionStatus.error, "the kernel ended it without a reply")

    def finish_by_reply(self, cell: Cell) -> None:
        if cell.verdict is not None:
            self._finish(cell, *cell.verdict)
        elif cell.reply == "ok":
            self._finish(cell, ExecutionStatus.ok, None, by_reply=True)
        elif cell.reply == "error":
            self._finish(cell, ExecutionStatus.error, None, by_reply=True)
        else:
            self._finish(cell, ExecutionStatus.cancelled, "the kernel did not run it")

    def _finish(
        self, cell: Cell, status: ExecutionStatus, reason: str | None, *, by_reply: bool = False
    ) -> None:
        """Ends a cell, in a moment if it takes a look at its files to tell what it changed."""
        if cell.ending:
            return
        if cell.metered and self.meter is not None:
            usage = self.meter.end()
            if usage is not None and not cell.alone:
                usage = msgspec.structs.replace(usage, memory_peak_bytes=None)
            cell.usage = usage
        cell.end()
        found: Found | asyncio.Future[Found | None] | None = None
        if cell.recording is not None and self.watched is not None:
            found = self.watched.end(cell.recording)
        if isinstance(found, asyncio.Future):
            self._ending.spawn(self._finish_later(cell, status, reason, by_reply, found))
        else:
            self._conclude(cell, status, reason, by_reply, found)

    async def _finish_later(
        self,
        cell: Cell,
        status: ExecutionStatus,
        reason: str | None,
        by_reply: bool,
        found: asyncio.Future[Found | None],
    ) -> None:
        self._conclude(cell, status, reason, by_reply, await found)

    def _conclude(
        self,
        cell: Cell,
        status: ExecutionStatus,
        reason: str | None,
        by_reply: bool,
        found: Found | None,
    ) -> None:
        """One that ended by the kernel's reply is answered at once: what is not stored of it the kernel
        says again, and what was measured is written down. Any other end is only known here, and is
        stored first."""
        cell.finish(status, reason)
        cell.recording = None
        if found is not None:
            cell.files, cell.files_left_out = found.files, found.left_out
        execution = cell.model()
        encoded = to_json(execution)
        if by_reply:
            self.history.write_down_ending(cell)
            cell.tell(encoded)
        if cell.files:
            facts = {"files": cell.files, "left_out": cell.files_left_out}
            self.events.append(EventType.files, cell.id, facts)
        data = b'{"execution_id":"%b","execution":%b}' % (cell.id.encode(), encoded)
        self.events.append_encoded(EventType.done, cell.id, data)
        if by_reply:
            self.history.save_written_down(cell, execution, encoded)
        else:
            self.history.save(cell, execution, encoded)
        self.history.finished(cell)
        if not by_reply:
            assert cell.saved is not None
            cell.saved.add_done_callback(lambda _: cell.tell(encoded))
        was_current = cell is self.current
        if was_current:
            self.current = None
        self.on_end(cell, self)
        if was_current and status is not ExecutionStatus.ok and self._kernel is not None:
            self._abort_behind(cell)
        if was_current:
            self._pump()

    def _note_half_finished(self) -> None:
        """The link is about to forget a reply or an idle whose other half is still to come."""
        for cell in (self.current, *(self._queue if self._taking_up else ())):
            if cell is not None and (cell.reply is not None or cell.idle) and not cell.noted:
                cell.noted = True
                count = {"execution_count": cell.execution_count}
                self._note(cell, {"reply": cell.reply, "idle": cell.idle, **count})

    async def ended(self) -> None:
        """Returns when it is known of every cell that has ended how it did."""
        await self._ending.done()

    async def settled(self) -> None:
        """Returns when that is stored, too."""
        await self.ended()
        await self.events.settled()

    async def close(self) -> None:
        with contextlib.suppress(ValueError):  # it was closed before
            self.events.before_flush.remove(self._note_half_finished)
        self._tasks.cancel()
        if self.current is not None:
            self.current.cancel_timers()
        await self._tasks.done()
        await self._ending.done()
