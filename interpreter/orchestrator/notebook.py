"""A notebook on its way into a session, cell by cell.

Its code cells become ordinary executions, queued all at once before anybody else can send one; when one
fails, those behind it are cancelled. What is to be run is stored as an event of the session, together
with the session, and how far it is in the session's record, together with the end of each cell. The ids
of the executions are made from their numbers. So a gateway that comes after this one queues what is
missing, and nothing is run twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from interpreter.config import Config
from interpreter.errors import CodeTooLong, InterpreterError, InvalidNotebook, LimitTooHigh
from interpreter.kernel.plaintext import clean_error, shorten
from interpreter.models import (
    EventType,
    ExecutionCreate,
    ExecutionStatus,
    GivenCell,
    GivenNotebook,
    Limits,
    Replay,
    ReplayState,
    SessionCreate,
)
from interpreter.orchestrator.cell import Cell
from interpreter.orchestrator.cells import Cells
from interpreter.orchestrator.executions import execution_id
from interpreter.orchestrator.live_sandbox import DEFAULT
from interpreter.store import ReplayRecord, Store

if TYPE_CHECKING:
    from interpreter.orchestrator.session import LiveSession

MOST_CELLS = 1000
GONE_ON_AFTER = (ExecutionStatus.error, ExecutionStatus.timeout)
"""How a cell may end that others can follow, if that was asked for: its kernel is still there."""

Around = Mapping[str | None, tuple[list[GivenCell], list[GivenCell]]]
"""What stands before and after each execution of a notebook; under None what is there without any."""


class _Stored(msgspec.Struct):
    """The event that has a notebook's cells."""

    notebook: list[GivenCell] = []


_decode = msgspec.json.Decoder(_Stored).decode


def check(config: Config, limits: Limits, notebook: GivenNotebook) -> None:
    """Raises an error if a notebook cannot be replayed."""
    if notebook.nbformat != 4:
        raise InvalidNotebook(
            f"This is a notebook of version {notebook.nbformat}; only version 4 is read.",
            "'jupyter nbconvert --to notebook FILE' makes a new one of an old one.",
        )
    if len(notebook.cells) > MOST_CELLS:
        raise InvalidNotebook(
            f"This notebook has {len(notebook.cells):,} cells; at most {MOST_CELLS:,} are taken.",
            "Split it: run the first part with the session, and the rest as executions.",
        )
    texts = (text for cell in notebook.cells for text in (cell.text, cell.id or ""))
    size = sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)
    if size > config.max_code_bytes:
        most = f"at most {config.max_code_bytes:,} are taken"
        raise CodeTooLong(f"The cells of this notebook have {size:,} bytes; {most}.")
    if (count := sum(cell.runs for cell in notebook.cells)) > limits.executions:
        raise LimitTooHigh(
            f"This notebook has {count:,} cells to run, and the session may run {limits.executions:,}.",
            "Give the session higher limits.executions.",
        )


def new_record(request: SessionCreate) -> ReplayRecord | None:
    if request.notebook is None:
        return None
    count = sum(cell.runs for cell in request.notebook.cells)
    return ReplayRecord(
        progress=Replay(state=ReplayState.waiting, cells=count, done=0),
        keep_going=request.keep_going,
        timeout=request.cell_timeout,
        event=0,
    )


