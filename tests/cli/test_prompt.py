"""When Enter runs a cell and when it begins a new line."""

from __future__ import annotations

import pytest

from interpreter.cli.prompt import indent_after, is_complete


@pytest.mark.parametrize(
    "code",
    [
        "",
        "1 + 1",
        "x = 1\ny = 2",
        "for i in range(3): print(i)",
        "for i in range(3):\n    print(i)\n",
        "def f():\n    return 1\n    ",
        "print(\n    1)",
        "await something()",
        "async with a as b:\n    pass\n",
        "%timeit 1",
        "!ls",
        "len?",
        "1 +* 2",
        "%%time\n1\n",
        "x = '''\n  a'''",
    ],
)
def test_a_complete_cell_runs(code: str) -> None:
    assert is_complete(code)


@pytest.mark.parametrize(
    "code",
    [
        "for i in range(3):",
        "for i in range(3):\n    print(i)",
        "x = 1\nif x:\n    y = 2",
        "print(",
        "x = '''",
        "@decorator",
        "try:\n    1\n",
        "async with a as b:",
        "1 + \\",
        "%%time",
        "%%time\n1",
    ],
)
def test_an_unfinished_cell_goes_on(code: str) -> None:
    assert not is_complete(code)


def test_a_block_is_indented() -> None:
    assert indent_after("if x:") == "    "
    assert indent_after("    for i in y: ") == "        "
    assert indent_after("    x = 1") == "    "
