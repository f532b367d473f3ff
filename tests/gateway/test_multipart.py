"""Forms, taken apart as they come: however they are cut into pieces, and whatever is in them."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from interpreter.errors import FileConflict, NoSpaceLeft
from interpreter.gateway.multipart import Form
from interpreter.workspace import Tree
from interpreter.workspace.allowance import Allowance

MEGABYTE = 1024 * 1024


@pytest.fixture
def root(tmp_path: Path) -> Path:
    place = tmp_path / "workspace"
    place.mkdir()
    return place


@pytest.fixture
def tree(root: Path) -> Iterator[Tree]:
    with Tree(root, Allowance(root, file_mb=10, disk_mb=20, capped=False)) as tree:
        yield tree


def body(*files: tuple[str, bytes]) -> bytes:
    parts = [
        b'--B\r\nContent-Disposition: form-data; name="f"; filename="%b"\r\n\r\n%b\r\n'
        % (name.encode(), contents)
        for name, contents in files
    ]
    return b"".join(parts) + b"--B--\r\n"


def stored(tree: Tree, sent: bytes, size: Callable[[], int] = lambda: MEGABYTE) -> None:
    form = Form(tree, "in", b"B")
    try:
        while sent:
            piece, sent = sent[: (count := size())], sent[count:]
            form.write(piece)
        form.finish()
    finally:
        form.close()


LOOKALIKES = {
    "empty": b"",
    "begins": b"--B",
    "lines": b"\r\n--Bx\r\n--B x\r\n--",
    "ends": b"text\r\n--",
    "long": b"\r\n--B" + b"x" * 40_000,
}


@pytest.mark.parametrize("seed", range(20))
def test_a_form_is_the_same_however_it_is_cut(tree: Tree, root: Path, seed: int) -> None:
    dice = random.Random(seed)
    sent = b"ignored\r\n" + body(*LOOKALIKES.items()) + b"also ignored"
    stored(tree, sent, lambda: dice.choice([1, 2, 3, 7, 100, 20_000]))
    assert {path.name: path.read_bytes() for path in (root / "in").iterdir()} == LOOKALIKES


def test_a_form_holds_one_descriptor_for_each_of_its_files(tree: Tree, root: Path) -> None:
    form = Form(tree, "in", b"B")
    before = len(os.listdir("/proc/self/fd"))
    form.write(body(*((str(number), b"x") for number in range(100))))
    assert len(os.listdir("/proc/self/fd")) == before + 100
    form.finish()
    form.close()
    assert len(os.listdir("/proc/self/fd")) == before
    assert len(list((root / "in").iterdir())) == 100


def test_lines_that_begin_like_the_boundary_are_taken_in_one_go(
    tree: Tree, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contents = b"\r\n--B-" * (MEGABYTE // 6)
    form = Form(tree, "in", b"B")
    writes = 0

    def count(*pieces: bytes) -> None:
        nonlocal writes
        writes += 1
        written(*pieces)

    try:
        whole = body(("a", contents))
        form.write(whole[:70])
        written = form._files[0].write
        monkeypatch.setattr(form._files[0], "write", count)
        form.write(whole[70:])
        form.finish()
    finally:
        form.close()
    assert writes <= 2
    assert (root / "in/a").read_bytes() == contents


@pytest.mark.parametrize("names", [("a", "a/b"), ("a/b/c", "a"), ("x", "./a//b", "a")])
def test_what_is_a_file_and_a_directory_is_refused_before_anything_is_stored(
    tree: Tree, root: Path, names: tuple[str, ...]
) -> None:
    with pytest.raises(FileConflict, match="'in/a' is a file and a directory"):
        stored(tree, body(*((name, b"x") for name in names)))
    assert list(root.iterdir()) == []
    stored(tree, body(("a", b"1"), ("ab/c", b"2"), ("ab/cd", b"3"), ("a", b"4")))
    assert (root / "in/a").read_bytes() == b"4", "the last one of a name counts"


def test_the_files_of_a_form_are_held_to_the_disk_together(tree: Tree, root: Path) -> None:
    for size in (9 * MEGABYTE, MEGABYTE // 2):
        with pytest.raises(NoSpaceLeft):
            stored(tree, body(*((str(n), bytes(size)) for n in range(21 * MEGABYTE // size + 1))))
        assert list(root.iterdir()) == []
    stored(tree, body(("a", bytes(9 * MEGABYTE)), ("b", bytes(9 * MEGABYTE))))
