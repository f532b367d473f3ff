"""Several kernels in one session: memory apart, files together."""

from __future__ import annotations

from typing import Any

import httpx

from tests.conftest import Gateway


def in_context(http: httpx.Client, session: str, context: str, code: str, **more: Any) -> dict[str, Any]:
    body = {"code": code, "context": context, **more}
    answer = http.post(f"/v1/sessions/{session}/executions", json=body)
    assert answer.status_code in (200, 202), answer.text
    return dict(answer.json())


def test_contexts_have_memory_of_their_own_and_share_files(http: httpx.Client, session: str) -> None:
    path = f"/v1/sessions/{session}/contexts"
    made = http.post(path, json={"name": "b"})
    assert (made.status_code, made.json()["name"]) == (201, "b")
    in_context(http, session, "default", "x = 1; open('shared', 'w').write('both')")
    assert in_context(http, session, "b", "x")["error"]["ename"] == "NameError"
    assert in_context(http, session, "b", "open('shared').read()")["text"] == "'both'"
    assert in_context(http, session, "b", "import pandas; 'pandas' in dir()")["context"] == "b"
    assert [c["name"] for c in http.get(path).json()["contexts"]] == ["default", "b"]
    assert http.get(f"/v1/sessions/{session}").json()["contexts"] == ["default", "b"]


def test_cells_of_two_contexts_run_at_the_same_time(http: httpx.Client, session: str) -> None:
    http.post(f"/v1/sessions/{session}/contexts", json={"name": "b"})
    # Each waits for the other: they end only if both run.
    wait = "import os, time\nopen('{0}', 'w').close()\nwhile not os.path.exists('{1}'): time.sleep(0.01)\n'{0}'"
    first = in_context(http, session, "default", wait.format("a", "b"), wait=False)
    assert in_context(http, session, "b", wait.format("b", "a"), timeout=20)["text"] == "'b'"
    ended = http.get(f"/v1/sessions/{session}/executions/{first['id']}?wait=true").json()
    assert ended["text"] == "'a'"
    assert ended["usage"] is None or ended["usage"]["memory_peak_bytes"] is None, (
        "nobody can tell whose it was"
    )


def test_a_context_is_restarted_and_interrupted_by_itself(http: httpx.Client, session: str) -> None:
    path = f"/v1/sessions/{session}"
    http.post(f"{path}/contexts", json={"name": "b"})
    for context in ("default", "b"):
        in_context(http, session, context, "x = 1")
    http.post(f"{path}/restart", params={"context": "b"})
    assert in_context(http, session, "b", "x")["status"] == "error"
    assert in_context(http, session, "default", "x")["text"] == "1"
    cell = in_context(http, session, "b", "while True: pass", wait=False)
    http.post(f"{path}/interrupt")
    assert in_context(http, session, "default", "x + 1")["text"] == "2"
    assert http.get(f"{path}/executions/{cell['id']}").json()["status"] == "running"
    http.post(f"{path}/interrupt", params={"context": "b"})
    ended = http.get(f"{path}/executions/{cell['id']}?wait=true").json()
    assert ended["error"]["ename"] == "KeyboardInterrupt"


def test_a_kernel_that_dies_takes_only_its_own_context(http: httpx.Client, session: str) -> None:
    http.post(f"/v1/sessions/{session}/contexts", json={"name": "b"})
    in_context(http, session, "default", "x = 1")
    assert in_context(http, session, "b", "import os; os._exit(3)")["status"] == "lost"
    assert in_context(http, session, "default", "x")["text"] == "1"
    assert in_context(http, session, "b", "2")["text"] == "2"


def test_a_deleted_context_ends_its_cells_and_frees_its_name(http: httpx.Client, session: str) -> None:
    path = f"/v1/sessions/{session}"
    http.post(f"{path}/contexts", json={"name": "b"})
    running = in_context(http, session, "b", "import time; time.sleep(60)", wait=False, timeout=60)
    assert http.delete(f"{path}/contexts/b").status_code == 204
    assert http.get(f"{path}/executions/{running['id']}").json()["status"] == "cancelled"
    gone = http.post(f"{path}/executions", json={"code": "1", "context": "b"})
    assert (gone.status_code, gone.json()["error"]["code"]) == (404, "context_not_found")
    assert http.post(f"{path}/contexts", json={"name": "b"}).status_code == 201
    assert in_context(http, session, "b", "1")["text"] == "1"


def test_what_cannot_be_is_refused(http: httpx.Client) -> None:
    id = http.post("/v1/sessions", json={"limits": {"contexts": 2}}).json()["id"]
    path = f"/v1/sessions/{id}/contexts"
    made = http.post(path).json()
    assert made["name"].startswith("c-"), "a name is made up"
    assert http.post(path, json={"name": made["name"]}).json()["error"]["code"] == "context_exists"
    assert http.post(path).json()["error"]["code"] == "too_many_contexts"
    assert http.delete(f"{path}/default").json()["error"]["code"] == "wrong_state"
    assert http.delete(f"{path}/none").json()["error"]["code"] == "context_not_found"
    assert http.post(path, json={"name": "a b"}).json()["error"]["code"] == "invalid_request"
    http.delete(f"/v1/sessions/{id}")


def test_a_kernel_cannot_end_or_write_into_another_contexts_cell(
    http: httpx.Client, session: str
) -> None:
    http.post(f"/v1/sessions/{session}/contexts", json={"name": "b"})
    victim = in_context(http, session, "default", "import time; time.sleep(3); 'mine'", wait=False)
    lie = f"""
kernel = get_ipython().kernel
parent = {{"header": {{"msg_id": "{victim["id"]}", "msg_type": "execute_request", "session": ""}}}}
for socket in (kernel.iopub_socket, kernel.shell_stream or kernel.shell_socket):
    kernel.session.send(kernel.iopub_socket, "stream", {{"name": "stdout", "text": "forged"}}, parent=parent["header"])
    kernel.session.send(kernel.iopub_socket, "status", {{"execution_state": "idle"}}, parent=parent["header"])
"""
    in_context(http, session, "b", lie)
    ended = http.get(f"/v1/sessions/{session}/executions/{victim['id']}?wait=true").json()
    assert (ended["status"], ended["text"]) == ("ok", "'mine'")


def test_contexts_are_found_again_by_the_next_gateway(own_gateway: Gateway) -> None:
    own_gateway.start()
    with own_gateway.client() as client:
        id = client.post("/v1/sessions").json()["id"]
        client.post(f"/v1/sessions/{id}/contexts", json={"name": "b"})
        in_context(client, id, "default", "x = 1")
        in_context(client, id, "b", "x = 2")
        code = "import time\nfor i in range(20):\n    print(i, flush=True); time.sleep(0.1)"
        cell = in_context(client, id, "b", code, wait=False)["id"]
    own_gateway.kill()
    own_gateway.start()
    with own_gateway.client() as client:
        assert in_context(client, id, "default", "x")["text"] == "1", "while the other one runs"
        ended = client.get(f"/v1/sessions/{id}/executions/{cell}?wait=true").json()
        assert (ended["status"], ended["text"]) == ("ok", "".join(f"{i}\n" for i in range(20))), ended
        assert in_context(client, id, "b", "x")["text"] == "2"
