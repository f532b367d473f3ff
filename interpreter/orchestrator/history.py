"""What cells showed, also after they ended.

Output can come late (a thread that goes on printing), and a display can be updated from another
cell. Either way the event belongs to the execution that shows it, and the stored execution is
brought up to date: from memory when the cell ended a short while ago, else by folding its
stored events again.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import structlog

from interpreter.kernel.outputs import Fold
from interpreter.models import EventType, Execution, to_json
from interpreter.orchestrator.cell import Cell, with_outputs
from interpreter.orchestrator.events import EventLog
from interpreter.store import (
    Store,
    marking_outdated,
    saving_execution,
    unmarking_outdated,
)

RECENT_CELLS = 4
RECENT_BYTES = 1024 * 1024
"""Cells that have ended stay in memory for late output, so many and so large ones at most."""
MAX_SHOWN = 10_000
"""How many displays are known; one counts as often as there are executions that show it."""
MAX_SHOWN_IN = 100
"""How many executions that show a display an update of it reaches, the newest ones."""
COPIED_BYTES = 16 * 1024 * 1024
"""An update is recorded once for every execution that shows it: so much of that is not stored yet, at
most. A kernel could have the gateway hold a hundred times what it sends, else."""
AMEND_DELAY = 0.05
AMEND_PART = 0.1
"""Saving late output takes this part of the time at most: each time all of a cell's output is saved."""
AMEND_AGAIN = 2.0
"""How long after it could not be saved it is tried again."""

log = structlog.get_logger()


