"""A sandbox from its start to its end, and what is left of it: nothing."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from probing import HERE, SMALL, Probe, StartProbe, prepared, unique_id

from interpreter.errors import SandboxFailed, UnknownEnvironment
from interpreter.models import Limits
from interpreter.runtimes import process
from interpreter.runtimes.base import Sandbox

ISOLATIONS = ["bubblewrap", "none"]


def commands_with(text: str) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if text in path.read_text() and int(path.parent.name) != os.getpid():
                found.append(int(path.parent.name))
    return found


def groups(sandbox: str) -> set[Path]:
    return set(Path("/sys/fs/cgroup").glob(f"**/interpreter/{sandbox}"))


@contextlib.contextmanager
def sleeping() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"]) as stranger:
        try:
            yield stranger
        finally:
            stranger.kill()


@pytest.mark.parametrize("isolation", ISOLATIONS)
async def test_it_says_with_which_code_and_words_it_ended(start: StartProbe, isolation: str) -> None:
    probe = await start(isolation=isolation)
    waiters = [asyncio.create_task(probe.ended()) for _ in range(3)]
    with pytest.raises(EOFError):
        await probe.run("import os; os.write(2, b'first\\nthe last words\\n'); os._exit(3)")
    reasons = set(await asyncio.gather(*waiters))
    assert len(reasons) == 1
    assert reasons.pop().startswith("exited with code 3: first\nthe last words")
    assert not await probe.runtime.find(probe.sandbox)


@pytest.mark.parametrize("isolation", ISOLATIONS)
async def test_it_says_which_signal_killed_it(start: StartProbe, isolation: str) -> None:
    probe = await start(isolation=isolation)
    with pytest.raises(EOFError):
        await probe.run("import ctypes; ctypes.string_at(0)")
    assert (await probe.ended()).startswith("killed by SIGSEGV")


async def test_nothing_inside_can_kill_its_first_process(start: StartProbe) -> None:
    probe = await start(isolation="bubblewrap")
    kill = "import os; os.system('kill -9 1'); os.kill(1, 15); result = os.getpid()"
    assert await probe.run(kill) == 1
    assert await probe.run("result = 1 + 1") == 2


@pytest.mark.parametrize("isolation", ISOLATIONS)
async def test_stopping_leaves_nothing(start: StartProbe, isolation: str, tmp_path: Path) -> None:
    def on_host() -> tuple[object, ...]:
        mounts = Path("/proc/self/mountinfo").read_text()
        return mounts, len(os.listdir("/proc/self/fd"))

    (tmp_path / "data").mkdir()
    before = on_host()
    probe = await start(isolation=isolation)
    await probe.run("""
import os, subprocess
open('kept', 'w').write('by the user')
os.makedirs(os.environ['TMPDIR'] + '/closed/inner')
os.chmod(os.environ['TMPDIR'] + '/closed', 0)
for session in (False, True):
    subprocess.Popen(['sh', '-c', 'sleep 1234567 & sleep 1234567'], start_new_session=session)
""")
    waiter = asyncio.create_task(probe.ended())
    await asyncio.sleep(0)
    await probe.runtime.stop(probe.sandbox)
    assert await waiter in ("stopped", "killed", "killed by SIGKILL")
    assert list((tmp_path / "data" / "run").iterdir()) == []
    assert commands_with("1234567") == []
    assert commands_with(str(tmp_path)) == []
    assert groups(probe.sandbox.id) == set()
    assert on_host() == before
    assert (probe.workspace / "kept").read_text() == "by the user"
    await probe.runtime.stop(probe.sandbox)


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("grouped", [True, False])
async def test_all_of_it_can_be_ended_when_its_keeper_is_gone(
    start: StartProbe, isolation: str, grouped: bool
) -> None:
    probe = await start(isolation=isolation, grouped=grouped)
    await probe.run("""
import subprocess
child = subprocess.Popen(['sh', '-c', 'echo; sleep 7654321'], stdout=subprocess.PIPE)
child.stdout.readline()
""")
    running = [process.identify(pid) for pid in commands_with("7654321")]
    assert running
    os.kill(probe.sandbox.handle["process"]["pid"], signal.SIGKILL)
    assert await probe.ended() == "killed by SIGKILL"
    await probe.runtime.stop(probe.sandbox)
    assert not any(process.alive(identity) for identity in running if identity)


STARTER = """
import asyncio, json, sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from probing import SMALL, prepared, unique_id

