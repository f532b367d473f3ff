"""A valid notebook out of whatever is in its file.

Any cell can write there, so nothing in it is believed. What is as nbformat 4.5 has it stays as it is; of
a cell that is not, its text stays, and its outputs if all of them are good.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from nbformat.validator import ValidationError, get_validator

from interpreter.lab.notebook import Cell, Notebook

CODE = ("cell_type", "id", "metadata", "source", "outputs", "execution_count")
TEXT = ("cell_type", "id", "metadata", "source", "attachments")
MOST_CELLS = 10_000


def read(saved: bytes, environment: str) -> Notebook:
    """What was saved, or an empty notebook."""
    try:
        notebook = msgspec.json.decode(saved, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        notebook = {}
    cells = notebook.get("cells")
    if notebook.get("nbformat") == 4 and isinstance(cells, list) and len(cells) <= MOST_CELLS:
        return tidy(notebook)
    spec = {"name": environment, "display_name": environment}
    return _notebook([], {"kernelspec": spec})


def tidy(notebook: Notebook) -> Notebook:
    """A list of cells as a valid notebook, every cell with an id of its own."""
    metadata = notebook.get("metadata")
    cells = [_cell(cell) for cell in notebook["cells"] if isinstance(cell, dict)]
    _name(cells)
    return _notebook(cells, metadata if _holds(_notebook([], metadata)) else {})


def _notebook(cells: list[Cell], metadata: Any) -> Notebook:
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def _holds(notebook: Notebook) -> bool:
    try:
        get_validator(4, 5).validate(notebook)
    except ValidationError:
        return False
    return True


def _cell(given: Cell) -> Cell:
    """A valid cell; without an id if the given one is none."""
    kind = given.get("cell_type")
    if kind not in ("code", "markdown"):
        kind = "raw"
    cell = {key: given[key] for key in (CODE if kind == "code" else TEXT) if key in given}
    cell = {"metadata": {}, "source": "", **cell, "cell_type": kind}
    if kind == "code":
        cell = {"outputs": [], "execution_count": None, **cell}
    if _holds(_notebook([{**cell, "id": "some"}], {})):
        return cell if _is_id(cell.get("id")) else _without_id(cell)
    bare: Cell = {"cell_type": kind, "metadata": {}, "source": _text(cell["source"])}
    if _is_id(cell.get("id")):
        bare["id"] = cell["id"]
    if kind == "code":
        bare |= {"execution_count": None, "outputs": []}
        shown = {**bare, "id": "some", "outputs": cell["outputs"]}
        if _holds(_notebook([shown], {})):
            bare["outputs"] = cell["outputs"]
    return bare


def _text(source: Any) -> str:
    lines: Iterable[Any] = source if isinstance(source, list) else [source]
    return "".join(line for line in lines if isinstance(line, str))


def _is_id(id: Any) -> bool:
    text = {"cell_type": "raw", "id": id, "metadata": {}, "source": ""}
    return _holds(_notebook([text], {}))


def _without_id(cell: Cell) -> Cell:
    return {key: value for key, value in cell.items() if key != "id"}


def _name(cells: list[Cell]) -> None:
    """Gives an id to each cell that has none, or one that another has, the same whenever it is read."""
    taken = {cell["id"] for cell in cells if "id" in cell}
    seen: set[str] = set()
    for number, cell in enumerate(cells):
        if cell.get("id", "") in seen or "id" not in cell:
            cell["id"] = next(id for id in _names(number) if id not in taken)
            taken.add(cell["id"])
        seen.add(cell["id"])


def _names(number: int) -> Iterable[str]:
    yield f"cell-{number}"
    again = 0
    while True:
        again += 1
        yield f"cell-{number}-{again}"
