"""The cells of one session: a queue, one of them running, each with its own outputs.

Cells run in the order they came, one at a time, so that a failing cell aborts no other. A
cell ends when the kernel's reply and its idle status are both there; or it is interrupted when
its time is up, and the kernel is killed if the cell does not yield.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

import structlog

from interpreter.config import Config
from interpreter.errors import InputNotExpected, QueueFull
from interpreter.kernel.connection import KernelConnection
from interpreter.kernel.messages import KernelMessage
from interpreter.kernel.translate import translate, translate_oversized
from interpreter.models import EventType, ExecutionCreate, ExecutionStatus, Limits, to_json
from interpreter.orchestrator import policy
from interpreter.orchestrator.cell import Cell, request_facts
from interpreter.orchestrator.events import EventLog
from interpreter.orchestrator.history import History
from interpreter.runtimes.base import Meter

log = structlog.get_logger()

PREFIX = "e-"
LATE_RESULT = 0.05
"""How long a kernel that is not ours is given to send a result after it said idle."""
NO_REPLY = 2.0
"""How long a reply may come after the idle status; a kernel can be interrupted out of giving one."""
MEGABYTE = 1024 * 1024


class Cells:
    """The queue of one session, and the kernel connection's listener."""

    def __init__(
        self,
        session_id: str,
        config: Config,
        limits: Limits,
        events: EventLog,
        history: History,
        *,
        late_results: bool,
        on_activity: Callable[[bool], None],
        on_exit: Callable[..., None],
    ) -> None:
        self.limits = limits
        self.on_exit = on_exit
        self.meter: Meter | None = None
        """What cells use is measured with it; a runtime may have none."""
        self._session_id = session_id
        self._config = config
        self._events = events
        self._history = history
        self._late_results = late_results
        self._on_activity = on_activity
        self._queue: deque[Cell] = deque()
        self._current: Cell | None = None
        self._kernel: KernelConnection | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        events.before_flush = self._note_half_finished

    @property
    def busy(self) -> bool:
        return self._current is not None or bool(self._queue)

    @property
    def running(self) -> bool:
        return self._current is not None

    # -- what callers ask for

    def submit(self, request: ExecutionCreate) -> Cell:
        policy.check_code(self._config, request.code)
        timeout = policy.cell_timeout(self._config, self.limits, request)
        limit = policy.output_limit(self._config, request)
        if len(self._queue) >= self.limits.queued_cells:
            raise QueueFull(f"{len(self._queue)} cells are queued in this session, and no more may be.")
        cell = Cell(PREFIX + secrets.token_hex(8), self._session_id, request, timeout, limit)
        self._history.add(cell)
        self._queue.append(cell)
        started = self._start_next()
        facts = {"status": "queued", "request": request_facts(request)}
        self._events.append(EventType.status, cell.id, facts)
        if started is not None:
            self._record_start(started)
        else:
            self._history.save(cell)
        return cell

    def cancel(self, execution_id: str, reason: str = "it was cancelled") -> Cell | None:
        """Takes a cell out of the queue, or interrupts it; None if it is not active."""
        cell = self._history.active(execution_id)
        if cell is not None and cell is not self._current:
            self._queue.remove(cell)
            self._finish(cell, ExecutionStatus.cancelled, reason)
        elif cell is not None:
            self._stop_running(cell, ExecutionStatus.cancelled, reason)
        return cell

    def answer_input(self, execution_id: str, value: str) -> None:
        cell = self._history.active(execution_id)
        if cell is None or not cell.awaits_input or self._kernel is None:
            raise InputNotExpected("This cell is not waiting for input.")
        cell.awaits_input = False
        self._kernel.answer_input(value)

    # -- the kernel comes and goes

    def attach(self, kernel: KernelConnection) -> None:
        self._kernel = kernel
        self._pump()

    def detach(self) -> None:
        """The kernel is gone or about to go; queued cells wait for the next one."""
        self._kernel = None

    def end_all(self, status: ExecutionStatus, reason: str) -> None:
        """Ends the running cell with this status, unless it has a verdict, and the queued ones."""
        cell = self._current
        if cell is not None:
            if cell.verdict is not None:
                status, verdict_reason = cell.verdict
                self._finish(cell, status, f"{verdict_reason}; {reason}")
            else:
                self._finish(cell, status, reason)
        while self._queue:
            self._finish(self._queue.popleft(), ExecutionStatus.cancelled, f"it never ran: {reason}")

    def abandon(self, unfinished: list[Cell], reason: str) -> None:
        """Ends the cells that an earlier gateway left and whose kernel is gone."""
        for cell in unfinished:
            self._history.add(cell)
            ran = cell.status is ExecutionStatus.running
            self._finish(cell, ExecutionStatus.lost if ran else ExecutionStatus.cancelled, reason)

    async def resume(self, unfinished: list[Cell], kernel: KernelConnection) -> None:
        """Takes up the cells that an earlier gateway left, the running one first."""
        for cell in unfinished:
            self._history.add(cell)
            if cell.status is ExecutionStatus.running and self._current is None:
                self._current = cell
                self._set_timer(cell, cell.remaining(), self._timed_out)
            else:
                self._queue.append(cell)
        self._kernel = kernel
        running = self._current
        if running is not None:
            self._maybe_finish(running)
        await kernel.ready()
        # Everything the kernel had been sent is worked off now: what it knows nothing of never
        # reached it.
        if running is not None and running is self._current and running.untouched:
            self._send(running)
        self._pump()

    # -- running

    def _pump(self) -> None:
        if (started := self._start_next()) is not None:
            self._record_start(started)
        elif self._current is None and not self._queue:
            self._on_activity(False)

    def _start_next(self) -> Cell | None:
        """Sends the next cell to the kernel if it has none; recording it can wait until it is sent."""
        if self._current is not None or not self._queue or self._kernel is None:
            return None
        cell = self._current = self._queue.popleft()
        cell.start()
        self._send(cell)
        return cell

    def _record_start(self, cell: Cell) -> None:
        self._on_activity(True)
        self._events.append(EventType.status, cell.id, {"status": "running", "code": cell.request.code})
        self._history.save(cell)
        self._set_timer(cell, cell.timeout, self._timed_out)

    def _send(self, cell: Cell) -> None:
        assert self._kernel is not None
        request = cell.request
        if self.meter is not None:
            self.meter.begin()
            cell.metered = True
        self._kernel.execute(
            cell.id,
            request.code,
            store_history=request.store_history,
            allow_stdin=request.allow_stdin,
        )

    def _set_timer(self, cell: Cell, seconds: float, what: Callable[[Cell], None]) -> None:
        cell.timers.append(asyncio.get_running_loop().call_later(seconds, what, cell))

    def _timed_out(self, cell: Cell) -> None:
        self._stop_running(
            cell, ExecutionStatus.timeout, f"it ran longer than its timeout of {cell.timeout:g} s"
        )

    def _stop_running(self, cell: Cell, status: ExecutionStatus, reason: str) -> None:
        """Interrupts a running cell, and kills the kernel if that does not end it in time."""
        if cell.verdict is None and self._kernel is not None:
            cell.verdict = (status, reason)
            self._do(self._kernel.interrupt())
            self._set_timer(cell, self._config.interrupt_grace, self._did_not_yield)

    def _did_not_yield(self, cell: Cell) -> None:
        if self._kernel is not None and cell is self._current:
            self._do(self._kernel.kill())

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        async def quietly() -> None:
            # Without a sandbox there is nothing to do: its end ends the cell.
            with contextlib.suppress(ConnectionError):
                await work

        task = asyncio.create_task(quietly())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _maybe_finish(self, cell: Cell) -> None:
        if cell.reply is None and cell.idle:
            self._set_timer(cell, NO_REPLY, self._finish_without_reply)
        if cell.reply is None or not cell.idle:
            return
        if self._late_results and cell.reply == "ok" and not cell.fold.has_result:
            self._set_timer(cell, LATE_RESULT, self._finish_by_reply)
        else:
            self._finish_by_reply(cell)

    def _finish_without_reply(self, cell: Cell) -> None:
        if cell.verdict is not None:
            self._finish(cell, *cell.verdict)
        else:
            self._finish(cell, ExecutionStatus.error, "the kernel ended it without a reply")

    def _finish_by_reply(self, cell: Cell) -> None:
        if cell.verdict is not None:
            self._finish(cell, *cell.verdict)
        elif cell.reply == "ok":
            self._finish(cell, ExecutionStatus.ok, None)
        elif cell.reply == "error":
            self._finish(cell, ExecutionStatus.error, None)
        else:
            self._finish(cell, ExecutionStatus.cancelled, "the kernel did not run it")

    def _finish(self, cell: Cell, status: ExecutionStatus, reason: str | None) -> None:
        if cell.metered and self.meter is not None:
            cell.usage = self.meter.end()
        cell.finish(status, reason)
        execution = cell.model()
        encoded = to_json(execution)
        cell.answer(encoded)
        self._history.save(cell, execution, encoded)
        data = b'{"execution_id":"%b","execution":%b}' % (cell.id.encode(), encoded)
        self._events.append_encoded(EventType.done, cell.id, data)
        self._history.finished(cell)
        cell.done.set_result(encoded)
        if cell is self._current:
            self._current = None
            self._pump()

    # -- what the kernel says

    def on_message(self, message: KernelMessage, number: int) -> None:
        try:
            self._take_in(message)
        except (ValueError, RecursionError, TypeError) as e:
            self.on_malformed(message.channel, f"{type(e).__name__}: {e}", number)
            return
        self._events.passed(number)

    def _take_in(self, message: KernelMessage) -> None:
        cell = self._history.active(message.parent_id)
        if message.type == "execute_reply" and cell is not None and cell is self._current:
            status, count = message.content.get("status"), message.content.get("execution_count")
            cell.reply = status if status in ("ok", "error") else "aborted"
            cell.execution_count = count if isinstance(count, int) else cell.execution_count
            self._maybe_finish(cell)
        elif message.type == "status" and cell is not None and cell is self._current:
            if message.content.get("execution_state") == "idle":
                cell.idle = True
                self._maybe_finish(cell)
        else:
            for type, data in translate(message):
                self._output(message.parent_id, cell, type, data)

    def _output(self, parent_id: str, cell: Cell | None, type: EventType, data: dict[str, Any]) -> None:
        if cell is None:
            execution_id = parent_id if parent_id.startswith(PREFIX) and len(parent_id) < 40 else None
            self._history.output(execution_id, type, data)
            return
        if type is EventType.input_request:
            cell.awaits_input = True
            self._events.append(type, cell.id, data)
            return
        if cell.muted:
            return
        cell.recorded_bytes += self._history.output(cell.id, type, data)
        if cell.recorded_bytes > self.limits.recorded_mb * MEGABYTE:
            cell.muted = True
            reason = f"the cell's output is over its limit of {self.limits.recorded_mb} MB"
            data = {"ename": "OutputLimitExceeded", "evalue": reason, "traceback": []}
            self._history.output(cell.id, EventType.error, data)
            self._stop_running(cell, ExecutionStatus.error, reason)
        elif cell.reply is not None and cell.idle and self._late_results and cell.fold.has_result:
            self._finish_by_reply(cell)

    def on_oversized(self, parts: list[bytes], size: int, number: int) -> None:
        parent_id, (type, data) = translate_oversized(parts, size, self._config.max_message_bytes)
        self._output(parent_id, self._history.active(parent_id), type, data)
        self._events.passed(number)

    def on_malformed(self, channel: str, problem: str, number: int) -> None:
        log.warning("malformed message", session=self._session_id, channel=channel, problem=problem)
        note = f"[a message of the kernel could not be read: {problem[:200]}]"
        data = {"output_type": "display_data", "data": {"text/plain": note}, "metadata": {}}
        current = self._current
        self._history.output(current.id if current else None, EventType.display, data)
        self._events.passed(number)

    def on_passed(self, number: int) -> None:
        self._events.passed(number)

    def _note_half_finished(self) -> None:
        """The link is about to forget a reply or an idle whose other half is still to come."""
        cell = self._current
        if cell is not None and (cell.reply is not None or cell.idle) and not cell.noted:
            cell.noted = True
            facts = {"status": "running", "reply": cell.reply, "idle": cell.idle}
            count = {"execution_count": cell.execution_count}
            self._events.append(EventType.status, cell.id, {**facts, **count})

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        if self._current is not None:
            self._current.cancel_timers()
        await asyncio.gather(*self._tasks, return_exceptions=True)
