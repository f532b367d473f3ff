"""Files that a Jupyter client sends in chunks."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest

from interpreter.errors import FileConflict, NoSpaceLeft
from interpreter.gateway.jupyter import chunks
from interpreter.gateway.jupyter.chunks import FIRST, LAST, Chunks
from interpreter.orchestrator.files import Files, SessionFiles
from interpreter.workspace import Tree
from interpreter.workspace.allowance import Allowance

MEGABYTE = 1024 * 1024


@pytest.fixture
async def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SessionFiles]:
    """Of one session, which may have eight megabytes."""

    async def open(self: SessionFiles, *, change: bool) -> Tree:
        return Tree(tmp_path, Allowance(tmp_path, file_mb=10, disk_mb=8, capped=False))

    monkeypatch.setattr(SessionFiles, "open", open)
    monkeypatch.setattr(SessionFiles, "check", lambda self, change: None)
    made = Files(cast(Any, None))
    before = len(os.listdir("/proc/self/fd"))
    yield made.of("s")
    await asyncio.to_thread(made._threads.shutdown)
    assert len(os.listdir("/proc/self/fd")) == before, "descriptors are left open"


async def test_a_chunk_costs_what_is_in_it(
    files: SessionFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = 0
    write = os.writev

    def count(descriptor: int, pieces: Any) -> int:
        nonlocal written
        written += (done := write(descriptor, pieces))
        return done

    monkeypatch.setattr(os, "writev", count)
    begun = Chunks()
    for number in range(1, 7):
        entry, new = await begun.take(files, "s", "f", number, bytes([number]) * MEGABYTE)
        assert (entry.name, entry.size, new) == ("f", number * MEGABYTE, False)
        assert list(tmp_path.iterdir()) == []
    assert await begun.take(files, "s", "f", LAST, b"end") == (entry_of(tmp_path / "f"), True)
    assert written == 6 * MEGABYTE + 3
    assert (tmp_path / "f").read_bytes()[-MEGABYTE - 3 :] == bytes([6]) * MEGABYTE + b"end"


def entry_of(path: Path) -> Any:
    with Tree(path.parent, Allowance(path.parent, 1, 1, capped=False)) as tree:
        (entry,) = tree.list("").entries
        return entry


async def test_what_does_not_fit_or_has_no_beginning_leaves_nothing(
    files: SessionFiles, tmp_path: Path
) -> None:
    begun = Chunks()
    await begun.take(files, "s", "f", FIRST, bytes(5 * MEGABYTE))
    with pytest.raises(NoSpaceLeft):
        await begun.take(files, "s", "f", 2, bytes(5 * MEGABYTE))
    for number in (3, LAST):
        with pytest.raises(FileConflict, match="not here"):
            await begun.take(files, "s", "f", number, b"x")
    assert list(tmp_path.iterdir()) == []


async def test_what_is_not_gone_on_with_is_given_up(
    files: SessionFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = Chunks()
    await begun.take(files, "s", "again", FIRST, b"not this")
    await begun.take(files, "s", "again", FIRST, b"but ")
    monkeypatch.setattr(chunks, "MOST", 2)
    await begun.take(files, "s", "oldest", FIRST, b"x")
    await begun.take(files, "s", "again", 2, b"this")
    await begun.take(files, "s", "newest", FIRST, b"x")
    with pytest.raises(FileConflict):
        await begun.take(files, "s", "oldest", LAST, b"x")
    await begun.take(files, "s", "again", LAST, b".")
    assert (tmp_path / "again").read_bytes() == b"but this."
    monkeypatch.setattr(chunks, "PATIENCE_SECONDS", 0.0)
    await begun.take(files, "s", "newest", 2, b"x")
    over = asyncio.Event()
    asyncio.get_running_loop().call_later(0.0, over.set)  # which comes after what was to come before
    await over.wait()
    assert begun._begun == {}
    assert [path.name for path in tmp_path.iterdir()] == ["again"]
