"""A workspace put over another: seen by whoever follows, as its own, and gone without a trace."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from interpreter.workspace import Workspaces
from interpreter.workspace.mount_over import mount_over
from tests.mounts import loop_devices_of, mount, mounts_of, soon, unmount

OWNER, SANDBOX = 0x70000001, 0x70000002


@pytest.fixture
def inside(tmp_path: Path) -> Iterator[Path]:
    """Where a sandbox has its workspace."""
    path = tmp_path / "inside"
    path.mkdir()
    yield path
    while path.is_mount():
        unmount(path)
    path.rmdir()


async def two(workspaces: Workspaces, inside: Path, owner: int) -> tuple[Path, Path]:
    """A named workspace with a file in it, and that of a spare, which is followed."""
    named, spare = [(await workspaces.create(id, 16)).path for id in ("w-1", "s-1")]
    os.chown(spare, SANDBOX, SANDBOX)
    (named / "file").write_text("here")
    for path in (named, named / "file"):
        os.chown(path, owner, owner)
    mount("--bind", spare, inside)
    mount("--make-rslave", inside)
    return named, spare


def as_user(uid: int, script: str, path: Path) -> str:
    words = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "sh", "-c", script]
    return subprocess.run(words, cwd=path, capture_output=True, text=True, check=False).stdout


@pytest.mark.parametrize("owner", [OWNER, SANDBOX])
async def test_whoever_follows_sees_it_as_its_own(
    workspaces: Workspaces, inside: Path, owner: int
) -> None:
    named, spare = await two(workspaces, inside, owner)
    seen = mount_over(named, spare, read_only=False)
    now = inside.stat()
    assert (now.st_dev, now.st_ino) == seen == (named.stat().st_dev, named.stat().st_ino)
    assert (now.st_uid, now.st_gid) == (SANDBOX, SANDBOX)
    assert (inside / "file").stat().st_uid == SANDBOX
    assert as_user(SANDBOX, "cat file; echo more > new; cat new", inside) == "heremore\n"
    assert (named / "new").stat().st_uid == owner, "on the disk it belongs to whom all of it does"
    assert as_user(OWNER + 7, "cat file", inside) == ""
    await workspaces.remove("s-1")
    assert not [path for path in mounts_of(spare.parent) if "s-1" in path]
    assert (named / "file").read_text() == "here"


async def test_what_is_read_only_stays_so(workspaces: Workspaces, inside: Path) -> None:
    named, spare = await two(workspaces, inside, OWNER)
    mount_over(named, spare, read_only=True)
    assert as_user(SANDBOX, "cat file; echo x > new", inside) == "here"
    with pytest.raises(OSError, match="Read-only"):
        (inside / "new").touch()
    (named / "new").touch()
    assert (inside / "new").exists(), "others write meanwhile"
    await workspaces.remove("s-1")


async def test_to_remove_the_lower_one_harms_not_the_upper(
    workspaces: Workspaces, inside: Path, root: Path
) -> None:
    """As when a gateway that was killed finds a spare that nobody knows."""
    named, spare = await two(workspaces, inside, OWNER)
    mount_over(named, spare, read_only=False)
    (inside / "file").write_text("written through the upper")
    await workspaces.sweep(lambda id: id == "w-1")
    assert not spare.exists()
    assert not inside.joinpath("file").exists(), "it went inside, too"
    assert (named / "file").read_text() == "written through the upper"
    (named / "more").write_text("x")
    unmount(inside)
    assert soon(lambda: not [device for device in loop_devices_of(root) if "s-1" in device])


async def test_what_cannot_be_mounted_is_an_error_and_leaves_nothing(
    workspaces: Workspaces, inside: Path, root: Path
) -> None:
    named, spare = await two(workspaces, inside, OWNER)
    with pytest.raises(OSError, match="No such file"):
        mount_over(root / "nothing", spare, read_only=False)
    before = mounts_of(root)
    with pytest.raises(OSError, match=r"Not a directory|Invalid"):
        mount_over(named, spare.parent / "s-1.img", read_only=False)
    assert mounts_of(root) == before