class History:
    """The executions of one session, as far as their outputs still change."""

    def __init__(
        self,
        session_id: str,
        store: Store,
        log: EventLog,
        output_limit: int,
        knows: Callable[[str], bool],
    ) -> None:
        """`knows` tells whether an execution with this id was run."""
        self.knows = knows
        self._session_id = session_id
        self._store = store
        self._log = log
        self._output_limit = output_limit
        self._displays: OrderedDict[str, list[str]] = OrderedDict()
        self._shown = 0
        self._copied_bytes = 0
        """Of updates that are not stored yet, in other executions than the newest that shows each."""
        self._active: dict[str, Cell] = {}
        self._recent: OrderedDict[str, Cell] = OrderedDict()
        self._last_save: asyncio.Future[None] | None = None
        self._outdated: set[str] = set()
        self._saving: set[str] = set()
        """Those that were outdated, and of which the store may still have the old outputs."""
        self._amending: asyncio.Task[None] | None = None

    def set_displays(self, displays: dict[str, list[str]]) -> None:
        """Which executions showed which displays before this gateway was started."""
        self._displays = OrderedDict((id, shown[-MAX_SHOWN_IN:]) for id, shown in displays.items())
        self._shown = sum(map(len, self._displays.values()))

    def let_go(self) -> None:
        """What is stored can be read there, and no kernel is left that could say more."""
        for cell in [cell for cell in self._recent.values() if cell.saved and cell.saved.done()]:
            del self._recent[cell.id]
        self.set_displays({})

    def add(self, cell: Cell) -> None:
        self._active[cell.id] = cell

    def active(self, execution_id: str) -> Cell | None:
        return self._active.get(execution_id)

    def get(self, execution_id: str) -> Cell | None:
        """A cell that is queued, running, or ended a short while ago."""
        return self._active.get(execution_id) or self._recent.get(execution_id)

    def save(self, cell: Cell, execution: Execution | None = None, encoded: bytes | None = None) -> None:
        """Brings the stored execution up to date, together with the events appended so far."""
        execution = execution or cell.model()
        cell.saved = self._save(execution, encoded)

    def _save(self, execution: Execution, encoded: bytes | None = None) -> asyncio.Future[None]:
        encoded = encoded or to_json(execution)
        self._last_save = self._log.along(saving_execution(execution, encoded), size=len(encoded))
        return self._last_save

    def write_down(self, cell: Cell, request: dict[str, Any]) -> None:
        """Writes down a cell that is about to be sent, with what its request said besides the code."""
        cell.written = self._store.write_down(to_json(cell.model()), to_json(request))

    def write_down_ending(self, cell: Cell) -> None:
        """Writes down what was measured of a cell that is about to be answered."""
        cell.written = self._store.write_down_ending(cell.measurements())

    def save_written_down(
        self, cell: Cell, execution: Execution | None = None, encoded: bytes | None = None
    ) -> None:
        """Stores an execution that was written down, or whose ending was."""
        self.save(cell, execution, encoded)
        assert cell.saved is not None
        assert cell.written is not None
        cell.saved.add_done_callback(partial(self._store.settle, cell.written))

    async def settled(self) -> None:
        """Returns when the store has every execution as it is now, or cannot take it."""
        if self._last_save is not None:
            self._log.flush()
            self._store.hurry()
            await self._store.condition.wait_for(self._last_save)

    def finished(self, cell: Cell) -> None:
        """It stays here until the store has it, and a while longer for its late output."""
        del self._active[cell.id]
        self._recent[cell.id] = cell
        assert cell.saved is not None
        cell.saved.add_done_callback(lambda _: self._forget())

    def _forget(self) -> None:
        """Lets go of the oldest cells that are saved, as long as there are too many or too large."""
        while self._recent:
            kept = sum(cell.fold.kept_bytes for cell in self._recent.values())
            if len(self._recent) <= RECENT_CELLS and kept <= RECENT_BYTES:
                return
            oldest = next(iter(self._recent.values()))
            if oldest.saved is None or not oldest.saved.done():
                return
            del self._recent[oldest.id]

    def output(
        self, execution_id: str | None, type: EventType, data: dict[str, Any], room: int = 0
    ) -> int:
        """Records an output event; returns the bytes it takes. Beyond `room` it is not copied any more
        to all the executions that it changes."""
        if type is EventType.update:
            return self._update(execution_id, data, room)
        display_id = data.get("display_id")
        if display_id is not None and execution_id is not None:
            self._show(display_id, execution_id)
        return self._record(execution_id, type, data)

    def _update(self, execution_id: str | None, data: dict[str, Any], room: int) -> int:
        """Updates a display in the executions that show it, the newest first."""
        newest, *others = self._displays.get(data["display_id"], [execution_id])[::-1]
        size = self._record(newest, EventType.update, data)
        room = min(room - size, COPIED_BYTES - self._copied_bytes)
        copied = 0
        for target in others:
            if copied + size > room:
                break
            copied += self._record(target, EventType.update, data)
        if copied:
            self._copied_bytes += copied
            self._log.along().add_done_callback(lambda _: self._stored_copies(copied))
        return size + copied

    def _stored_copies(self, size: int) -> None:
        self._copied_bytes -= size

    def _record(self, execution_id: str | None, type: EventType, data: dict[str, Any]) -> int:
        size = self._log.append(type, execution_id, data)
        if execution_id is not None:
            cell = self.get(execution_id)
            if cell is not None:
                cell.fold.apply(type, data)
            if execution_id not in self._active:
                if execution_id not in self._outdated:
                    self._log.along(marking_outdated(self._session_id, execution_id))
                self.amend({execution_id})
        return size

    def amend(self, execution_ids: set[str]) -> None:
        """Has executions that have ended saved again, with the outputs they have now."""
        self._outdated |= execution_ids
        if self._outdated and self._amending is None:
            self._amending = asyncio.create_task(self._amend())

    def changing(self, execution_id: str) -> bool:
        """Whether the store may have an execution without the outputs that it has now."""
        return execution_id in self._outdated or execution_id in self._saving

    async def current(self, execution: Execution, changing: bool = False) -> Execution:
        """An execution of the store, with the outputs that it has now: they may be saved in a moment.
        `changing` is whether they might have been when the store was asked."""
        if not changing and not self.changing(execution.id):
            return execution
        await self._log.caught_up()
        fold = await refold(self._store, self._session_id, execution.id, self._output_limit)
        return with_outputs(execution, fold)

    def _show(self, display_id: str, execution_id: str) -> None:
        shown_in = self._displays.setdefault(display_id, [])
        if execution_id in shown_in:
            return
        shown_in.append(execution_id)
        self._store.save_display(self._session_id, display_id, execution_id)
        if len(shown_in) > MAX_SHOWN_IN:
            del shown_in[0]
        else:
            self._shown += 1
        while self._shown > MAX_SHOWN:
            self._shown -= len(self._displays.popitem(last=False)[1])

    async def _amend(self) -> None:
        """Saves finished executions whose outputs changed, some at a time."""
        delay, loop = AMEND_DELAY, asyncio.get_running_loop()
        try:
            while self._outdated and not self._log.closed:
                # Late output tends to come in many pieces: one save serves several.
                await asyncio.sleep(delay)
                began = loop.time()
                await self._log.settled()
                self._saving, self._outdated = self._outdated, set()
                try:
                    for execution_id in self._saving:
                        await self._save_again(execution_id)
                    await self._log.settled()
                    delay = max(AMEND_DELAY, (loop.time() - began) / AMEND_PART)
                except Exception:
                    log.exception("late output is not in its results yet", session=self._session_id)
                    self._outdated |= self._saving
                    delay = AMEND_AGAIN
                self._saving = set()
        finally:
            self._saving = set()
            self._amending = None

    async def _save_again(self, execution_id: str) -> None:
        cell = self._recent.get(execution_id)
        if cell is not None:
            self.save(cell)
        else:
            execution = await self._store.execution(self._session_id, execution_id)
            if execution is not None:  # else the kernel named a cell that never was
                fold = await refold(self._store, self._session_id, execution_id, self._output_limit)
                if execution_id in self._outdated:
                    return  # it changed meanwhile, and it is its turn again
                self._save(with_outputs(execution, fold))
        self._log.along(unmarking_outdated(self._session_id, execution_id))

    async def close(self) -> None:
        if self._amending is not None:
            self._amending.cancel()
            await asyncio.gather(self._amending, return_exceptions=True)


async def refold(store: Store, session_id: str, execution_id: str, limit: int) -> Fold:
    """The outputs of an execution from its stored events, page by page, as many as its request asked
    for; `limit` is for one that did not say."""
    fold: Fold | None = None
    after = 0
    while rows := await store.events(session_id, after, execution_id=execution_id):
        for row in rows:
            data = msgspec.json.decode(row.data)
            if fold is None:
                fold = Fold(data.get("request", {}).get("max_output_bytes") or limit)
            fold.apply(EventType(row.type), data)
        after = rows[-1].seq
    return fold or Fold(limit)
