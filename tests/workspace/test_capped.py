"""A capped workspace: the kernel holds it to its size, and it does not outlive its session."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
from collections.abc import Callable
from io import FileIO
from itertools import count
from pathlib import Path

import pytest

from interpreter.errors import SandboxFailed
from interpreter.workspace import Workspaces
from tests.mounts import loop_devices_of, mount, mounts_of, soon, unmount

MEGABYTE = 1024 * 1024
CAP_SYS_RESOURCE = 24


def size(path: Path) -> int:
    found = os.statvfs(path)
    return found.f_blocks * found.f_frsize


def taken(root: Path, id: str) -> int:
    """What an image takes of the host's disk."""
    return (root / f"{id}.img").stat().st_blocks * 512


def fill(file: Path) -> int:
    """Writes until there is no room; returns how much went in."""
    with open(file, "wb", buffering=0) as out:
        refused = until_refused(lambda: out.write(b"x" * 65536))
    assert refused.errno == errno.ENOSPC
    return file.stat().st_size


def until_refused(do: Callable[[], object]) -> OSError:
    try:
        while True:
            do()
    except OSError as e:
        return e


def held_open(file: Path) -> FileIO:
    return open(file, "wb", buffering=0)


def write_through(file: Path, data: bytes) -> None:
    """Until it is in the image."""
    with open(file, "wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())


def may_grow() -> bool:
    """Whether the kernel lets this process grow a file system that is in use."""
    status = Path("/proc/self/status").read_text()
    (effective,) = [line.split()[1] for line in status.splitlines() if line.startswith("CapEff")]
    return bool(int(effective, 16) >> CAP_SYS_RESOURCE & 1)


async def test_a_workspace_is_an_empty_file_system_of_its_size(
    workspaces: Workspaces, root: Path
) -> None:
    made = await workspaces.create("s-1", 16)
    assert (made.path, made.disk_enforced_by) == (root / "s-1", "filesystem")
    assert list(made.path.iterdir()) == []
    assert 12 * MEGABYTE < size(made.path) <= 16 * MEGABYTE
    flags = os.statvfs(made.path).f_flag
    assert flags & os.ST_NOSUID
    assert flags & os.ST_NODEV
    assert flags & os.ST_NOATIME
    assert stat.S_IMODE(made.path.stat().st_mode) == 0o700
    assert stat.S_IMODE((root / "s-1.img").stat().st_mode) == 0o600
    assert await workspaces.remove("s-1") == 0


async def test_many_can_be_made_at_once(workspaces: Workspaces, root: Path) -> None:
    ids = [f"s-{number}" for number in range(8)]
    made = await asyncio.gather(*(workspaces.create(id, 16) for id in ids))
    for workspace in made:
        (workspace.path / "whose").write_text(workspace.path.name)
    assert [(w.path / "whose").read_text() for w in made] == ids
    assert len(loop_devices_of(root)) == 8
    await asyncio.gather(*map(workspaces.remove, ids))
    assert mounts_of(root) == []


async def test_a_full_workspace_is_full_for_nobody_else(workspaces: Workspaces, root: Path) -> None:
    full = (await workspaces.create("s-full", 16)).path
    other = (await workspaces.create("s-other", 16)).path
    assert fill(full / "bomb") <= 16 * MEGABYTE
    assert taken(root, "s-full") <= 16 * MEGABYTE
    (other / "file").write_bytes(b"x" * MEGABYTE)
    (root.parent / "file").write_bytes(b"x" * MEGABYTE)
    (root.parent / "file").unlink()
    (full / "bomb").unlink()
    (full / "small").write_bytes(b"x" * MEGABYTE)


async def test_what_is_deleted_inside_is_given_back(workspaces: Workspaces, root: Path) -> None:
    path = (await workspaces.create("s-1", 64)).path
    write_through(path / "large", os.urandom(32 * MEGABYTE))
    assert taken(root, "s-1") > 32 * MEGABYTE
    (path / "large").unlink()
    assert soon(lambda: taken(root, "s-1") < 8 * MEGABYTE)


async def test_a_workspace_holds_so_many_files_and_no_more(workspaces: Workspaces) -> None:
    path = (await workspaces.create("s-1", 16)).path
    numbers = count()
    refused = until_refused(lambda: (path / str(next(numbers))).touch())
    assert refused.errno == errno.ENOSPC
    assert next(numbers) < 2000
    (path / "0").unlink()
    (path / "again").touch()


async def test_a_removed_workspace_is_gone_with_its_device(workspaces: Workspaces, root: Path) -> None:
    path = (await workspaces.create("s-1", 16)).path
    (path / "file").write_bytes(b"x" * MEGABYTE)
    assert len(loop_devices_of(root)) == 1
    assert MEGABYTE <= await workspaces.remove("s-1") < MEGABYTE + 65536
    assert mounts_of(root) == []
    assert soon(lambda: loop_devices_of(root) == [])
    assert list(root.iterdir()) == []
    assert await workspaces.remove("s-1") == 0, "once more is no fault"


async def test_removing_follows_nothing_that_lies_inside(workspaces: Workspaces, root: Path) -> None:
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "file").touch()
    path = (await workspaces.create("s-1", 16)).path
    (path / "link").symlink_to(outside, target_is_directory=True)
    (path / "file").symlink_to(outside / "file")
    await workspaces.remove("s-1")
    assert not path.exists()
    (outside / "file").unlink()
    outside.rmdir()


