"""What a session may put on the disk: it meets the end of its own workspace, and nobody else does."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import Gateway, kill_sandbox
from tests.mounts import loop_devices_of, mounts_of, soon

MEGABYTE = 1024 * 1024
NO_SPACE = "[Errno 28] No space left on device"
DISK_BOMB = "with open('bomb', 'wb') as f:\n    while True: f.write(b'x' * 1_000_000)"
INODE_BOMB = (
    "import os\nos.mkdir('many')\n"
    "for i in range(1_000_000): os.close(os.open(f'many/{i}', os.O_CREAT | os.O_WRONLY))"
)
RunIn = Callable[[str, str], dict[str, Any]]


@pytest.fixture
def run_in(http: httpx.Client) -> RunIn:
    def run_in(session: str, code: str) -> dict[str, Any]:
        return dict(http.post(f"/v1/sessions/{session}/executions", json={"code": code}).json())

    return run_in


@pytest.fixture
def small(http: httpx.Client) -> Iterator[str]:
    """A session whose workspace holds 32 MB."""
    created = http.post("/v1/sessions", json={"limits": {"disk_mb": 32}}).json()
    assert created["limits"]["disk_mb"] == 32
    assert created["disk_enforced_by"] == "filesystem"
    yield created["id"]
    http.delete(f"/v1/sessions/{created['id']}")


@pytest.mark.parametrize(
    ("bomb", "remove"), [(DISK_BOMB, "bomb"), (INODE_BOMB, "many")], ids=["disk", "inodes"]
)
def test_a_bomb_fills_its_own_workspace_and_no_other(
    bomb: str,
    remove: str,
    small: str,
    session: str,
    run_in: RunIn,
    http: httpx.Client,
    gateway: Gateway,
) -> None:
    run_in(small, "x = 1; open('kept.txt', 'w').write('here')")
    result = run_in(small, bomb)
    assert result["status"] == "error"
    assert result["error"]["ename"] == "OSError"
    assert NO_SPACE in result["error"]["evalue"]
    image = gateway.data / "workspaces" / f"{small}.img"
    assert image.stat().st_blocks * 512 <= 32 * MEGABYTE
    assert http.get("/healthz").json()["status"] == "ok"
    other = run_in(session, "open('large', 'wb').write(b'x' * 50_000_000)")
    assert other["text"] == "50000000"
    assert run_in(small, "x, open('kept.txt').read()")["text"] == "(1, 'here')"
    assert (
        run_in(small, f"import subprocess; subprocess.run(['rm', '-r', {remove!r}])")["status"] == "ok"
    )
    assert run_in(small, "open('after', 'wb').write(b'x' * 10_000_000)")["text"] == "10000000"


def test_a_full_workspace_survives_the_end_of_its_kernel(
    small: str, run_in: RunIn, http: httpx.Client
) -> None:
    assert NO_SPACE in run_in(small, DISK_BOMB)["error"]["evalue"]
    assert http.post(f"/v1/sessions/{small}/restart").json()["state"] == "ready"
    assert run_in(small, "6 * 7")["text"] == "42"


@pytest.mark.parametrize("megabytes", [48, 5000])
def test_a_session_has_the_disk_it_asked_for(megabytes: int, http: httpx.Client, run_in: RunIn) -> None:
    created = http.post("/v1/sessions", json={"limits": {"disk_mb": megabytes}}).json()
    total = int(run_in(created["id"], "import shutil; shutil.disk_usage('.').total")["text"])
    assert 0.75 * megabytes * MEGABYTE < total <= megabytes * MEGABYTE
    http.delete(f"/v1/sessions/{created['id']}")


def test_a_stopped_session_can_have_more_disk_and_not_less(
    small: str, http: httpx.Client, run_in: RunIn
) -> None:
    path = f"/v1/sessions/{small}"
    run_in(small, "open('kept.txt', 'w').write('here')")
    assert http.post(f"{path}/stop").json()["state"] == "stopped"
    less = http.patch(path, json={"limits": {"disk_mb": 16}})
    assert (less.status_code, less.json()["error"]["code"]) == (409, "limit_fixed")
    assert http.get(path).json()["limits"]["disk_mb"] == 32
    more = http.patch(path, json={"limits": {"disk_mb": 96, "file_mb": 64}})
    assert more.json()["limits"]["disk_mb"] == 96
    stored = http.put(f"{path}/files/large", content=b"x" * (48 * MEGABYTE))
    assert stored.status_code == 201, stored.text
    http.post(f"{path}/start")
    here = run_in(small, "import os; s = os.statvfs('.'); s.f_blocks * s.f_frsize")
    assert 64 * MEGABYTE < int(here["text"]) <= 96 * MEGABYTE
    assert run_in(small, "open('kept.txt').read()")["text"] == "'here'"


def test_the_default_session_has_the_default_disk(http: httpx.Client, session: str, run: Any) -> None:
    assert http.get(f"/v1/sessions/{session}").json()["limits"]["disk_mb"] == 4096
    total = int(run("import shutil; shutil.disk_usage('.').total")["text"])
    assert 0.9 * 4096 * MEGABYTE < total <= 4096 * MEGABYTE
    assert run("import os; os.listdir()")["text"] == "[]"


def test_more_than_the_memory_can_be_written(http: httpx.Client, run_in: RunIn) -> None:
    limits = {"memory_mb": 256, "disk_mb": 1024, "file_mb": 1024}
    id = http.post("/v1/sessions", json={"limits": limits}).json()["id"]
    code = "with open('f', 'wb') as f:\n    for _ in range(600): f.write(bytes(1_000_000))\nf.name"
    assert run_in(id, code)["text"] == "'f'"
    deleted = http.delete(f"/v1/sessions/{id}").json()
    assert 600_000_000 <= deleted["workspace_bytes"] < 610_000_000


def test_the_cap_holds_across_a_gateway_that_is_killed(own_gateway: Gateway) -> None:
    own_gateway.start()
    with own_gateway.client() as client:
        id = client.post("/v1/sessions", json={"limits": {"disk_mb": 32}}).json()["id"]
        path = f"/v1/sessions/{id}/executions"
        client.post(path, json={"code": "open('kept', 'w').write('here')"})
        assert len(client.get(path).json()["executions"]) == 1, "all of it is recorded"
    own_gateway.kill()
    own_gateway.start()
    with own_gateway.client() as client:
        assert client.get(f"/v1/sessions/{id}").json()["disk_enforced_by"] == "filesystem"
        assert client.post(path, json={"code": "open('kept').read()"}).json()["text"] == "'here'"
        result = client.post(path, json={"code": DISK_BOMB}).json()
        assert NO_SPACE in result["error"]["evalue"]
        places = mounts_of(own_gateway.data)
        assert places.count(str((own_gateway.data / "workspaces" / id).resolve())) == 1
        client.delete(f"/v1/sessions/{id}")
        assert not (own_gateway.data / "workspaces" / f"{id}.img").exists()


def test_after_a_reboot_the_workspace_is_there_until_it_is_deleted(own_gateway: Gateway) -> None:
    own_gateway.start()
    workspaces = own_gateway.data / "workspaces"
    with own_gateway.client() as client:
        id = client.post("/v1/sessions").json()["id"]
        path = f"/v1/sessions/{id}/executions"
        client.post(path, json={"code": "open('f', 'w').write('here')"})
        assert len(client.get(path).json()["executions"]) == 1, "all of it is recorded"
    own_gateway.kill()
    for sandbox in (own_gateway.data / "run").iterdir():
        kill_sandbox(sandbox.name)
    for place in mounts_of(own_gateway.data):
        assert soon(lambda place=place: subprocess.run(["umount", place]).returncode == 0)
    own_gateway.start()
    with own_gateway.client() as client:
        assert client.get(f"/v1/sessions/{id}").json()["state"] == "stopped"
        assert (workspaces / f"{id}.img").exists()
        assert client.delete(f"/v1/sessions/{id}").status_code == 200
    assert not list(workspaces.glob(f"{id}*"))
    assert soon(lambda: not [device for device in loop_devices_of(own_gateway.data) if id in device])


def test_sessions_that_end_with_the_gateway_leave_nothing_mounted(own_gateway: Gateway) -> None:
    own_gateway.settings["on_shutdown"] = "stop"
    own_gateway.start()
    with own_gateway.client() as client:
        id = client.post("/v1/sessions").json()["id"]
    assert own_gateway.process is not None
    own_gateway.process.send_signal(signal.SIGTERM)
    assert own_gateway.process.wait(30) == 0
    assert mounts_of(own_gateway.data) == []
    assert soon(lambda: loop_devices_of(own_gateway.data) == [])
    names = sorted(path.name for path in Path(own_gateway.data, "workspaces").iterdir())
    assert names == [id, f"{id}.img"], "its files stay until it is deleted"


def test_the_gateway_says_how_the_disk_is_limited(gateway: Gateway) -> None:
    (line,) = [x for x in gateway.log.read_text().splitlines() if x.startswith("  disk ")]
    assert "limited: each workspace is a file system of its own" in line
