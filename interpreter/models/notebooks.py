"""Notebooks: the file format of Jupyter, as far as anyone here looks into it."""

from __future__ import annotations

import enum
from datetime import timedelta
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from interpreter.models.basics import MOST
from interpreter.models.executions import Execution, ExecutionStatus


class Notebook(Struct, frozen=True, kw_only=True):
    """A session's cells and their outputs, as Jupyter reads them."""

    nbformat: int = 4
    nbformat_minor: int = 5
    metadata: dict[str, Any]
    cells: list[dict[str, Any]]


Short = Annotated[str, Meta(max_length=200)]


class Language(Struct, frozen=True):
    """What a kernel says that its cells are written in."""

    name: Short = ""
    file_extension: Short = ""
    mimetype: Short = ""


class GivenCell(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A cell of a notebook that is to be replayed. Outputs and metadata are not looked at."""

    cell_type: Literal["code", "markdown", "raw"]
    source: str | list[str] = ""
    id: str | None = None

    @property
    def text(self) -> str:
        return self.source if isinstance(self.source, str) else "".join(self.source)

    @property
    def runs(self) -> bool:
        """Whether there is something to run; an empty cell is only kept in its place."""
        return self.cell_type == "code" and bool(self.text.strip())


class GivenNotebook(Struct, frozen=True, kw_only=True):
    """A notebook that is to be replayed: version 4, with or without outputs."""

    nbformat: Annotated[int, Meta(ge=0, le=MOST)]
    cells: list[GivenCell] = []


class ReplayState(enum.Enum):
    """How far a notebook is. The last three are final."""

    waiting = "waiting"
    running = "running"
    done = "done"
    failed = "failed"
    cancelled = "cancelled"

    @property
    def final(self) -> bool:
        return self not in (ReplayState.waiting, ReplayState.running)


class Replay(Struct, frozen=True, kw_only=True):
    """How far a session is with the notebook that it was created with."""

    state: ReplayState
    """`waiting` for the session, `running`, then `done` (every cell ended well), `failed` (one did
    not), or `cancelled` (a cell was, or the kernel or the session went)."""
    cells: int
    """How many cells there are to run: code cells that are not empty."""
    done: int
    """How many of them have ended."""
    error_cell: int | None = None
    """The first of them that did not end well, counted from 1."""
    execution_id: str | None = None
    """The execution that runs, or was the last."""
    reason: str | None = None
    """Why it is failed or cancelled."""


def code_cell(execution: Execution) -> dict[str, Any]:
    """An execution as a cell; when it ran is told as JupyterLab tells it."""
    facts: dict[str, Any] = {"status": execution.status.value, "duration_ms": execution.duration_ms}
    if execution.cell_id is not None:
        # Not the cell's own id: a cell that ran twice is there twice, and ids are unique.
        facts["cell_id"] = execution.cell_id
    if execution.reason is not None:
        facts["reason"] = execution.reason
    if execution.truncated is not None:
        facts["truncated"] = True
    metadata: dict[str, Any] = {"interpreter": facts}
    if times := _times(execution):
        metadata["execution"] = times
    ran = execution.status not in (ExecutionStatus.queued, ExecutionStatus.cancelled)
    return {
        "cell_type": "code",
        "id": execution.id,
        "metadata": metadata,
        "execution_count": execution.execution_count if ran else None,
        "source": execution.code,
        "outputs": execution.outputs,
    }


def _times(execution: Execution) -> dict[str, Any]:
    """Under the names of the messages that JupyterLab takes the time of."""
    began = execution.started_at
    if began is None:
        return {}
    times = dict.fromkeys(
        ("iopub.status.busy", "iopub.execute_input", "shell.execute_reply.started"), began
    )
    if execution.duration_ms is not None:
        ended = began + timedelta(milliseconds=execution.duration_ms)
        times |= dict.fromkeys(("shell.execute_reply", "iopub.status.idle"), ended)
    return times


def other_cell(cell: GivenCell) -> dict[str, Any]:
    """A cell that is not run, as it was given."""
    kept: dict[str, Any] = {
        "cell_type": cell.cell_type,
        "id": cell.id,
        "metadata": {},
        "source": cell.text,
    }
    return kept | {"execution_count": None, "outputs": []} if cell.cell_type == "code" else kept
