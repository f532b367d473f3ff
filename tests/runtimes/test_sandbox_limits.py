"""A sandbox keeps to its limits, whoever enforces them."""

from __future__ import annotations

import asyncio
import math
import os
import re
from pathlib import Path

import pytest
from msgspec.structs import replace
from probing import SMALL, Probe, StartProbe

from interpreter.models import Limits

ISOLATIONS = ["bubblewrap", "none"]
GROUPS = [True, False]
"""Whether the gateway may make control groups; without, resource limits take their place."""

BOUNDED = [("bubblewrap", True), ("bubblewrap", False), ("none", True)]
"""Where the number of processes is limited; a plain process of root without a group is not."""
if os.geteuid():
    BOUNDED.append(("none", False))


def grouped(probe: Probe) -> bool:
    return probe.sandbox.limits_enforced_by == "cgroup"


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("allowed", GROUPS)
async def test_a_memory_hog_is_stopped_and_the_reason_is_told(
    start: StartProbe, isolation: str, allowed: bool
) -> None:
    probe = await start(isolation=isolation, grouped=allowed)
    if not grouped(probe):
        with pytest.raises(RuntimeError, match="MemoryError"):
            await probe.run("x = bytearray(3 << 30)")
        return
    with pytest.raises(EOFError):
        await probe.run("x = bytearray(1 << 30)")
    assert re.fullmatch(r"out of memory: 25\d MB used of the limit of 256 MB", await probe.ended())
    assert await probe.runtime.out_of_memory(probe.sandbox) >= 1


async def test_a_killed_child_is_counted_and_the_sandbox_goes_on(start: StartProbe) -> None:
    probe = await start()
    assert await probe.runtime.out_of_memory(probe.sandbox) == 0
    hog = "import subprocess, sys;"
    hog += "result = subprocess.run([sys.executable, '-c', 'x = bytearray(3 << 30)']).returncode"
    # Without control groups nothing is killed: the allocation fails.
    assert await probe.run(hog) == (-9 if grouped(probe) else 1)
    assert await probe.runtime.out_of_memory(probe.sandbox) == (1 if grouped(probe) else 0)
    assert await probe.run("result = 1 + 1") == 2


@pytest.mark.parametrize(("isolation", "allowed"), BOUNDED)
async def test_a_fork_bomb_is_bounded(start: StartProbe, isolation: str, allowed: bool) -> None:
    probe = await start(isolation=isolation, grouped=allowed)
    bomb = """
import os, time
result = 0
while result < 1000:
    try:
        pid = os.fork()
    except OSError:
        break
    if not pid:
        time.sleep(100)
    result += 1
"""
    # A plain process without a group shares its count with what else its user runs.
    counted_alone = isolation == "bubblewrap" or grouped(probe)
    assert 0 < await probe.run(bomb) < (SMALL.processes if counted_alone else 1000)
    await probe.runtime.stop(probe.sandbox)


@pytest.mark.parametrize("isolation", ISOLATIONS)
async def test_a_file_cannot_grow_beyond_its_limit(start: StartProbe, isolation: str) -> None:
    probe = await start(isolation=isolation)
    with pytest.raises(RuntimeError, match="File too large"):
        await probe.run("import os; os.truncate(os.open('big', os.O_CREAT | os.O_RDWR), 9 << 20)")
    await probe.run("open('fits', 'wb').write(b'x' * (8 << 20))")


async def test_the_log_cannot_grow_beyond_the_limit_of_a_file(start: StartProbe) -> None:
    probe = await start()
    with pytest.raises(RuntimeError, match="File too large"):
        await probe.run("import os\nwhile True: os.write(2, b'x' * (1 << 20))")
    assert Path(probe.sandbox.handle["run"], "log").stat().st_size == 8 << 20


async def test_it_writes_no_core_dump_and_opens_few_files(start: StartProbe) -> None:
    probe = await start()
    code = "from resource import *; result = [getrlimit(RLIMIT_CORE), getrlimit(RLIMIT_NOFILE)[1]]"
    core, open_files = await probe.run(code)
    assert core == [0, 0]
    assert open_files <= 4096


@pytest.mark.parametrize("allowed", GROUPS)
async def test_processor_time_is_limited(start: StartProbe, allowed: bool) -> None:
    probe = await start(replace(SMALL, cpus=0.5), grouped=allowed)
    if not grouped(probe):
        cores = await probe.run("import os; result = len(os.sched_getaffinity(0))")
        assert cores == math.ceil(0.5)
        return
    before = await probe.runtime.usage(probe.sandbox)
    busy = "import time; end = time.monotonic() + 1\nwhile time.monotonic() < end: pass"
    await asyncio.gather(probe.run(busy), probe.run(busy))
    after = await probe.runtime.usage(probe.sandbox)
    assert before is not None
    assert after is not None
    assert after.cpu_seconds - before.cpu_seconds < 0.85


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("allowed", GROUPS)
async def test_use_is_told(start: StartProbe, isolation: str, allowed: bool) -> None:
    probe = await start(isolation=isolation, grouped=allowed)
    await probe.run("import builtins; builtins.kept = bytearray(50 << 20); sum(range(10**6))")
    usage = await probe.runtime.usage(probe.sandbox)
    assert usage is not None
    assert usage.cpu_seconds > 0
    assert 50 << 20 < usage.memory_bytes < 200 << 20
    assert 1 < usage.processes < 20
    if grouped(probe):
        assert usage.memory_peak_bytes is None or usage.memory_peak_bytes > 50 << 20
    await probe.runtime.stop(probe.sandbox)
    assert await probe.runtime.usage(probe.sandbox) is None


async def test_a_spare_takes_other_limits_or_says_that_it_cannot(start: StartProbe) -> None:
    probe = await start()
    limit = probe.runtime.limit
    longer = replace(SMALL, cell_seconds=1000)
    same = await limit(probe.sandbox, longer)
    assert same is not None
    assert same.limits == longer
    assert await limit(probe.sandbox, replace(SMALL, file_mb=16)) is None
    more = await limit(probe.sandbox, replace(SMALL, memory_mb=512, processes=32))
    if not grouped(probe):
        assert more is None
        return
    assert more is not None
    await probe.run("import builtins; builtins.kept = bytearray(300 << 20)")
    assert await limit(more, replace(SMALL, memory_mb=64)) is None
    threads = "import threading, time\n"
    threads += "for i in range(40): threading.Thread(target=time.sleep, args=[5], daemon=True).start()"
    with pytest.raises(RuntimeError, match="can't start new thread"):
        await probe.run(threads)


async def test_every_limit_of_a_default_session_fits_a_sandbox(start: StartProbe) -> None:
    probe = await start(Limits())
    code = "import numpy, pandas; result = int(numpy.ones((500, 500)).dot(numpy.ones((500, 500)))[0, 0])"
    assert await probe.run(code) == 500
