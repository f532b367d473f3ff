"""A session as a notebook."""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import Struct
from tornado.iostream import StreamClosedError

from interpreter.errors import SessionNotFound
from interpreter.gateway.file_headers import disposition
from interpreter.gateway.handler import ApiHandler
from interpreter.gateway.operation import Operation
from interpreter.models import Execution
from interpreter.models.basics import ContextName
from interpreter.models.notebooks import Notebook, code_cell, other_cell
from interpreter.orchestrator.notebook import Around
from interpreter.store import SessionRecord

PAGE = 8
"""Executions that are in memory at once: each may have megabytes of outputs."""
ID = re.compile("[a-zA-Z0-9_-]{1,64}")
"""What a notebook allows as the id of a cell."""


class Of(Struct, forbid_unknown_fields=True):
    """Which of the session's kernels."""

    context: ContextName = "default"


async def read_notebook(call: ApiHandler) -> Any:
    """Sends it as it is read, cell by cell: a long session does not have to fit into memory."""
    context = call.query(Of).context
    session = call.orchestrator.get(call.path["session_id"])
    executions = call.orchestrator.executions
    name = f"{session.record.name or session.id}.ipynb"
    replayed = session.replay is not None and context == "default"
    writer = CellWriter(await session.replay.around() if session.replay and replayed else {})
    found = await executions.all(session.id, PAGE, None)
    call.set_header("Content-Disposition", disposition("attachment", name))
    head = {"nbformat": 4, "nbformat_minor": 5, "metadata": _metadata(session.record)}
    try:
        call.write(msgspec.json.encode(head)[:-1] + b',"cells":[' + writer.cells(None))
        while found:
            for execution in found:
                if execution.context == context and not execution.silent:
                    call.write(writer.cells(await executions.fuller(session.id, execution)))
            await call.flush()
            found = await executions.all(session.id, PAGE, found[-1].id)
        await call.finish(b"]}")
    except StreamClosedError:
        return None
    return None


class CellWriter:
    """Writes executions as cells, and around those of a replayed notebook what is not run of it."""

    def __init__(self, around: Around) -> None:
        self._around = around
        self._ids: set[str] = set()

    def cells(self, execution: Execution | None) -> bytes:
        """The next cells; for None those that stand alone."""
        before, after = self._around.get(None if execution is None else execution.id, ([], []))
        found = [other_cell(cell) for cell in before]
        found += [code_cell(execution)] if execution is not None else []
        found += [other_cell(cell) for cell in after]
        written = b""
        for cell in found:
            cell["id"] = self._unique(cell["id"])
            written += (b"," if len(self._ids) > 1 else b"") + msgspec.json.encode(cell)
        return written

    def _unique(self, wanted: str | None) -> str:
        """The id that is wanted, if it is one and no other cell has it; else one like it."""
        base = id = wanted if wanted and ID.fullmatch(wanted) else f"cell-{len(self._ids)}"
        number = 1
        while id in self._ids:
            number += 1
            id = f"{base[:50]}-{number}"
        self._ids.add(id)
        return id


def _metadata(record: SessionRecord) -> dict[str, Any]:
    spec = {"name": record.environment, "display_name": record.environment}
    if (language := record.language) is None or not language.name:
        return {"kernelspec": spec}
    return {"kernelspec": {**spec, "language": language.name}, "language_info": language}


OPERATIONS = [
    Operation(
        "GET",
        "/v1/sessions/{session_id}/notebook",
        "The cells of a session and their outputs as a notebook",
        read_notebook,
        embeddable=True,
        query=Of,
        answers={200: Notebook},
        errors=(SessionNotFound,),
    ),
]
