"""What must be true: of every cell, of every session, whatever was done to them meanwhile."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from chaos.scripts import Script
from interpreter.orchestrator.command import PREFIX as COMMAND
from interpreter.orchestrator.executions import execution_id
from interpreter.orchestrator.kernel_listener import PREFIX as CELL

FINAL = frozenset({"ok", "error", "timeout", "cancelled", "lost"})


IN_A_TRACEBACK = "\nKeyboardInterrupt\n\n"
"""What IPython prints when it is interrupted while it shows the traceback of another exception."""


UNFORMATTED = "Unexpected exception formatting exception."
"""What it prints to stdout, with more after it, when that traceback is one of an interrupt too."""


class Violation(Exception):
    """Something that must be true is not."""


def digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


@dataclass
class Cell:
    """A cell that was sent, or a command, which is of no context."""

    key: str
    session: Session
    context: str
    script: Script
    allowed: set[str]
    """How it may end."""
    may_be_refused: bool = False
    refused: bool = False
    final: dict[str, Any] | None = None
    """The execution as it was answered; its outputs only as a digest."""
    mode: str = ""
    verified: bool = False
    streamed: int = 0
    """How many events it had, when they were streamed."""
    shows: set[str] = field(default_factory=set)
    """What its display may show by now."""
    updated_by: Cell | None = None
    became: str | None = None
    """What its display was last changed to."""
    text: str = ""
    """What it printed, if that is not known before."""
    timeout: float | None = None
    """What its timeout was changed to."""

    @property
    def id(self) -> str:
        prefix = COMMAND if self.script.kind == "command" else CELL
        return execution_id(self.session.id, self.key, prefix)

    @property
    def open(self) -> bool:
        return self.final is None and not self.refused

    def __str__(self) -> str:
        return f"cell {self.key} ({self.script.kind}, {self.mode}) = {self.id} in {self.session.id}"

    def ended(self, execution: dict[str, Any]) -> None:
        """An execution that was answered: it is looked at, and has to stay like this."""
        if self.refused:
            raise Violation(f"{self} was refused, and is there")
        if execution["id"] != self.id:
            raise Violation(f"{self} has the id {execution['id']}")
        status = execution["status"]
        if status not in FINAL:
            raise Violation(f"{self} was answered as {status}")
        if status not in self.allowed:
            raise Violation(f"{self} ended as {status} ({execution['reason']}), not {self.allowed}")
        self._check_outputs(execution)
        known = {"status": status, "outputs": digest(execution["outputs"])}
        if self.final is not None and self.final["status"] != status:
            raise Violation(f"{self} was {self.final['status']} and is {status}")
        if self.final is not None and self.final["outputs"] != known["outputs"] and not self._changes:
            raise Violation(f"{self} has other outputs than it had: {str(execution['outputs'])[:2000]}")
        if self.timeout is not None and execution["timeout"] != self.timeout:
            raise Violation(f"{self} was given {self.timeout} s, and has {execution['timeout']}")
        self.final = known

    @property
    def _changes(self) -> bool:
        """Whether other cells change what it shows."""
        return self.script.has_display

    def _check_outputs(self, execution: dict[str, Any]) -> None:
        script, outputs = self.script, execution["outputs"]
        error = execution["error"]
        printed = {
            name: "".join(o["text"] for o in outputs if o.get("name") == name)
            for name in ("stdout", "stderr")
        }
        broken_off = error is not None and error["ename"] == "KeyboardInterrupt"
        if UNFORMATTED in printed["stdout"]:
            broken_off, printed["stdout"] = True, printed["stdout"].partition(UNFORMATTED)[0]
        if printed["stderr"].endswith(IN_A_TRACEBACK):
            broken_off, printed["stderr"] = True, printed["stderr"].removesuffix(IN_A_TRACEBACK)
        if broken_off and execution["status"] == "error" and "interrupted" not in self.allowed:
            raise Violation(f"{self} was interrupted, and nobody did that")
        whole = execution["status"] == script.status and script.status != "timeout" and not broken_off
        if script.kind in ("look", "birth"):
            self.text = execution["text"]
            return
        for name, expected in (("stdout", script.stdout), ("stderr", script.stderr)):
            there = printed[name]
            if there != expected and (whole or not expected.startswith(there)):
                raise Violation(f"{self}, {execution['status']}: {difference(name, there, expected)}")
        shown = [o["data"].get("text/plain", "") for o in outputs if "data" in o]
        if script.has_display:
            if whole and (len(shown) != 1 or shown[0] not in self.shows):
                raise Violation(f"{self} shows {shown}, not {self.shows}")
        elif (whole or shown) and tuple(shown) != script.shown:
            raise Violation(f"{self} shows {shown}, not {script.shown}")
        if whole and script.status == "error" and (error is None or error["evalue"] != self.key):
            raise Violation(f"{self} ended with the error {error}")


def difference(name: str, printed: str, expected: str) -> str:
    """Where two texts part, in a few words."""
    at = next(
        (i for i, (a, b) in enumerate(zip(printed, expected, strict=False)) if a != b),
        min(len(printed), len(expected)),
    )
    there, wanted = (text[max(0, at - 60) : at + 60] for text in (printed, expected))
    return (
        f"{name} has {len(printed):,} characters of {len(expected):,} and parts at {at:,}: "
        f"{there!r} where it should be {wanted!r}"
    )


@dataclass(eq=False)
class Disturbance:
    """Something that is done to a session, and what it may do to cells that are there meanwhile."""

    context: str | None
    statuses: frozenset[str]
    refuses: bool

    def touches(self, cell: Cell) -> bool:
        return self.context is None or cell.context == self.context


@dataclass(eq=False)
class Session:
    """A session that the run made."""

    id: str
    name: str
    contexts: list[str] = field(default_factory=lambda: ["default"])
    cells: dict[str, Cell] = field(default_factory=dict)
    stopped: bool = False
    paused: bool = False
    """Whether it may be paused; the next cell resumes it."""
    deleting: bool = False
    changing: bool = False
    """Whether an action is at it that no other may come in between."""
    births: dict[str, str] = field(default_factory=dict)
    """Context → what its kernel's memory held when it was last looked at."""
    disturbances: list[Disturbance] = field(default_factory=list)

    def add(self, key: str, context: str, script: Script, mode: str) -> Cell:
        cell = Cell(key, self, context, script, {script.status}, mode=mode, shows=set(script.shown))
        for disturbance in self.disturbances:
            _mark(cell, disturbance)
        self.cells[key] = cell
        return cell

    def disturb(self, statuses: set[str], context: str | None = None, *, refuses: bool = False) -> None:
        """Something was done whose effect on the cells that are there now is not known."""
        for cell in self.cells.values():
            if cell.open:
                _mark(cell, Disturbance(context, frozenset(statuses), refuses))

    @contextlib.contextmanager
    def disturbed(
        self, statuses: set[str], context: str | None = None, *, refuses: bool = False
    ) -> Iterator[None]:
        """As long as something goes on: for cells that are there, and for those that come."""
        disturbance = Disturbance(context, frozenset(statuses), refuses)
        self.disturb(statuses, context, refuses=refuses)
        self.disturbances.append(disturbance)
        try:
            yield
        finally:
            self.disturbances.remove(disturbance)

    @property
    def open_cells(self) -> list[Cell]:
        return [cell for cell in self.cells.values() if cell.open]

    def check_effects(self, ran: str, certain: set[str]) -> None:
        """Each cell ran at most once, and those that were `ok` or failed by themselves did.

        `certain` are the keys of the cells that had ended before anyone looked.
        """
        counts: dict[str, int] = {}
        for key in ran.split():
            counts[key] = counts.get(key, 0) + 1
        for key, count in counts.items():
            if key not in self.cells:
                raise Violation(f"{self.id}: somebody ran {key}, which was never sent here")
            if count > 1:
                raise Violation(f"{self.cells[key]} ran {count} times")
            if self.cells[key].refused:
                raise Violation(f"{self.cells[key]} was refused, and ran")
        for key, cell in self.cells.items():
            done = cell.final is not None and cell.final["status"] == "ok"
            if (
                key in certain
                and done
                and cell.script.kind not in ("look", "birth")
                and key not in counts
            ):
                raise Violation(f"{cell} is ok, and its effect is not there")


def _mark(cell: Cell, disturbance: Disturbance) -> None:
    if disturbance.touches(cell):
        cell.allowed |= disturbance.statuses
        cell.may_be_refused |= disturbance.refuses
