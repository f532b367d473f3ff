"""What Jupyter's clients have made without saying its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from interpreter.gateway.jupyter import contents
from interpreter.gateway.jupyter.contents import Contents
from interpreter.workspace import Tree
from interpreter.workspace.allowance import Allowance

KINDS: list[tuple[str, Contents]] = [
    ("untitled{}.txt", Contents(type="file", ext=".txt")),
    ("Untitled{}.ipynb", Contents(type="notebook")),
    ("a-Copy{}.txt", Contents(copy_from="a.txt")),
]


@pytest.mark.parametrize(("names", "given"), KINDS)
def test_what_is_new_never_takes_the_place_of_what_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: str, given: Contents
) -> None:
    """Also if it came a moment ago, or is behind the part of a directory that is listed."""
    (tmp_path / "a.txt").write_text("a")
    with Tree(tmp_path, Allowance(tmp_path, file_mb=10, disk_mb=20, capped=False)) as tree:
        looked = tree.has

        def has(path: str) -> bool:
            if path == names.format(1) and not (tmp_path / path).exists():
                (tmp_path / path).write_text("somebody else's")
                return False
            return looked(path)

        (tmp_path / names.format("")).write_text("a cell's")
        monkeypatch.setattr(tree, "has", has)
        made = contents._make(tree, "", given.copy_from, given)
    assert made.path == names.format(2)
    assert (tmp_path / names.format("")).read_text() == "a cell's"
    assert (tmp_path / names.format(1)).read_text() == "somebody else's"
