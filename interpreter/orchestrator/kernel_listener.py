"""What a kernel says, taken in: which cell it belongs to, what it changes, when it is worked off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import structlog

from interpreter.kernel.connection import Exit
from interpreter.kernel.messages import KernelMessage
from interpreter.kernel.translate import translate, translate_oversized
from interpreter.models import EventType, ExecutionStatus, InputRequest
from interpreter.orchestrator.cell import Cell
from interpreter.orchestrator.cells import Cells
from interpreter.orchestrator.taps import Taps

log = structlog.get_logger()

PREFIX = "e-"
"""Of the ids of executions."""
MEGABYTE = 1024 * 1024


class KernelListener:
    """The owner of a context's kernel connections.

    A kernel is untrusted. It can name any cell as the one it speaks of, but only a cell of its own
    context is ended by that, and only one that runs.
    """

    def __init__(
        self,
        session_id: str,
        context: str,
        cells: Cells,
        max_message_bytes: int,
        on_exit: Callable[[str, Exit], None],
        taps: Taps,
    ) -> None:
        self._session_id = session_id
        self._context = context
        self._cells = cells
        self._max_message_bytes = max_message_bytes
        self._on_exit = on_exit
        self._taps = taps
        self._late_bytes = 0
        """What was recorded of no cell that runs, since one began."""
        self._malformed = 0

    def on_message(self, message: KernelMessage, number: int) -> None:
        try:
            self._take_in(message)
        except (ValueError, RecursionError, TypeError) as e:
            self.on_malformed(message.channel, f"{type(e).__name__}: {e}", number)
            return
        self._taps.message(self._context, message)
        self._cells.events.passed(number)

    def _own(self, execution_id: str) -> Cell | None:
        """A cell of this context that is queued or runs."""
        cell = self._cells.history.active(execution_id)
        return cell if cell is not None and cell.context == self._context else None

    def _take_in(self, message: KernelMessage) -> None:
        cell = self._own(message.parent_id)
        believed = cell is not None and self._cells.may_run(cell)
        if cell is not None and believed and not cell.seen:
            self._late_bytes = 0
            self._cells.notice(cell)
        if message.type == "execute_reply" and cell is not None and believed:
            status = message.content.get("status")
            cell.reply = status if status in ("ok", "error") else "aborted"
            _count(cell, message)
            cell.tells_how_it_ends()
            self._cells.maybe_finish(cell)
        elif message.type == "status" and cell is not None and believed:
            if message.content.get("execution_state") == "idle":
                cell.idle = True
                cell.tells_how_it_ends()
                self._cells.maybe_finish(cell)
        else:
            if message.type == "execute_input" and cell is not None and believed:
                _count(cell, message)
            if message.type == "error" and cell is not None:
                cell.tells_how_it_ends()
            for type, data in translate(message):
                self._output(message.parent_id, cell, type, data)

    def _output(self, parent_id: str, cell: Cell | None, type: EventType, data: dict[str, Any]) -> None:
        history = self._cells.history
        if cell is None:
            if history.active(parent_id) is not None:
                return  # another context's cell
            known = parent_id.startswith(PREFIX) and history.knows(parent_id)
            self._late_output(parent_id if known else None, type, data)
            return
        if cell.muted:
            return
        if type is EventType.input_request:
            cell.input_request = InputRequest(**data)
        limit = self._cells.limits.recorded_mb
        room = limit * MEGABYTE - cell.recorded_bytes
        cell.recorded_bytes += history.output(cell.id, type, data, room)
        if cell.recorded_bytes > limit * MEGABYTE:
            cell.muted = True
            reason = f"the cell's output is over its limit of {limit} MB"
            data = {"ename": "OutputLimitExceeded", "evalue": reason, "traceback": []}
            history.output(cell.id, EventType.error, data)
            self._cells.stop_running(cell, ExecutionStatus.error, reason)
        elif cell.reply is not None and cell.idle and self._cells.late_results and cell.fold.has_result:
            self._cells.finish_by_reply(cell)

    def _late_output(self, execution_id: str | None, type: EventType, data: dict[str, Any]) -> None:
        """What comes of no cell that runs: all of it together is bounded as that of a cell is."""
        limit = self._cells.limits.recorded_mb
        room = limit * MEGABYTE - self._late_bytes
        if room < 0:
            return
        self._late_bytes += self._cells.history.output(execution_id, type, data, room)
        if self._late_bytes > limit * MEGABYTE:
            message = f"Output of cells that have ended is over {limit} MB, and no more is recorded."
            facts = {"what": "output", "message": f"{message} The next cell changes that.", "left": 0}
            self._cells.events.append(EventType.warning, None, facts)

    def on_oversized(self, parts: list[bytes], size: int, number: int) -> None:
        parent_id, (type, data) = translate_oversized(parts, size, self._max_message_bytes)
        self._output(parent_id, self._own(parent_id), type, data)
        self._tell_note(parent_id, data)
        self._cells.events.passed(number)

    def _tell_note(self, parent_id: str, data: dict[str, Any]) -> None:
        """Shows those who listen what is recorded in the place of a message."""
        content = {"data": data["data"], "metadata": {}}
        note = KernelMessage("iopub", "display_data", parent_id, content, {}, [])
        self._taps.message(self._context, note)

    def on_malformed(self, channel: str, problem: str, number: int) -> None:
        problem, self._malformed = problem[:200], self._malformed + 1
        if self._malformed.bit_count() == 1:  # the 1st, 2nd, 4th, 8th…: a kernel could send nothing else
            log.warning(
                "malformed message",
                session=self._session_id,
                channel=channel,
                problem=problem,
                so_far=self._malformed,
            )
        note = f"[a message of the kernel could not be read: {problem}]"
        data = {"output_type": "display_data", "data": {"text/plain": note}, "metadata": {}}
        current = self._cells.current
        self._output(current.id if current else "", current, EventType.display, data)
        self._tell_note(current.id if current else "", data)
        self._cells.events.passed(number)

    def on_passed(self, number: int) -> None:
        self._cells.events.passed(number)

    def on_exit(self, kernel: str, exit: Exit, number: int) -> None:
        self._cells.events.passed(number)
        self._on_exit(kernel, exit)


def _count(cell: Cell, message: KernelMessage) -> None:
    """Takes the number that the kernel gave a cell. One that it does not keep in its history has none,
    though it says that of the cell before it, or after it."""
    count = message.content.get("execution_count")
    if isinstance(count, int) and cell.request.store_history:
        cell.execution_count = count
