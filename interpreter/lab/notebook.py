"""The session's notebook: what a person saved of it, and what has been run in the session since.

Neither is lost. Texts, edits and the order of cells are the person's; what a cell put out, whoever ran
it, is the record's, unless the record has a part of it and the person saved more; cells that the person
deleted stay away.
"""

from __future__ import annotations

from typing import Any

import msgspec

from interpreter.models import Execution
from interpreter.models.notebooks import code_cell

Cell = dict[str, Any]
Notebook = dict[str, Any]

OURS = "interpreter"
"""Where in a notebook's and a cell's metadata is what only this program needs."""


def recorded_cell(execution: Execution) -> Cell:
    """An execution as a cell of the session's notebook."""
    cell = code_cell(execution)
    facts = cell["metadata"][OURS]
    facts["execution"] = execution.id
    facts["final"] = execution.status.final
    cell["id"] = facts.pop("cell_id", None) or execution.id
    return cell


def latest(recorded: list[Cell]) -> dict[str, Cell]:
    """By id: a cell that ran several times stays where it was, with what came of it last."""
    return {cell["id"]: cell for cell in recorded}


def unsaved(whole: Notebook) -> Notebook:
    """A session's notebook as the gateway tells it, as if a person had saved that.

    It has what is in no execution: the texts of a notebook that the session was made with.
    """
    cells: dict[Any, Cell] = {}
    for cell in _cells(whole):
        id = _facts(_facts(cell, "metadata"), OURS).get("cell_id") or cell.get("id")
        cells.setdefault(id, {**cell, "id": id})
    return {**whole, "cells": list(cells.values())}


def merge(saved: Notebook, recorded: list[Cell]) -> Notebook:
    """The notebook as it is now; what was saved is a valid one."""
    ran = latest(recorded)
    cells = [_with_outputs(cell, ran.pop(cell.get("id", ""), None)) for cell in _cells(saved)]
    gone = set(_deleted(saved))
    new = [cell for id, cell in ran.items() if id not in gone]
    end = len(cells) - (1 if cells and _is_blank(cells[-1]) else 0)
    return {**saved, "cells": [*cells[:end], *new, *cells[end:]]}


def _cells(notebook: Notebook) -> list[Cell]:
    cells = notebook.get("cells")
    return [cell for cell in cells if isinstance(cell, dict)] if isinstance(cells, list) else []


def _with_outputs(cell: Cell, ran: Cell | None) -> Cell:
    if ran is None or cell.get("cell_type") != "code":
        return cell
    metadata = {**_facts(cell, "metadata"), **ran["metadata"]}
    known = {key: ran[key] for key in ("outputs", "execution_count")}
    if _facts(ran["metadata"], OURS).get("truncated") and _has_more(cell, ran):
        del known["outputs"]
    return {**cell, **known, "metadata": metadata}


def _has_more(cell: Cell, ran: Cell) -> bool:
    """Whether a page saved more of a run's outputs than the record has: it was shown all of them."""
    if cell.get("execution_count") != ran["execution_count"] or ran["execution_count"] is None:
        return False
    saved, recorded = (len(msgspec.json.encode(one.get("outputs", []))) for one in (cell, ran))
    return saved > recorded


def _deleted(notebook: Notebook) -> list[str]:
    """The cells that a person deleted, as their page has noted."""
    deleted = _facts(_facts(notebook, "metadata"), OURS).get("deleted")
    return [id for id in deleted if isinstance(id, str)] if isinstance(deleted, list) else []


def _facts(of: dict[str, Any], key: str) -> dict[str, Any]:
    facts = of.get(key)
    return facts if isinstance(facts, dict) else {}


def _is_blank(cell: Cell) -> bool:
    """Whether it is one to type in, which stays the last."""
    source = "".join(cell.get("source") or "")
    return cell.get("cell_type") == "code" and not source.strip() and not cell.get("outputs")


def with_facts(notebook: Notebook, **facts: Any) -> Notebook:
    """The notebook with what its page needs to know, and nothing else that may be in that place."""
    ours = {"deleted": _deleted(notebook), **facts}
    return {**notebook, "metadata": {**_facts(notebook, "metadata"), OURS: ours}}


def without_outputs(notebook: Notebook, of: set[str]) -> Notebook:
    """The notebook without what some of its cells put out, which is in the record as well."""
    cells = [
        {**cell, "outputs": []} if cell.get("cell_type") == "code" and cell.get("id") in of else cell
        for cell in _cells(notebook)
    ]
    return {**notebook, "cells": cells}


def without_trust(notebook: Notebook) -> Notebook:
    """The notebook without the claim that its outputs are trusted: the sandbox may have written it."""
    cells = []
    for cell in _cells(notebook):
        metadata = {key: value for key, value in _facts(cell, "metadata").items() if key != "trusted"}
        cells.append({**cell, "metadata": metadata})
    return {**notebook, "cells": cells}
