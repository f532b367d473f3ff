"""The groups of a process are found, whoever put it there."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from probing import StartProbe

from interpreter.runtimes import cgroup_v2, enforcement
from interpreter.runtimes.cgroup import Mount
from interpreter.runtimes.cgroup_v2 import GroupV2
from interpreter.runtimes.group_meter import GroupMeter
from interpreter.runtimes.handle import Handle
from interpreter.runtimes.membership import group_of_process


async def test_the_group_of_a_sandbox_is_found_by_its_process(start: StartProbe) -> None:
    probe = await start()
    await probe.run("result = 1")
    handle = Handle.of(probe.sandbox.handle)
    assert handle.process is not None
    made = enforcement.group_of(handle.group)
    found = group_of_process(handle.process.pid)
    if made is None:
        return
    assert found is not None
    assert (found.version, found.directories) == (made.version, made.directories)
    usage = found.usage()
    assert usage.processes > 1
    assert usage.memory_bytes > 0
    meter = GroupMeter(found.gauges())
    meter.begin()
    assert meter.end() is not None
    meter.close()


def test_a_process_that_is_gone_has_no_group() -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    assert group_of_process(ended.pid) is None


def test_a_group_of_version_2_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder that looks like a tree of version 2."""
    monkeypatch.setattr(cgroup_v2, "mounts", lambda kind: [Mount(tmp_path, "/", ["rw"])])
    box = tmp_path / "docker" / "box"
    box.mkdir(parents=True)
    assert cgroup_v2.of_process("/docker/box") is None, "it has no controllers"
    (box / "memory.current").touch()
    (box / "pids.current").touch()
    found = cgroup_v2.of_process("/docker/box")
    assert isinstance(found, GroupV2)
    assert found.directory == box
    assert cgroup_v2.of_process("/") is None, "the figures of a whole machine are nobody's"
    assert cgroup_v2.of_process("/../docker/box") is None, "outside of what can be seen"


@pytest.mark.parametrize(
    ("root", "path", "seen"),
    [
        ("/", "/a/b", "a/b"),
        ("/a", "/a/b", "b"),
        ("/a", "/a", None),
        ("/a", "/ab/c", None),
        ("/a", "/", None),
        ("/", "/../a", None),
    ],
)
def test_a_part_of_a_tree_may_be_mounted(root: str, path: str, seen: str | None) -> None:
    point = Path("/sys/fs/cgroup")
    expected = None if seen is None else point / seen
    assert Mount(point, root, []).place_of(path) == expected
