"""What a hostile sandbox says in the place of a description."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from interpreter.errors import CannotDescribe, FileNotFound, InterpreterError, InvalidPath, SandboxFailed
from interpreter.orchestrator.describe import _read, path_inside

TABLE: dict[str, Any] = {
    "format": "csv",
    "rows": 2,
    "rows_exact": True,
    "rows_examined": 2,
    "columns": [{"name": "a", "type": "integer", "nulls": 0}],
    "more_columns": 0,
    "sample": [["1"], ["2"]],
    "sheets": [],
}


def answer(said: Any) -> dict[str, Any]:
    raw = said if isinstance(said, bytes) else json.dumps(said).encode()
    return {"id": 1, "said": base64.b64encode(raw).decode()}


def test_an_honest_answer_is_passed_on() -> None:
    table = _read(answer({"description": TABLE}), "a.csv", "python")
    assert (table.format, table.rows, table.columns[0].name, table.sample) == (
        "csv",
        2,
        "a",
        [["1"], ["2"]],
    )


@pytest.mark.parametrize(
    "said",
    [
        *(b"", b"x", b"[]", b"{}", b"null", b"[" * 100_000, b'{"description": 1}', b"\xff\xfe"),
        {"description": {**TABLE, "format": "exe"}},
        {"description": {**TABLE, "rows": -1}},
        {"description": {**TABLE, "rows": 2**63}},
        {"description": {**TABLE, "rows": 1e400}},
        {"description": {**TABLE, "rows": "2"}},
        {"description": {**TABLE, "columns": TABLE["columns"] * 1001}},
        {"description": {**TABLE, "columns": [{"name": 1, "type": "x", "nulls": 0}]}},
        {"description": {**TABLE, "sample": [["1"]] * 21}},
        {"description": {**TABLE, "sample": [[1]]}},
        {"description": {k: v for k, v in TABLE.items() if k != "sample"}},
        {"problem": "unheard of"},
        {"problem": "needs", "package": "pyarrow; rm -rf /"},
        {"problem": ["needs"]},
    ],
)
def test_nonsense_is_not_believed(said: Any) -> None:
    with pytest.raises(CannotDescribe, match="nothing sensible"):
        _read(answer(said), "a.csv", "python")


@pytest.mark.parametrize("said", [None, 5, [], "not base64!", "é", "A" * 400_000])
def test_what_is_not_even_encoded_is_not_believed(said: Any) -> None:
    with pytest.raises(CannotDescribe, match="nothing sensible"):
        _read({"id": 1, "said": said}, "a.csv", "python")


def test_text_is_cut_and_cleaned_and_rows_fit_their_columns() -> None:
    evil = "\x1b[2J\x07\u202e" + "x" * 5000
    table = {
        **TABLE,
        "columns": [{"name": evil, "type": evil, "nulls": None}] * 2,
        "sample": [[evil], [evil, "a\nb", evil, evil], []],
        "sheets": [evil],
    }
    read = _read(answer({"description": table}), "a.csv", "python")
    texts = [c.name for c in read.columns] + [c.type for c in read.columns] + read.sheets
    texts += [cell for row in read.sample for cell in row]
    assert all(len(text) <= 200 and text.isprintable() for text in texts)
    assert [len(row) for row in read.sample] == [2, 2, 2]
    assert read.sample[1][1] == "a b"


@pytest.mark.parametrize(
    ("said", "error", "words"),
    [
        (answer({"problem": "missing"}), FileNotFound, "no file 'a.csv'"),
        (answer({"problem": "needs", "package": "pyarrow"}), CannotDescribe, "'pyarrow'"),
        (answer({"problem": "memory"}), CannotDescribe, "too much memory"),
        (answer({"problem": "no table", "why": "it\x1b is prose"}), CannotDescribe, "is prose"),
        ({"problem": "time"}, CannotDescribe, "too long"),
        ({"problem": "length"}, CannotDescribe, "too long"),
        ({"problem": "busy"}, CannotDescribe, "try again"),
        ({"problem": {"x": "y"}}, CannotDescribe, "failed"),
        ({"error": "there is no command\x1b 'describe'"}, SandboxFailed, "no command"),
    ],
)
def test_what_is_in_the_way_is_told(
    said: dict[str, Any], error: type[InterpreterError], words: str
) -> None:
    with pytest.raises(error) as caught:
        _read(said, "a.csv", "python")
    assert words in caught.value.message
    assert caught.value.message.isprintable()


@pytest.mark.parametrize(
    ("path", "inside"),
    [
        ("a.csv", "a.csv"),
        ("a/b c.csv", "a/b c.csv"),
        ("/workspace/a.csv", "a.csv"),
        ("/data/input/d/x.csv", "/data/input/d/x.csv"),
    ],
)
def test_paths_are_of_the_workspace_or_the_inputs(path: str, inside: str) -> None:
    assert path_inside(path) == inside


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "../x",
        "a/../../x",
        "/data/input/../../etc/passwd",
        "/data/inputs",
        "a\0",
        "/x",
        "x" * 5000,
    ],
)
def test_other_paths_are_refused(path: str) -> None:
    with pytest.raises(InvalidPath):
        path_inside(path)
