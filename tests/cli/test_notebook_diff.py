"""What counts as another output of a notebook's cell, and what does not."""

from __future__ import annotations

import base64
from typing import Any

from interpreter.cli.notebook_diff import differences


def stream(text: Any, name: str = "stdout") -> dict[str, Any]:
    return {"output_type": "stream", "name": name, "text": text}


def shown(**data: Any) -> dict[str, Any]:
    named = {name.replace("__", "/"): value for name, value in data.items()}
    return {"output_type": "display_data", "data": named, "metadata": {}}


def picture(content: bytes) -> dict[str, Any]:
    return shown(image__png=base64.b64encode(content).decode(), text__plain="<Figure>")


def test_what_changes_with_every_run_is_no_difference() -> None:
    same = [
        (stream("a\nb\n"), stream(["a\n", "b\n"])),
        (shown(text__plain="<A at 0x7f00aa11bb22>"), shown(text__plain="<A at 0x55d0c0ffee00>")),
        (stream("\x1b[31mred\x1b[0m"), stream("red")),
        (
            stream("/tmp/ipykernel_12/345.py:1: UserWarning: x", "stderr"),
            stream("/tmp/ipykernel_9/8.py:1: UserWarning: x", "stderr"),
        ),
        (
            {"output_type": "execute_result", "execution_count": 3, "data": {"text/plain": "1"}},
            {
                "output_type": "execute_result",
                "execution_count": 9,
                "data": {"text/plain": "1"},
                "metadata": {"a": 1},
            },
        ),
        (
            {"output_type": "error", "ename": "E", "evalue": "v", "traceback": ["one"]},
            {"output_type": "error", "ename": "E", "evalue": "v", "traceback": ["two"]},
        ),
        (shown(application__json={"a": 1, "b": [2]}), shown(application__json={"b": [2], "a": 1})),
    ]
    for before, after in same:
        assert differences([before], [after]) == []
    alternating = [stream("a"), stream("x", "stderr"), stream("b")]
    assert differences(alternating, [stream("ab"), stream("x", "stderr")]) == []
    line = base64.encodebytes(b"x" * 100).decode()
    assert differences([shown(image__png=line)], [shown(image__png=line.replace("\n", ""))]) == []


def test_the_first_difference_is_shown_as_a_small_diff() -> None:
    before = [stream("".join(f"line {n}\n" for n in range(100)))]
    after = [stream("".join(f"line {n if n != 41 else 'other'}\n" for n in range(100)))]
    assert differences(before, after) == ["stdout, line 42:", "-line 41", "+line other"]
    many = differences([stream("a\n" * 50)], [stream("b\n" * 50)])
    assert many[0] == "stdout, line 1:"
    assert many[-1] == "… and 92 more lines"
    assert len(many) == 10


def test_pictures_and_kinds_of_outputs_are_told_apart() -> None:
    assert differences([picture(b"one")], [picture(b"other")]) == [
        "image/png: another picture (3 bytes before, 5 now)"
    ]
    assert differences([], [stream("new")]) == ["nothing before, stdout now"]
    assert differences([picture(b"one")], []) == ["image/png before, nothing now", "and 1 more"]
    error = {"output_type": "error", "ename": "KeyError", "evalue": "'a'", "traceback": []}
    assert differences([shown(text__plain="1")], [error]) == ["text/plain before, error now"]
    assert differences([error], [{**error, "evalue": "'b'"}])[1:] == ["-KeyError: 'a'", "+KeyError: 'b'"]
