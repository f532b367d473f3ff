"""What is measured while a cell runs: on real groups, and on folders that look like groups.

The look-alikes stand for kernels that the machine does not have: version 2 of control groups,
kernels whose mark of the highest memory cannot be reset, and block devices that are counted.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from probing import StartProbe

from interpreter.models import ExecutionUsage
from interpreter.runtimes import cgroup_v1
from interpreter.runtimes.cgroup_v1 import GroupV1
from interpreter.runtimes.cgroup_v2 import GroupV2
from interpreter.runtimes.group_meter import GroupMeter

MEGABYTE = 1024 * 1024
V1_IO = "blkio.throttle.io_service_bytes_recursive"


def write(folder: Path, **files: str) -> None:
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_text(content)


@pytest.fixture
def v2(tmp_path: Path) -> Path:
    write(tmp_path, cpu__stat="usage_usec 1500000\nuser_usec 1000000\n", memory__peak="300000000\n")
    write(tmp_path, io__stat="8:0 rbytes=100 wbytes=200 rios=1 wios=1 dbytes=0 dios=0\n")
    return tmp_path


@pytest.fixture
def v1(tmp_path: Path) -> Path:
    write(tmp_path, cpuacct__usage="1500000000\n", memory__max_usage_in_bytes="300000000\n")
    write(tmp_path, memory__memsw__max_usage_in_bytes="400000000\n")
    (tmp_path / V1_IO).write_text("8:0 Read 100\n8:0 Write 200\n8:0 Total 300\nTotal 300\n")
    return tmp_path


def group_v1(folder: Path) -> GroupV1:
    return GroupV1(dict.fromkeys(("memory", "cpu", "pids", "cpuacct", "blkio"), folder))


def old_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> int:
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "pwrite", refuse)


async def test_what_runs_between_begin_and_end_is_measured(start: StartProbe) -> None:
    probe = await start()
    meter = await probe.runtime.meter(probe.sandbox)
    if probe.sandbox.limits_enforced_by != "cgroup":
        assert meter is None
        return
    assert meter is not None
    meter.begin()
    await probe.run("x = bytearray(100 << 20); sum(range(3 * 10**6)); del x")
    large = meter.end()
    meter.begin()
    await probe.run("result = 1")
    small = meter.end()
    assert large is not None
    assert small is not None
    assert large.cpu_seconds > small.cpu_seconds >= 0
    if large.memory_peak_bytes is not None and small.memory_peak_bytes is not None:
        assert large.memory_peak_bytes > 100 << 20 > small.memory_peak_bytes
    usage = await probe.runtime.usage(probe.sandbox)
    assert usage is not None
    assert usage.memory_peak_bytes is None or usage.memory_peak_bytes > 100 << 20
    meter.close()


async def test_without_a_group_nothing_is_measured(start: StartProbe) -> None:
    probe = await start(grouped=False)
    assert await probe.runtime.meter(probe.sandbox) is None
    usage = await probe.runtime.usage(probe.sandbox)
    assert usage is not None
    assert (usage.memory_peak_bytes, usage.read_bytes, usage.written_bytes) == (None, None, None)


async def test_a_group_that_is_gone_is_no_error(start: StartProbe) -> None:
    probe = await start()
    meter = await probe.runtime.meter(probe.sandbox)
    if meter is not None:
        meter.begin()
    await probe.runtime.stop(probe.sandbox)
    if meter is not None:
        assert meter.end() is None
        meter.begin()
        assert meter.end() is None
        meter.close()
    assert await probe.runtime.meter(probe.sandbox) is None


def test_version_2_counts_from_the_beginning_of_the_cell(v2: Path) -> None:
    meter = GroupMeter(GroupV2({"all": v2}).gauges())
    meter.begin()
    assert (v2 / "memory.peak").read_text().startswith("0"), "the mark was reset"
    write(v2, cpu__stat="usage_usec 1750000\nuser_usec 1\n", memory__peak="200000000\n")
    write(v2, io__stat="8:0 rbytes=110 wbytes=220 rios=1\n8:16 rbytes=1000 wbytes=2000 rios=1\n")
    assert meter.end() == ExecutionUsage(
        cpu_seconds=0.25, memory_peak_bytes=200_000_000, read_bytes=1010, written_bytes=2020
    )
    meter.close()


def test_version_1_counts_from_the_beginning_of_the_cell(v1: Path) -> None:
    meter = GroupMeter(group_v1(v1).gauges())
    meter.begin()
    assert (v1 / "memory.max_usage_in_bytes").read_text().startswith("0"), "the mark was reset"
    assert (v1 / "memory.memsw.max_usage_in_bytes").read_text() == "400000000\n", "the session's was not"
    write(v1, cpuacct__usage="1750000000\n", memory__max_usage_in_bytes="200000000\n")
    (v1 / V1_IO).write_text("8:0 Read 110\n8:0 Write 220\n8:0 Total 330\nTotal 330\n")
    assert meter.end() == ExecutionUsage(
        cpu_seconds=0.25, memory_peak_bytes=200_000_000, read_bytes=10, written_bytes=20
    )
    meter.close()


@pytest.mark.parametrize("version", [1, 2])
def test_a_peak_that_cannot_be_reset_is_told_only_if_it_rose(
    v1: Path, v2: Path, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if version == 2:
        old_kernel(monkeypatch)
        gauges, mark = GroupV2({"all": v2}).gauges(), v2 / "memory.peak"
    else:
        (v1 / "memory.memsw.max_usage_in_bytes").unlink()
        gauges, mark = group_v1(v1).gauges(), v1 / "memory.max_usage_in_bytes"
    meter = GroupMeter(gauges)
    meter.begin()
    assert mark.read_text() == "300000000\n"
    unchanged = meter.end()
    assert unchanged is not None
    assert unchanged.memory_peak_bytes is None
    meter.begin()
    mark.write_text("300000001\n")
    risen = meter.end()
    assert risen is not None
    assert risen.memory_peak_bytes == 300_000_001
    meter.close()


def test_what_nobody_counts_is_null(v2: Path) -> None:
    (v2 / "memory.peak").unlink()
    (v2 / "io.stat").unlink()
    meter = GroupMeter(GroupV2({"all": v2}).gauges())
    meter.begin()
    assert meter.end() == ExecutionUsage(cpu_seconds=0.0)
    meter.close()


def test_only_a_cell_that_began_is_measured_and_none_after_closing(v2: Path) -> None:
    meter = GroupMeter(GroupV2({"all": v2}).gauges())
    assert meter.end() is None
    meter.begin()
    assert meter.end() is not None
    assert meter.end() is None
    meter.begin()
    meter.close()
    meter.close()
    assert meter.end() is None
    meter.begin()
    assert meter.end() is None


def test_a_meter_leaves_no_file_open(v2: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gauges = GroupV2({"all": v2}).gauges()
    before = os.listdir("/proc/self/fd")
    GroupMeter(gauges).close()
    (v2 / "memory.peak").unlink()
    with pytest.raises(FileNotFoundError):
        GroupMeter(gauges)
    assert os.listdir("/proc/self/fd") == before


def test_devices_are_counted_only_where_the_tree_names_one(tmp_path: Path) -> None:
    assert not cgroup_v1.counts(tmp_path)
    (tmp_path / V1_IO).write_text("Total 0\n")
    assert not cgroup_v1.counts(tmp_path)
    (tmp_path / V1_IO).write_text("8:0 Read 0\n8:0 Write 0\n8:0 Total 0\nTotal 0\n")
    assert cgroup_v1.counts(tmp_path)