async def main():
    runtime = await prepared(Path(sys.argv[2]), sys.argv[4])
    sandbox = await runtime.start(unique_id(), "python", SMALL, Path(sys.argv[3]))
    print("STARTED " + json.dumps({**vars(sandbox), "limits": None}), flush=True)
    time.sleep(60)

asyncio.run(main())
"""


@pytest.mark.parametrize("isolation", ISOLATIONS)
async def test_it_outlives_its_starter_and_is_found_again(tmp_path: Path, isolation: str) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    data = tmp_path / "data"
    command = [sys.executable, "-c", STARTER, str(HERE), str(data), str(workspace), isolation]
    starter = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert starter.stdout is not None
    said = await starter.stdout.readline()
    starter.kill()
    await starter.wait()
    sandbox = Sandbox(**{**json.loads(said.removeprefix(b"STARTED ")), "limits": SMALL})
    runtime = await prepared(data, isolation)
    try:
        assert await runtime.find(sandbox)
        await runtime.sweep({sandbox.id})
        probe = Probe(runtime, sandbox, workspace)
        assert await probe.run("result = 6 * 7") == 42
        with pytest.raises(EOFError):
            await probe.run("import os; os._exit(5)")
        assert (await probe.ended()).startswith("exited with code 5")
        assert not await runtime.find(sandbox)
    finally:
        await runtime.stop(sandbox)


@pytest.mark.parametrize("isolation", ISOLATIONS)
async def test_a_sandbox_nobody_knows_is_swept_away(start: StartProbe, isolation: str) -> None:
    kept, lost = await start(isolation=isolation), await start(isolation=isolation)
    runs = Path(lost.sandbox.handle["run"]).parent
    (runs / "half-made").mkdir()
    # Another gateway, which did not start them.
    runtime = await prepared(runs.parent, isolation)
    await runtime.sweep({kept.sandbox.id})
    assert not await runtime.find(lost.sandbox)
    assert [p.name for p in runs.iterdir()] == [kept.sandbox.id]
    assert await kept.run("result = 1") == 1


async def test_a_process_that_has_its_number_now_is_not_taken_for_it(start: StartProbe) -> None:
    probe = await start()
    with sleeping() as stranger:
        there = process.identify(stranger.pid)
        assert there is not None
        other = msgspec.to_builtins(msgspec.structs.replace(there, started=there.started - 1))
        sandbox = Sandbox(
            **{**vars(probe.sandbox), "handle": {**probe.sandbox.handle, "process": other}}
        )
        assert not await probe.runtime.find(sandbox)
        await asyncio.wait_for(probe.runtime.ended(sandbox), 5)
        handle = {**sandbox.handle, "group": None, "run": str(probe.workspace / "none")}
        await probe.runtime.stop(Sandbox(**{**vars(sandbox), "handle": handle}))
        assert stranger.poll() is None


@pytest.mark.parametrize("isolation", ISOLATIONS)
async def test_a_long_path_does_no_harm(start: StartProbe, isolation: str) -> None:
    probe = await start(isolation=isolation, data="/".join(["a-long-name-for-a-folder"] * 8))
    assert await probe.run("result = 1") == 1
    scratch = await probe.run("result = told['scratch']")
    assert len(scratch) <= 60
    assert await probe.runtime.find(probe.sandbox)
    await probe.runtime.stop(probe.sandbox)
    assert scratch == "/tmp" or not Path(scratch).exists()


async def test_many_can_be_started_at_once(start: StartProbe) -> None:
    probes = await asyncio.gather(*(start() for _ in range(4)))
    assert await asyncio.gather(*(p.run("result = 1") for p in probes)) == [1] * 4


async def test_a_cancelled_start_leaves_nothing(tmp_path: Path) -> None:
    runtime = await prepared(tmp_path / "data")
    id = unique_id()
    (tmp_path / "workspace").mkdir()
    starting = asyncio.create_task(runtime.start(id, "python", SMALL, tmp_path / "workspace"))
    await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert list((tmp_path / "data" / "run").iterdir()) == []
    assert groups(id) == set()


async def test_what_cannot_be_started_is_refused_with_a_reason(tmp_path: Path) -> None:
    runtime = await prepared(tmp_path / "data")
    with pytest.raises(UnknownEnvironment):
        await runtime.start("box-1", "cobol", Limits(), tmp_path)
    with pytest.raises(SandboxFailed, match="cannot be the id"):
        await runtime.start("../box", "python", Limits(), tmp_path)
    with pytest.raises(SandboxFailed):
        await runtime.start("box-1", "python", Limits(), tmp_path / "missing")
    assert list((tmp_path / "data" / "run").iterdir()) == []
