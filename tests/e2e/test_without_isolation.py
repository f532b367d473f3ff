"""Where bubblewrap cannot be used, sessions run as plain processes, and everyone is told."""

from __future__ import annotations

from pathlib import Path

import psutil

from tests.conftest import Gateway, only


def running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@only("embedded")
def test_a_session_without_isolation_works_and_says_so(own_gateway: Gateway) -> None:
    own_gateway.settings["isolation"] = "none"
    own_gateway.start()
    assert "NOT ISOLATED" in own_gateway.log.read_text()
    with own_gateway.client() as client:
        session = client.post("/v1/sessions").json()
        assert session["isolation"] == "none"
        assert client.get("/healthz").json()["isolation"] == "none"
        path = f"/v1/sessions/{session['id']}"
        code = "import os; open('f', 'w').write('x'); os.getcwd()"
        result = client.post(f"{path}/executions", json={"code": code}).json()
        workspace = Path(result["text"].strip("'"))
        assert (workspace / "f").read_text() == "x"
        client.post(f"{path}/executions", json={"code": "x = 1"})
        assert client.post(f"{path}/restart").json()["state"] == "ready"
        result = client.post(f"{path}/executions", json={"code": "'x' in globals()"}).json()
        assert result["text"] == "False"
        # A process that leaves its group and its session is found all the same.
        orphan = "import subprocess; subprocess.Popen(['sleep', '600'], start_new_session=True).pid"
        pid = int(client.post(f"{path}/executions", json={"code": orphan}).json()["text"])
        assert running(pid)
        client.delete(path)
        assert not running(pid)
        assert not workspace.exists()


@only("embedded")
def test_sessions_without_isolation_know_only_their_own_processes(own_gateway: Gateway) -> None:
    own_gateway.settings["isolation"] = "none"
    own_gateway.start()
    code = "import subprocess\nsubprocess.Popen(['sleep', '600'], start_new_session=True).pid"
    with own_gateway.client() as client:
        paths = [f"/v1/sessions/{client.post('/v1/sessions').json()['id']}" for _ in range(2)]
        cells = [client.post(f"{path}/executions", json={"code": code}).json() for path in paths]
        for path, cell in zip(paths, cells, strict=True):
            found = client.get(f"{path}/processes").json()["processes"]
            started = {str(p["pid"]): p["execution_id"] for p in found if not p["is_kernel"]}
            assert started == {cell["text"]: cell["id"]}
        mine, theirs = (int(cell["text"]) for cell in cells)
        gateway = own_gateway.process
        assert gateway is not None
        for other in (theirs, gateway.pid, 1):
            assert client.delete(f"{paths[0]}/processes/{other}").status_code == 404
        client.post(f"{paths[0]}/restart")
        assert not running(mine)
        assert running(theirs)


@only("embedded")
def test_named_workspaces_are_used_by_new_processes_only(own_gateway: Gateway) -> None:
    own_gateway.settings["isolation"] = "none"
    own_gateway.start()
    with own_gateway.client() as client:
        client.post("/v1/workspaces", json={"name": "mine", "disk_mb": 16})
        for expected in ("0", "1"):
            session = client.post("/v1/sessions", json={"workspace": "mine"}).json()
            assert "not isolated" in session["cold_because"]
            code = "import os; n = len(os.listdir()); open(f'f{n}', 'w').close(); n"
            path = f"/v1/sessions/{session['id']}"
            assert client.post(f"{path}/executions", json={"code": code}).json()["text"] == expected
            client.delete(path)
        body = {"workspace": "mine", "workspace_read_only": True}
        answer = client.post("/v1/sessions", json=body)
        assert answer.json()["error"]["code"] == "sandbox_failed"
        assert "read-only" in answer.json()["error"]["message"]
        assert client.delete("/v1/workspaces/mine").status_code == 200, "it is not in use"
