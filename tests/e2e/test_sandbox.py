"""What a session can see and touch, asked from inside it."""

from __future__ import annotations

import socket
import threading
from typing import Any

import httpx

from tests.conftest import Gateway


def test_there_is_no_network(run: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        code = f"import socket\nsocket.create_connection(('127.0.0.1', {port}), timeout=2)"
        assert run(code)["status"] == "error"
    assert run("import socket; [name for _, name in socket.if_nameindex()]")["text"] == "['lo']"


def test_only_the_workspace_and_tmp_can_be_written(run: Any) -> None:
    code = (
        "import os\nwritable = []\n"
        "for place in ['/', '/usr', '/etc', '/opt', '/var', '/root', '/home', '/proc/sys/kernel',\n"
        "              '/workspace', '/tmp', '/dev', '/dev/shm', os.path.dirname(os.__file__)]:\n"
        "    try:\n        open(os.path.join(place, 'x'), 'w').close(); writable.append(place)\n"
        "    except OSError: pass\n"
        "writable"
    )
    allowed = {"/workspace", "/tmp", "/dev", "/dev/shm"}
    assert set(eval(run(code)["text"])) <= allowed


def test_secrets_of_the_host_cannot_be_read(run: Any, gateway: Gateway, http: httpx.Client) -> None:
    other = http.post("/v1/sessions").json()["id"]
    paths = [
        "/etc/shadow",
        str(gateway.data / "token"),
        str(gateway.data / "interpreter.db"),
        str(gateway.data / "workspaces" / other),
        str(gateway.log),
    ]
    code = f"import os\n[p for p in {paths!r} if os.path.exists(p) and os.access(p, os.R_OK)]"
    assert run(code)["text"] == "[]"
    http.delete(f"/v1/sessions/{other}")


def test_the_environment_tells_nothing_of_the_gateway(run: Any, gateway: Gateway) -> None:
    text = run("import os; dict(os.environ)")["text"]
    assert gateway.token not in text
    assert text.count("INTERPRETER_") == 1, "the sandbox's own id"
    assert str(gateway.data) not in text


def test_a_file_can_only_grow_to_its_limit(http: httpx.Client) -> None:
    created = http.post("/v1/sessions", json={"limits": {"file_mb": 1}}).json()
    code = "f = open('big', 'wb')\nf.write(b'x' * 2_000_000); f.flush()"
    result = http.post(f"/v1/sessions/{created['id']}/executions", json={"code": code}).json()
    assert result["error"]["ename"] == "OSError"
    assert "File too large" in result["error"]["evalue"]
    http.delete(f"/v1/sessions/{created['id']}")


def test_a_spare_is_used_once(http: httpx.Client) -> None:
    ids = []
    for _ in range(3):
        id = http.post("/v1/sessions").json()["id"]
        path = f"/v1/sessions/{id}/executions"
        fresh = (
            "import os; ('mark' in globals(), os.listdir('.'), os.listdir('/tmp/home/x') if 0 else 0)"
        )
        assert http.post(path, json={"code": fresh}).json()["text"] == "(False, [], 0)"
        http.post(path, json={"code": "mark = 1; open('mark', 'w').close()"})
        ids.append(id)
    assert len(set(ids)) == 3
    for id in ids:
        http.delete(f"/v1/sessions/{id}")


def test_use_is_told(run: Any, http: httpx.Client, session: str) -> None:
    run("data = b'x' * 100_000_000\nsum(range(10_000_000))")
    usage = http.get(f"/v1/sessions/{session}").json()["usage"]
    assert usage["memory_bytes"] > 100_000_000
    assert usage["cpu_seconds"] > 0.1
    assert usage["processes"] > 2


def test_many_sessions_run_at_once_and_apart(http: httpx.Client) -> None:
    ids = [http.post("/v1/sessions").json()["id"] for _ in range(4)]
    results: dict[str, str] = {}

    def work(id: str) -> None:
        path = f"/v1/sessions/{id}/executions"
        http.post(path, json={"code": f"me = '{id}'"})
        for _ in range(10):
            results[id] = http.post(path, json={"code": "print(me)"}).json()["text"]

    workers = [threading.Thread(target=work, args=(id,)) for id in ids]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert results == {id: f"{id}\n" for id in ids}
    for id in ids:
        http.delete(f"/v1/sessions/{id}")
