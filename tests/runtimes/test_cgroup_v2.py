"""Version 2 of control groups: which files are written with what.

Machines that test this may have version 1 only, where the sandboxes' limits are tested for real.
So these tests write to a folder that looks like a tree of version 2, and show no more than that
the right values end up in the right files.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from interpreter.models import Limits, Usage
from interpreter.runtimes import cgroup_v2, enforcement
from interpreter.runtimes.cgroup_v2 import GroupV2, HierarchyV2, candidates

FILES = {
    "memory.max": "max",
    "memory.swap.max": "max",
    "memory.current": "73400320",
    "memory.peak": "94371840",
    "memory.stat": "anon 1000\ninactive_file 10485760\n",
    "memory.events": "low 0\nhigh 0\nmax 12\noom 2\noom_kill 2\noom_group_kill 0\n",
    "cpu.max": "max 100000",
    "cpu.stat": "usage_usec 1500000\nuser_usec 1000000\n",
    "pids.max": "max",
    "pids.current": "7",
    "io.stat": "8:0 rbytes=4096 wbytes=8192 rios=1 wios=2\n8:16 rbytes=1 wbytes=2 rios=1 wios=1\n",
    "cgroup.procs": "",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for folder in (tmp_path, tmp_path / "interpreter"):
        folder.mkdir(exist_ok=True)
        (folder / "cgroup.subtree_control").write_text("")
    box = tmp_path / "interpreter" / "box"
    box.mkdir()
    for name, content in FILES.items():
        (box / name).write_text(content)
    return tmp_path


def test_all_limits_are_written(tree: Path) -> None:
    limits = Limits(memory_mb=512, cpus=1.5, processes=100)
    group = HierarchyV2(tree).create("box", limits)
    box = tree / "interpreter" / "box"
    assert group.directories == {"all": box}
    assert (box / "memory.max").read_text() == str(512 * 1024 * 1024)
    assert (box / "memory.swap.max").read_text().startswith("0")
    assert (box / "cpu.max").read_text() == "30000 20000"
    assert (box / "pids.max").read_text() == "100"


def test_controllers_are_passed_on_by_both_groups_above(tree: Path) -> None:
    HierarchyV2(tree).create("box", Limits())
    for folder in (tree, tree / "interpreter"):
        # A real control file takes each write as a command; this one keeps the last.
        assert (folder / "cgroup.subtree_control").read_text().startswith("+io")


def test_transfers_need_not_be_counted(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[object] = []

    def write(path: Path, value: object) -> None:
        written.append(value)
        if value == "+io":
            raise OSError("no such controller here")

    monkeypatch.setattr(cgroup_v2, "write", write)
    HierarchyV2(tree).create("box", Limits())
    assert {"+memory", "+cpu", "+pids", "+io"} <= {w for w in written if isinstance(w, str)}
    (tree / "interpreter" / "box" / "io.stat").unlink()
    usage = GroupV2({"all": tree / "interpreter" / "box"}).usage()
    assert (usage.read_bytes, usage.written_bytes) == (None, None)


def test_older_kernels_know_no_peak(tree: Path) -> None:
    (tree / "interpreter" / "box" / "memory.peak").unlink()
    assert GroupV2({"all": tree / "interpreter" / "box"}).usage().memory_peak_bytes is None


def test_use_and_kills_are_read(tree: Path) -> None:
    group = GroupV2({"all": tree / "interpreter" / "box"})
    assert group.usage() == Usage(
        cpu_seconds=1.5,
        memory_bytes=60 * 1024 * 1024,
        processes=7,
        memory_peak_bytes=90 * 1024 * 1024,
        read_bytes=4097,
        written_bytes=8194,
    )
    assert group.oom_kills() == 2


def test_less_memory_than_is_in_use_is_refused(tree: Path) -> None:
    with pytest.raises(OSError, match="more memory is in use"):
        GroupV2({"all": tree / "interpreter" / "box"}).apply(Limits(memory_mb=64))


def test_the_nearest_group_is_tried_first() -> None:
    mount = Path("/sys/fs/cgroup")
    assert candidates(mount, "/a/b") == [mount / "a" / "b", mount / "a", mount]
    assert candidates(mount, "/") == [mount]


def test_a_handle_leads_back_to_the_group(tree: Path) -> None:
    group = GroupV2({"all": tree / "interpreter" / "box"})
    again = enforcement.group_of(enforcement.describe(group))
    assert isinstance(again, GroupV2)
    assert again.directories == group.directories