async def test_a_workspace_in_use_is_removed_all_the_same(workspaces: Workspaces, root: Path) -> None:
    path = (await workspaces.create("s-1", 16)).path
    with held_open(path / "file") as file:
        file.write(b"x")
        await workspaces.remove("s-1")
        assert mounts_of(root) == []
        assert list(root.iterdir()) == []
    assert soon(lambda: loop_devices_of(root) == [])


async def test_what_someone_else_mounted_there_stays_as_it_is(
    workspaces: Workspaces, root: Path
) -> None:
    path = (await workspaces.create("s-1", 16)).path
    (path / "file").write_text("kept")
    (root / "s-2").mkdir()
    mount("--bind", path, root / "s-2")
    await workspaces.remove("s-2")
    assert mounts_of(root) == [str(path)]
    assert (path / "file").read_text() == "kept"
    (path / "more").write_text("it still works")


async def test_a_sweep_removes_what_belongs_to_no_session(workspaces: Workspaces, root: Path) -> None:
    for id in ("s-known", "s-unknown", "s-unmounted"):
        (await workspaces.create(id, 16)).path.joinpath("file").write_text(id)
    await workspaces.close(in_use={"s-known", "s-unknown"})
    (root / "s-plain").mkdir()
    (root / "s-orphan.img").write_bytes(b"not an image")
    await workspaces.sweep({"s-known"}.__contains__)
    assert mounts_of(root) == [str(root / "s-known")]
    assert soon(lambda: len(loop_devices_of(root)) == 1)
    assert sorted(path.name for path in root.iterdir()) == ["s-known", "s-known.img"]
    assert (root / "s-known/file").read_text() == "s-known"


async def test_the_next_gateway_finds_a_workspace_as_it_was(workspaces: Workspaces, root: Path) -> None:
    path = (await workspaces.create("s-1", 16)).path
    (path / "file").write_text("kept")
    after = Workspaces(root)
    await after.prepare()
    await after.sweep({"s-1"}.__contains__)
    assert (await after.open("s-1")).path == path
    assert mounts_of(root) == [str(path)], "it is mounted once"
    assert (path / "file").read_text() == "kept"


async def test_a_workspace_that_is_not_mounted_is_mounted_when_it_is_opened(
    workspaces: Workspaces, root: Path
) -> None:
    path = (await workspaces.create("s-1", 16)).path
    (path / "file").write_text("kept")
    await workspaces.close(in_use=set())
    assert mounts_of(root) == []
    assert soon(lambda: loop_devices_of(root) == [])
    assert (await workspaces.open("s-1")).path == path
    assert (path / "file").read_text() == "kept"
    assert size(path) <= 16 * MEGABYTE
    fill(path / "bomb")


async def test_an_image_that_a_sandbox_still_uses_is_not_mounted_as_another(
    workspaces: Workspaces, root: Path
) -> None:
    """As when the gateway's mounts went with the namespace it ran in."""
    path = (await workspaces.create("s-1", 16)).path
    inside = root.parent / "inside"
    inside.mkdir()
    mount("--bind", path, inside)
    await workspaces.close(in_use=set())
    await workspaces.open("s-1")
    (inside / "file").write_text("from inside")
    assert (path / "file").read_text() == "from inside"
    assert path.stat().st_dev == inside.stat().st_dev
    unmount(inside)
    inside.rmdir()


async def test_a_damaged_image_is_an_error_and_can_be_removed(
    workspaces: Workspaces, root: Path
) -> None:
    await workspaces.create("s-1", 16)
    await workspaces.close(in_use=set())
    assert soon(lambda: loop_devices_of(root) == []), "else what is on the device still counts"
    (root / "s-1.img").write_bytes(bytes(16 * MEGABYTE))
    with pytest.raises(SandboxFailed, match="cannot be used"):
        await workspaces.open("s-1")
    await workspaces.remove("s-1")
    assert list(root.iterdir()) == []


