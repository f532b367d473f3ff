"""Finding out what a cell changed, in a workspace of 100,000 files.

One file is written between the two calls that a gateway makes for each cell; what they take is held
against one bare walk of the same tree, which is the least that comparing it would take. And what a cell
pays that changes nothing.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from pathlib import Path

from benchmarks.figures import Figure, Target
from interpreter.workspace.watching.changes import Found
from interpreter.workspace.watching.watch import Watched, Watcher


def measure(quick: bool) -> list[Figure]:
    directories, files, rounds = (10, 100, 2) if quick else (1000, 100, 12)
    with tempfile.TemporaryDirectory(prefix="interpreter-bench-") as folder:
        root = Path(folder)
        for d in range(directories):
            place = root / f"{d % 32}" / f"{d}"
            place.mkdir(parents=True)
            for i in range(files):
                (place / f"{i}.txt").touch()
        return asyncio.run(_measure(root, rounds))


async def _measure(root: Path, rounds: int) -> list[Figure]:
    one: list[float] = []
    none: list[float] = []
    flood: list[float] = []
    walks: list[float] = []
    watcher = Watcher()
    watched = await watcher.watch(root)
    assert watched is not None
    count = _walk(root)
    changed = root / "0" / "0" / "7.txt"
    for _ in range(rounds):
        start = time.perf_counter()
        assert _walk(root) == count
        walks.append((time.perf_counter() - start) * 1000)
        one.append(await _cell(watched, changed, 1))
        none.append(await _cell(watched, changed, 0))
        flood.append(await _cell(watched, changed, 10_000))
    await watched.close()
    watcher.close()
    against = f"os.scandir of {count:,} files"
    return [
        Figure("changes of a cell, one file", "ms", one, walks, against, Target("≤", 1.5)),
        Figure("changes of a cell, no file", "ms", none, walks, against),
        Figure("changes of a cell, queue run over", "ms", flood, walks, against),
    ]


async def _cell(watched: Watched, file: Path, writes: int) -> float:
    """Milliseconds for finding the changes, without what the cell itself does."""
    start = time.perf_counter()
    while (waiting := watched.catch_up()) is not None:
        await waiting
    recording = watched.begin("")
    assert recording is not None
    took = time.perf_counter() - start
    other = file.with_name("8.txt")
    for i in range(writes):
        # One after the other, or the kernel makes one event of them.
        (other if i % 2 else file).write_text(f"{i}")
    start = time.perf_counter()
    answer = watched.end(recording)
    found: Found | None = await answer if isinstance(answer, asyncio.Future) else answer
    took += time.perf_counter() - start
    assert found is not None
    if writes > 1:
        # By their times, when events were lost: what was written just before is there too.
        assert {change.path for change in found.files} >= {"0/0/7.txt", "0/0/8.txt"}
    else:
        assert len(found.files) == writes
    return took * 1000


def _walk(root: Path) -> int:
    count, waiting = 0, [os.fspath(root)]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                else:
                    count += 1
    return count
