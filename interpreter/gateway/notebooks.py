"""A session as a notebook."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct
from tornado.iostream import StreamClosedError

from interpreter.errors import SessionNotFound
from interpreter.gateway.file_headers import disposition
from interpreter.gateway.handler import ApiHandler
from interpreter.gateway.operation import Operation
from interpreter.models.basics import ContextName
from interpreter.models.notebooks import Notebook, code_cell

PAGE = 8
"""Executions that are in memory at once: each may have megabytes of outputs."""


class Of(Struct, forbid_unknown_fields=True):
    """Which of the session's kernels."""

    context: ContextName = "default"


async def read_notebook(call: ApiHandler) -> Any:
    """Sends it as it is read, cell by cell: a long session does not have to fit into memory."""
    context = call.query(Of).context
    session = call.orchestrator.get(call.path["session_id"])
    executions = call.orchestrator.executions
    name = f"{session.record.name or session.id}.ipynb"
    found = await executions.all(session.id, PAGE, None)
    call.set_header("Content-Disposition", disposition("attachment", name))
    head = {"nbformat": 4, "nbformat_minor": 5, "metadata": _metadata(session.record.environment)}
    try:
        call.write(msgspec.json.encode(head)[:-1] + b',"cells":[')
        first = True
        while found:
            for execution in found:
                if execution.context == context:
                    cell = msgspec.json.encode(code_cell(execution))
                    call.write(cell if first else b"," + cell)
                    first = False
            await call.flush()
            found = await executions.all(session.id, PAGE, found[-1].id)
        await call.finish(b"]}")
    except StreamClosedError:
        return None
    return None


def _metadata(environment: str) -> dict[str, Any]:
    return {
        "kernelspec": {"name": environment, "display_name": environment, "language": "python"},
        "language_info": {"name": "python", "file_extension": ".py", "mimetype": "text/x-python"},
    }


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
