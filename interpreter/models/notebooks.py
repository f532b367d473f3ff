"""Notebooks: the file format of Jupyter, version 4.5, as far as anyone here looks into it."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from interpreter.models.executions import Execution, ExecutionStatus


class Notebook(Struct, frozen=True, kw_only=True):
    """A session's cells and their outputs, as Jupyter reads them."""

    nbformat: int = 4
    nbformat_minor: int = 5
    metadata: dict[str, Any]
    cells: list[dict[str, Any]]


def code_cell(execution: Execution) -> dict[str, Any]:
    """An execution as a cell; when it ran is told as JupyterLab tells it."""
    facts: dict[str, Any] = {"status": execution.status.value, "duration_ms": execution.duration_ms}
    if execution.cell_id is not None:
        # Not the cell's own id: a cell that ran twice is there twice, and ids are unique.
        facts["cell_id"] = execution.cell_id
    if execution.reason is not None:
        facts["reason"] = execution.reason
    metadata: dict[str, Any] = {"interpreter": facts}
    if execution.started_at is not None:
        metadata["execution"] = {"iopub.execute_input": execution.started_at.isoformat()}
    ran = execution.status not in (ExecutionStatus.queued, ExecutionStatus.cancelled)
    return {
        "cell_type": "code",
        "id": execution.id,
        "metadata": metadata,
        "execution_count": execution.execution_count if ran else None,
        "source": execution.code,
        "outputs": execution.outputs,
    }


def comparable(outputs: list[dict[str, Any]]) -> list[Any]:
    """What of outputs is the same when the same code does the same again.

    Not the execution counts, and of an error only what it is: a traceback names places. Text can be
    written as one string or as a list of lines.
    """
    found: list[Any] = []
    for output in outputs:
        match output.get("output_type"):
            case "stream":
                found.append(("stream", output.get("name"), _joined(output.get("text"))))
            case "error":
                found.append(("error", output.get("ename"), output.get("evalue")))
            case _:
                data = output.get("data") or {}
                found.append(("data", {mime: _joined(value) for mime, value in data.items()}))
    return found


def _joined(text: Any) -> Any:
    if isinstance(text, list) and all(isinstance(line, str) for line in text):
        return "".join(text)
    return text