async def test_a_workspace_grows_while_it_is_in_use_or_stays_as_it_was(
    workspaces: Workspaces, root: Path
) -> None:
    path = (await workspaces.create("s-1", 16)).path
    with held_open(path / "file") as file:
        grown = await workspaces.grow("s-1", 64)
        file.write(b"kept")
    assert grown == may_grow()
    most = 64 if grown else 16
    assert 0.75 * most * MEGABYTE < size(path) <= most * MEGABYTE
    assert (root / "s-1.img").stat().st_size == most * MEGABYTE
    assert (path / "file").read_text() == "kept"
    assert await workspaces.grow("s-1", most)
    assert not await workspaces.grow("s-1", most - 1), "it never shrinks"
    assert fill(path / "bomb") <= most * MEGABYTE


async def test_a_workspace_grows_at_rest(workspaces: Workspaces, root: Path) -> None:
    path = (await workspaces.create("w-1", 16)).path
    (path / "file").write_bytes(b"x" * MEGABYTE)
    assert (await workspaces.used("w-1") or 0) >= MEGABYTE
    assert (await workspaces.rest("w-1") or 0) >= MEGABYTE
    assert mounts_of(root) == []
    assert soon(lambda: loop_devices_of(root) == [])
    assert await workspaces.used("w-1") is None, "which is only known while it is open"
    assert await workspaces.rest("w-1") is None
    assert await workspaces.grow("w-1", 64)
    assert not await workspaces.grow("w-1", 32), "it never shrinks"
    assert (await workspaces.open("w-1")).path == path
    assert 48 * MEGABYTE < size(path) <= 64 * MEGABYTE
    assert (path / "file").read_bytes() == b"x" * MEGABYTE


async def test_a_workspace_does_not_grow_behind_the_back_of_who_still_has_it(
    workspaces: Workspaces, root: Path
) -> None:
    """As a container that has just ended does for a moment, in a mount namespace of its own."""
    await workspaces.create("w-1", 16)
    holding = await asyncio.create_subprocess_exec(
        *("unshare", "--mount", "--propagation", "private", "cat"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert holding.stdin is not None
    assert holding.stdout is not None
    holding.stdin.write(b"?")
    assert await holding.stdout.read(1) == b"?"
    await workspaces.rest("w-1")
    assert mounts_of(root) == []
    assert loop_devices_of(root) != []
    growing = asyncio.create_task(workspaces.grow("w-1", 64))
    await asyncio.sleep(0.5)
    assert not growing.done()
    assert (root / "w-1.img").stat().st_size == 16 * MEGABYTE
    holding.stdin.close()
    await holding.wait()
    assert await growing
    path = (await workspaces.open("w-1")).path
    assert 48 * MEGABYTE < size(path) <= 64 * MEGABYTE


async def test_a_damaged_workspace_stays_as_large_as_it_was(workspaces: Workspaces, root: Path) -> None:
    await workspaces.create("w-1", 16)
    await workspaces.rest("w-1")
    assert soon(lambda: loop_devices_of(root) == [])
    (root / "w-1.img").write_bytes(bytes(16 * MEGABYTE))
    assert not await workspaces.grow("w-1", 64)
    assert (root / "w-1.img").stat().st_size == 16 * MEGABYTE


async def test_a_workspace_that_cannot_be_made_leaves_nothing(
    workspaces: Workspaces, root: Path
) -> None:
    root.mkdir()
    mount("--types", "tmpfs", "--options", "size=16k", "tmpfs", root)
    try:
        with pytest.raises(SandboxFailed, match=r"no disk: mkfs\.ext4 failed"):
            await workspaces.create("s-1", 16)
        assert list(root.iterdir()) == []
        assert mounts_of(root) == []
    finally:
        unmount(root)


async def test_a_workspace_that_nobody_waits_for_leaves_nothing(
    workspaces: Workspaces, root: Path
) -> None:
    making = asyncio.create_task(workspaces.create("s-1", 16))
    await asyncio.sleep(0)
    making.cancel()
    with pytest.raises(asyncio.CancelledError):
        await making
    assert mounts_of(root) == []
    assert list(root.iterdir()) == []


async def test_an_id_that_is_taken_harms_nobody(workspaces: Workspaces) -> None:
    path = (await workspaces.create("s-1", 16)).path
    (path / "file").write_text("kept")
    with pytest.raises(FileExistsError):
        await workspaces.create("s-1", 16)
    assert (path / "file").read_text() == "kept"
