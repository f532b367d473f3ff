"""The machine is rebooted: no sandbox is left, and nothing is mounted; files and history are there."""

from __future__ import annotations

import contextlib
from pathlib import Path

import psutil
import pytest

from tests.conftest import Gateway, only
from tests.faults.scene import processes_of, sessions, wait_for
from tests.mounts import loop_devices_of, mounts_of, soon, unmount

pytestmark = only("embedded", "docker")
WAITS = "print('so far', flush=True)\nimport time\nwhile True: time.sleep(0.01)"


def end_everything(gateway: Gateway, request: pytest.FixtureRequest) -> None:
    """What a reboot does: processes, control groups and mounts are gone, files are not."""
    gateway.kill()
    if gateway.settings["runtime"] == "docker":
        engine = request.getfixturevalue("engine")
        owner = (gateway.data / "owner").read_text().strip()
        for one in engine.containers(filters={"label": f"org.interpreter.owner={owner}"}):
            engine.remove_container(one["Id"], force=True, v=True)
    for run in (gateway.data / "run").iterdir():
        for switch, awake in (("freezer.state", "THAWED"), ("cgroup.freeze", "0")):
            for file in Path("/sys/fs/cgroup").glob(f"**/{run.name}/{switch}"):
                file.write_text(awake)  # what is frozen cannot be killed, only switched off
        processes = processes_of(run.name)
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if str(run) in process.cmdline():
                    processes.append(process)
        for process in processes:
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(processes, 10)
        for group in Path("/sys/fs/cgroup").glob(f"**/{run.name}"):
            soon(lambda group=group: not (group / "cgroup.procs").read_text())
            group.rmdir()
    for place in mounts_of(gateway.data):
        unmount(place)
    assert soon(lambda: loop_devices_of(gateway.data) == [])


def test_sessions_are_stopped_and_can_be_started_with_their_files(
    own_gateway: Gateway, request: pytest.FixtureRequest
) -> None:
    own_gateway.start()
    with sessions(own_gateway) as s:
        id, paused = s.create(name="mine"), s.create()
        s.run(id, "x = 1; open('kept', 'w').write('here'); import os; os.sync()")
        running = s.begin(id, WAITS)
        queued = s.begin(id, "print('never')")
        wait_for(lambda: s.cell(id, running)["text"] == "so far\n")
        s.client.post(f"/v1/sessions/{paused}/pause")
        history = s.cells(id)[0]
        numbers = s.numbers(id)
    end_everything(own_gateway, request)
    own_gateway.start()
    with sessions(own_gateway) as s:
        for session in (id, paused):
            found = s.read(session)
            assert (found["state"], found["contexts"]) == ("stopped", [])
            assert "gone when the gateway started again" in found["reason"]
        ended = s.cell(id, running)
        assert (ended["status"], ended["text"]) == ("lost", "so far\n")
        assert ended["reason"]
        assert s.cell(id, queued)["status"] == "cancelled"
        assert s.cells(id)[0] == history
        assert s.numbers(id)[: len(numbers)] == numbers
        assert s.client.post(f"/v1/sessions/{id}/start").json()["state"] == "ready"
        assert s.run(id, "'x' in globals(), open('kept').read()")["text"] == "(False, 'here')"
        again = s.numbers(id)
        assert again == list(range(1, len(again) + 1))
        spare_or_session = {path.name for path in (own_gateway.data / "run").iterdir()}
        assert not spare_or_session & {id, paused}, "what was left of the old ones is removed"