class NotebookReplay:
    """Runs a session's notebook. `LiveSession` tells it what becomes of the session and its cells."""

    def __init__(self, session: LiveSession, store: Store, cells: list[GivenCell] | None = None) -> None:
        """`cells` is None for a session that was there before; `load` finds them."""
        self._session = session
        self._store = store
        self._cells = cells
        self._codes: list[str] = [] if cells is None else [cell.text for cell in cells if cell.runs]

    @property
    def _record(self) -> ReplayRecord:
        assert self._session.record.replay is not None
        return self._session.record.replay

    def write_down(self) -> None:
        """Has the notebook stored, together with the session."""
        if self._record.event == 0 and self._cells is not None:
            facts = {"replay": self._record.progress, "notebook": self._cells}
            self._session.events.append(EventType.status, None, facts)
            self._session.update(replay=replace(self._record, event=self._session.events.last_seq))
            self._cells = []

    async def load(self) -> None:
        """Reads what an earlier gateway stored of a notebook that is not done."""
        if self._cells is None and not self._record.progress.state.final:
            self._cells = await self._stored()
            self._codes = [cell.text for cell in self._cells if cell.runs]

    async def _stored(self) -> list[GivenCell]:
        """All cells, also those that are not run; none if they are lost."""
        event = self._record.event
        rows = await self._store.events(self._session.id, event - 1, max_rows=1)
        return _decode(rows[0].data).notebook if rows and rows[0].seq == event else []

    async def around(self) -> Around:
        """What of the notebook is not run, by where it belongs."""
        await self._session.events.caught_up()
        found: dict[str | None, tuple[list[GivenCell], list[GivenCell]]] = {None: ([], [])}
        before: list[GivenCell] = []
        last: str | None = None
        for cell in await self._stored():
            if cell.runs:
                last = self._id(len(found) - 1)
                found[last] = (before, [])
                before = []
            else:
                before.append(cell)
        found[last][1].extend(before)
        return found

    def recognize(self, cells: Iterable[Cell]) -> None:
        """Marks those that an earlier gateway queued: one of them may end before all are queued."""
        for cell in cells:
            cell.of_notebook = cell.id in self._numbers

    def go_on(self) -> None:
        """Queues the cells that are left and not queued already."""
        progress = self._record.progress
        if progress.state.final:
            return
        try:
            for number in range(progress.done, progress.cells):
                self._queue(number)
        except (InterpreterError, IndexError) as e:
            lost = "its notebook is not in the database any more"
            self.stop(e.message if isinstance(e, InterpreterError) else lost)
            self._session.context(DEFAULT).cells.cancel_notebook("its notebook ended")
        else:
            self._codes = []
            self._proceed(replace(progress, state=ReplayState.running))

    def _queue(self, number: int) -> None:
        if self._session.history.active(self._id(number)) is not None:
            return
        most = self._session.limits.cell_seconds
        timeout = min(self._record.timeout or most, most)
        request = ExecutionCreate(
            code=self._codes[number],
            timeout=timeout,
            max_output_bytes=self._session.most_output_bytes,
            by="notebook",
        )
        self._session.submit_now(self._id(number), request, of_notebook=True)

    def ended(self, cell: Cell, cells: Cells) -> None:
        """One of the session's `cells` has ended."""
        progress = self._record.progress
        number = self._numbers.get(cell.id)
        if number is None:
            return
        if progress.state.final and (number != progress.done or cell.started_at is None):
            return  # only one that ran when the notebook ended by another counts yet
        why = _why(number, cell)
        if number == progress.done:  # else one that waited was cancelled
            progress = replace(progress, done=number + 1)
        if cell.status is ExecutionStatus.cancelled:
            self._tell(replace(progress, state=ReplayState.cancelled, reason=why))
            cells.cancel_notebook(f"its notebook ended: {why}")
            return
        if cell.status is not ExecutionStatus.ok and progress.error_cell is None:
            progress = replace(progress, error_cell=number + 1, reason=why)
        if cell.status in (ExecutionStatus.ok, *(GONE_ON_AFTER if self._record.keep_going else ())):
            self._proceed(progress)
        else:
            self._tell(replace(progress, state=ReplayState.failed))
            cells.cancel_notebook(f"its notebook ended: {progress.reason}")

    def stop(self, reason: str) -> None:
        """The kernel or the session is gone with all that was queued, and the notebook ends, too."""
        progress = self._record.progress
        if not progress.state.final:
            self._tell(replace(progress, state=ReplayState.cancelled, reason=reason))

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {self._id(number): number for number in range(self._record.progress.cells)}

    def _id(self, number: int) -> str:
        """The id of a cell's execution. No Idempotency-Key makes it: a header has no line breaks."""
        return execution_id(self._session.id, f"\nnotebook {number}")

    def _proceed(self, progress: Replay) -> None:
        if progress.done < progress.cells:
            self._tell(replace(progress, execution_id=self._id(progress.done)))
        elif progress.state is ReplayState.running:
            well = progress.error_cell is None
            self._tell(replace(progress, state=ReplayState.done if well else ReplayState.failed))
        else:
            self._tell(progress)

    def _tell(self, progress: Replay) -> None:
        self._session.update(replay=replace(self._record, progress=progress))
        self._session.events.append(EventType.status, None, {"replay": progress})


def _why(number: int, cell: Cell) -> str:
    number += 1
    if cell.reason is None and cell.fold.error is not None:
        error = clean_error(cell.fold.error)
        return f"cell {number}: {error.ename}: {shorten(error.evalue, 200)}"
    return f"cell {number}: {cell.reason}"
