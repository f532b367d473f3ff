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
