"""What a person saved and what was run become one notebook, and neither is lost."""

from __future__ import annotations

import json
import warnings
from datetime import UTC, datetime
from typing import Any

import msgspec
import nbformat
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from interpreter.lab.notebook import merge, recorded_cell, unsaved, with_facts, without_trust
from interpreter.lab.saved import put_together
from interpreter.lab.tidy import tidy
from interpreter.models import Execution, ExecutionStatus

SPEC = {"name": "python", "display_name": "python"}


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


def test_of_a_run_that_the_record_has_a_part_of_what_was_saved_stays_if_it_is_more() -> None:
    def cut(text: str, count: int) -> dict[str, Any]:
        cell = ran("x-1", text, "a", count)
        cell["metadata"]["interpreter"]["truncated"] = True
        return cell

    whole = ran("x-1", "all of it, and that is much")["outputs"]
    saved = notebook(code("a", outputs=whole, execution_count=1))
    assert shown(merge(saved, [cut("all [cut]", 1)])["cells"][0]) == "all of it, and that is much"
    assert shown(merge(saved, [cut("another run's", 2)])["cells"][0]) == "another run's"
    part = notebook(code("a", outputs=ran("x-1", "all")["outputs"], execution_count=1))
    assert shown(merge(part, [cut("all [cut]", 1)])["cells"][0]) == "all [cut]", "it ran on since"
    assert shown(merge(saved, [ran("x-1", "short", "a")])["cells"][0]) == "short"


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


words = st.sampled_from(["code", "markdown", "a", "x-1", "stream", "stdout", "no id", "", "\n"])
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=5,
)


def like(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Something with these fields, or without some of them, or with anything in them; or anything."""
    return st.fixed_dictionaries({}, optional={k: v | anything for k, v in fields.items()}) | anything


texts = words | st.lists(words, max_size=2)
an_output = like(
    output_type=st.sampled_from(["stream", "display_data", "execute_result", "error"]),
    name=words,
    text=texts,
    data=st.dictionaries(words, texts, max_size=2),
    metadata=st.just({}),
    execution_count=st.none() | st.integers(),
    ename=words,
    evalue=words,
    traceback=st.lists(words, max_size=2),
)
a_cell = like(
    cell_type=st.sampled_from(["code", "markdown", "raw"]),
    id=words,
    source=texts,
    metadata=like(tags=texts, trusted=st.booleans(), interpreter=anything, name=texts),
    outputs=st.lists(an_output, max_size=2),
    execution_count=st.none() | st.integers(),
    attachments=anything,
)
a_file = st.fixed_dictionaries(
    {"nbformat": st.just(4), "cells": st.lists(a_cell, max_size=4)},
    optional={
        "nbformat_minor": anything,
        "metadata": like(kernelspec=anything, interpreter=like(deleted=texts), title=anything),
        "more": anything,
    },
)


@settings(max_examples=400, deadline=None, derandomize=True)
@given(a_file | anything)
@example({"nbformat": 4, "cells": [{"id": []}, {"source": 5}, {"source": [1]}, 1, None]})
@example({"nbformat": 4, "cells": [code("a"), code("a", [1]), {**code("a"), "outputs": {}}]})
@example({"nbformat": 4, "cells": 5, "metadata": 3})
def test_whatever_a_sandbox_wrote_into_the_file_a_valid_notebook_comes_of_it(file: Any) -> None:
    saved = msgspec.json.encode(file)
    made = json.loads(put_together(saved, [ran("x-1", "out"), ran("x-2")], "python", {"settled": None}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # for ids that are missing, or there twice
        nbformat.validate(made)
    gone = made["metadata"]["interpreter"]["deleted"]
    assert {"x-1", "x-2"} <= {*ids(made), *gone}
    assert all("trusted" not in cell["metadata"] for cell in made["cells"])


@pytest.mark.parametrize(
    "saved",
    [b"", b"{", b"\xff", b"[" * 100_000, b'{"nbformat": 4, "cells": [' + b"{}," * 20_000 + b"{}]}"],
)
def test_a_file_that_is_no_notebook_counts_as_none(saved: bytes) -> None:
    assert ids(json.loads(put_together(saved, [ran("x-1")], "python", {}))) == ["x-1"]


def test_a_file_as_deep_as_can_just_be_read_is_borne() -> None:
    for depth in range(10, 1100):
        deep = b'{"nbformat": 4, "cells": [], "metadata": {"a": ' + b"[" * depth + b"]" * depth + b"}}"
        assert b'"x-1"' in put_together(deep, [ran("x-1")], "python", {})


def test_a_valid_notebook_stays_as_it_is_and_of_others_what_is_good_stays() -> None:
    shown = [{"output_type": "stream", "name": "stdout", "text": "kept"}]
    good = notebook(text("t"), code("a", ["x\n", "y"], outputs=shown), kernelspec=SPEC)
    assert tidy(good) == good
    odd = {**code("b", ["one\n", 5, "two"], outputs=shown), "more": 1}
    unnamed = {"cell_type": "markdown", "source": "old", "metadata": {"tags": ["x"]}}
    assert tidy(notebook(odd, unnamed))["cells"] == [
        code("b", "one\ntwo", outputs=shown),
        {**unnamed, "id": "cell-1"},
    ]


def test_texts_of_a_notebook_that_was_replayed_are_there_before_anybody_saves() -> None:
    whole = notebook(text("t"), ran("x-1", "one"), text("u"))
    whole["cells"][1]["metadata"]["interpreter"]["cell_id"] = "a"
    again = {**ran("x-2", "two"), "metadata": {"interpreter": {"cell_id": "a"}}}
    whole["cells"].append(again)
    merged = merge(unsaved(whole), [ran("x-1", "one", "a"), ran("x-2", "two", "a"), ran("x-3")])
    assert ids(merged) == ["t", "a", "u", "x-3"]
    assert shown(merged["cells"][1]) == "two"


def test_nobody_is_believed_to_trust_outputs() -> None:
    given = notebook(code("a", metadata={"trusted": True, "tags": ["x"]}))
    assert without_trust(given)["cells"][0]["metadata"] == {"tags": ["x"]}
