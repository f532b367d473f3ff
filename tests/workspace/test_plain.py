"""Where the gateway may not mount, a workspace is a plain directory, and that is said."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from interpreter.errors import NoSpaceLeft
from interpreter.models import Limits
from interpreter.workspace import Tree, Workspaces

NOBODY = 65534
MEGABYTE = 1024 * 1024


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder of a user without rights, and this process as that user."""
    with tempfile.TemporaryDirectory(prefix="interpreter-tests-", dir="/tmp") as folder:
        os.chown(folder, NOBODY, NOBODY)
        os.seteuid(NOBODY)
        try:
            yield Path(folder)
        finally:
            os.seteuid(0)


async def test_without_root_a_workspace_is_a_directory(folder: Path) -> None:
    workspaces = Workspaces(folder / "workspaces")
    await workspaces.prepare()
    assert workspaces.disk_enforced_by == "nothing"
    assert "NOT LIMITED" in workspaces.describe()
    assert "root" in workspaces.describe()
    made = await workspaces.create("s-1", 16)
    assert made.disk_enforced_by == "nothing"
    assert await workspaces.grow("s-1", 64), "nothing holds it"
    (made.path / "file").write_bytes(b"x" * 1000)
    outside = folder / "outside"
    outside.mkdir()
    (made.path / "link").symlink_to(outside)
    assert await workspaces.open("s-1") == made
    assert await workspaces.remove("s-1") >= 1000
    await workspaces.create("s-2", 16)
    await workspaces.close(in_use=set())
    await workspaces.sweep(lambda id: False)
    assert list((folder / "workspaces").iterdir()) == []
    assert outside.is_dir()


async def test_what_a_killed_gateway_left_in_a_workspace_is_removed(tmp_path: Path) -> None:
    root, outside = tmp_path / "workspaces", tmp_path / "outside"
    outside.mkdir()
    earlier = Workspaces(root)
    path = (await earlier.create("s-1", 16)).path
    (path / ".interpreter-0123456789abcdef/a/b").mkdir(parents=True)
    (path / ".interpreter-0123456789abcdef/a/file").write_bytes(b"half")
    (path / ".interpreter-00000000000000ff").write_bytes(b"half")
    (path / ".interpreter-00000000000000aa").symlink_to(outside)
    (path / ".interpreter-mine").write_bytes(b"a cell's own")
    (path / "sub/.interpreter-0123456789abcdef").mkdir(parents=True)
    await earlier.open("s-1")
    assert len(list(path.iterdir())) == 5, "this gateway may be using them"
    later = Workspaces(root)
    for _ in range(2):
        await later.open("s-1")
        assert {entry.name for entry in path.iterdir()} == {".interpreter-mine", "sub"}
    assert outside.is_dir()
    await later.remove("s-1")


def test_a_root_that_may_not_mount_is_found_out(tmp_path: Path) -> None:
    script = (
        "import asyncio, pathlib, sys\nfrom interpreter.workspace import Workspaces\n"
        "workspaces = Workspaces(pathlib.Path(sys.argv[1], 'workspaces'))\n"
        "asyncio.run(workspaces.prepare())\nprint(workspaces.describe())"
    )
    command = ["setpriv", "--bounding-set=-sys_admin", sys.executable, "-c", script, str(tmp_path)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "NOT LIMITED" in said
    assert "mount failed" in said
    assert list(tmp_path.iterdir()) == []


def store(tree: Tree, path: str, megabytes: int, meet: Callable[[], object] = lambda: None) -> bool:
    """Whether there was room for it; after the first megabyte others are met."""
    arriving = tree.receive(path, tree.budget())
    try:
        arriving.write(bytes(MEGABYTE))
        meet()
        arriving.write(os.urandom((megabytes - 1) * MEGABYTE))
        tree.store(arriving)
    except NoSpaceLeft:
        return False
    finally:
        arriving.close()
    return True


async def test_uploads_at_the_same_time_get_no_more_than_there_is_room_for(tmp_path: Path) -> None:
    workspaces = Workspaces(tmp_path)
    path = (await workspaces.create("s-1", 16)).path
    trees = [await workspaces.tree("s-1", Limits(disk_mb=16, file_mb=64)) for _ in range(8)]
    together = threading.Barrier(len(trees), timeout=60)
    with ThreadPoolExecutor(len(trees)) as threads:
        stored = list(threads.map(store, trees, "abcdefgh", [6] * 8, [together.wait] * 8))
    assert sum(stored) <= 2
    assert len(list(path.iterdir())) == sum(stored)
    fits = 16 - 6 * sum(stored) - 1
    assert not store(trees[0], "more", fits + 2)
    assert store(trees[0], "more", fits), "what was given up has left its room"
    for tree in trees:
        tree.close()


async def test_what_came_in_while_another_file_arrived_counts_for_that_one_too(tmp_path: Path) -> None:
    workspaces = Workspaces(tmp_path)
    await workspaces.create("s-1", 16)
    with (
        await workspaces.tree("s-1", Limits(disk_mb=16, file_mb=64)) as one,
        await workspaces.tree("s-1", Limits(disk_mb=16, file_mb=64)) as other,
    ):

        def meanwhile() -> None:
            assert store(other, "one", 6)
            assert store(other, "two", 3)

        assert not store(one, "late", 8, meanwhile)
        assert store(one, "late", 6)


async def test_putting_a_file_in_its_place_holds_up_no_other_workspace(tmp_path: Path) -> None:
    workspaces = Workspaces(tmp_path)
    reached, go_on = threading.Event(), threading.Event()

    def slow(etag: str | None) -> None:
        reached.set()
        go_on.wait(60)

    for id in ("s-1", "s-2"):
        await workspaces.create(id, 16)
    with (
        await workspaces.tree("s-1", Limits()) as one,
        await workspaces.tree("s-2", Limits()) as other,
        ThreadPoolExecutor(1) as threads,
    ):
        arriving = one.receive("f", one.budget())
        storing = threads.submit(one.store, arriving, slow)
        assert reached.wait(60)
        assert store(other, "f", 1)
        assert not storing.done()
        go_on.set()
        assert storing.result()[2]
        arriving.close()
