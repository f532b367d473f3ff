"""What a person saved and what was run become one notebook, and neither is lost."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import nbformat

from interpreter.lab.notebook import merge, recorded_cell, with_facts, without_trust
from interpreter.models import Execution, ExecutionStatus


def ran(id: str, text: str = "", cell: str | None = None, count: int = 1) -> dict[str, Any]:
    """A cell as the record has it."""
    outputs = [{"output_type": "stream", "name": "stdout", "text": text}] if text else []
    return recorded_cell(
        Execution(
            id=id,
            session_id="s",
            code=f"code of {id}",
            status=ExecutionStatus.ok,
            execution_count=count,
            cell_id=cell,
            outputs=outputs,
            queued_at=datetime.now(UTC),
        )
    )


def code(id: str, source: str = "mine", **more: Any) -> dict[str, Any]:
    empty = {"outputs": [], "execution_count": None, "metadata": {}}
    return {"cell_type": "code", "id": id, "source": source, **empty, **more}


def text(id: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "id": id, "source": "words", "metadata": {}}


def notebook(*cells: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {"cells": list(cells), "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def ids(of: dict[str, Any]) -> list[str]:
    return [cell["id"] for cell in of["cells"]]


def shown(cell: dict[str, Any]) -> str:
    return "".join(output["text"] for output in cell["outputs"])


def test_cells_of_agents_are_appended_in_their_order() -> None:
    merged = merge(notebook(text("t")), [ran("x-1", "one"), ran("x-2", "two", count=2)])
    assert ids(merged) == ["t", "x-1", "x-2"]
    assert [shown(cell) for cell in merged["cells"][1:]] == ["one", "two"]
    assert merged["cells"][1]["source"] == "code of x-1"
    nbformat.validate(nbformat.from_dict(merged))


def test_what_a_person_wrote_stays_and_gets_the_outputs_of_its_last_run() -> None:
    saved = notebook(code("a", "edited since"), text("t"), code("b"))
    merged = merge(saved, [ran("x-1", "first", "a"), ran("x-2", "agent"), ran("x-3", "last", "a", 3)])
    assert ids(merged) == ["a", "t", "b", "x-2"]
    first = merged["cells"][0]
    assert (first["source"], shown(first), first["execution_count"]) == ("edited since", "last", 3)
    assert merged["cells"][2] == code("b"), "a cell that never ran is as it was"


def test_a_cell_that_ran_before_anybody_saved_it_is_there_once() -> None:
    merged = merge(
        notebook(), [ran("x-1", "one", "a"), ran("x-2", "two", "b"), ran("x-3", "again", "a")]
    )
    assert ids(merged) == ["a", "b"]
    assert shown(merged["cells"][0]) == "again"


def test_deleted_cells_do_not_come_back() -> None:
    saved = with_facts(notebook(text("t")), deleted=["x-1", "a", 5])
    merged = merge(saved, [ran("x-1"), ran("x-2", cell="a"), ran("x-3")])
    assert ids(merged) == ["t", "x-3"]


def test_an_empty_cell_to_type_in_stays_the_last() -> None:
    assert ids(merge(notebook(code("a"), code("b", " \n")), [ran("x-1")])) == ["a", "x-1", "b"]
    assert ids(merge(notebook(code("b", "")), [])) == ["b"]


def test_whatever_a_sandbox_wrote_into_the_file_is_borne() -> None:
    for bad in ({"cells": 5}, {"cells": [1, None, {}]}, {"metadata": 3}, {}):
        assert "x-1" in [cell.get("id") for cell in merge(bad, [ran("x-1")])["cells"]]
        assert without_trust(bad)["cells"] is not None
    odd = notebook(code("a", metadata="no"), interpreter={"deleted": "all"})
    merged = with_facts(merge(odd, [ran("x-1", "out", "a")]), settled="x-1")
    assert ids(merged) == ["a"]
    assert merged["metadata"] == {"interpreter": {"deleted": [], "settled": "x-1"}}


def test_nobody_is_believed_to_trust_outputs() -> None:
    given = notebook(code("a", metadata={"trusted": True, "tags": ["x"]}))
    assert without_trust(given)["cells"][0]["metadata"] == {"tags": ["x"]}
