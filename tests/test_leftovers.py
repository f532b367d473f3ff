"""Nothing is left behind: neither by a gateway that stops nor by sessions that are deleted."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

import psutil

from tests.conftest import Gateway
from tests.mounts import loop_devices_of, mounts_of, soon


def processes_of(data: Path) -> list[str]:
    """Command lines of processes that know of a data directory, the test's own aside."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            knows = str(data) in " ".join(process.cmdline()) or str(data) in process.environ().values()
            if knows and process.pid != os.getpid():
                found.append(" ".join(process.cmdline())[:200])
    return found


def groups_of(ids: list[str]) -> list[str]:
    root = Path("/sys/fs/cgroup")
    return [str(path) for id in ids for path in root.glob(f"**/{id}")]


def test_a_gateway_and_its_sessions_leave_nothing(own_gateway: Gateway) -> None:
    before = {path.name for path in Path("/tmp").iterdir()}
    own_gateway.start()
    ids = []
    with own_gateway.client() as client:
        client.put("/v1/datasets/d", content=b"x")
        for _ in range(3):
            id = client.post("/v1/sessions", json={"inputs": ["d"]}).json()["id"]
            ids.append(id)
            code = "import subprocess; subprocess.Popen(['sleep', '1000'], start_new_session=True)"
            client.post(f"/v1/sessions/{id}/executions", json={"code": code})
        assert len(loop_devices_of(own_gateway.data)) >= 3
        for id in ids:
            client.delete(f"/v1/sessions/{id}")
        client.delete("/v1/datasets/d")
        assert client.get("/v1/sessions").json()["sessions"] == []
    assert groups_of(ids) == []
    left = [*mounts_of(own_gateway.data), *map(str, (own_gateway.data / "workspaces").iterdir())]
    assert not [path for path in left if any(id in path for id in ids)]
    assert own_gateway.process is not None
    own_gateway.process.send_signal(signal.SIGTERM)
    assert own_gateway.process.wait(30) == 0
    assert processes_of(own_gateway.data) == []
    assert [p.name for p in (own_gateway.data / "workspaces").iterdir()] == []
    assert [p.name for p in (own_gateway.data / "run").iterdir()] == []
    assert [p.name for p in (own_gateway.data / "inputs").iterdir()] == []
    assert [p.name for p in (own_gateway.data / "datasets" / "versions").iterdir()] == []
    assert mounts_of(own_gateway.data) == []
    assert soon(lambda: loop_devices_of(own_gateway.data) == [])
    new = {path.name for path in Path("/tmp").iterdir()} - before
    assert not [name for name in new if "interpreter" in name and "tests" not in name]


def test_a_spare_that_dies_leaves_nothing(own_gateway: Gateway) -> None:
    own_gateway.start()
    workspaces = own_gateway.data / "workspaces"
    assert soon(lambda: workspaces.is_dir() and any(workspaces.iterdir()))
    spare = next(workspaces.iterdir()).stem
    with own_gateway.client() as client:

        def is_replaced() -> bool:
            """Its end is noticed in its own time: until then a session may be made of it."""
            for process in psutil.process_iter():
                with contextlib.suppress(psutil.Error):
                    if process.environ().get("INTERPRETER_SANDBOX") == spare:
                        process.kill()
            answer = client.post("/v1/sessions")
            if answer.status_code == 201:
                client.delete(f"/v1/sessions/{answer.json()['id']}")
            return not [path for path in workspaces.iterdir() if path.stem == spare]

        assert soon(is_replaced, seconds=60)
        assert not [device for device in loop_devices_of(own_gateway.data) if spare in device]
