"""A kernel that lies: whatever it sends, the gateway stays up and the session stays usable."""

from __future__ import annotations

from typing import Any

import httpx
import nbformat
import pytest

from tests.conftest import Gateway

from .conftest import read_events

PRELUDE = """
import json, time
from ipykernel.kernelapp import IPKernelApp
app = IPKernelApp.instance()
kernel = app.kernel
parent = {"msg_id": kernel.get_parent()["header"]["msg_id"]}
def raw(*parts):
    app.iopub_thread.send_multipart([p if isinstance(p, bytes) else p.encode() for p in parts])
def send(type, content, parent=parent, metadata="{}"):
    header = {"msg_id": "m", "msg_type": type, "session": "s", "username": "u", "date": "", "version": "5.3"}
    raw("topic", "<IDS|MSG>", "", json.dumps(header), json.dumps(parent), metadata,
        content if isinstance(content, (str, bytes)) else json.dumps(content))
"""

LIES = {
    "nothing": "raw()  if False else raw('')",
    "no delimiter": "raw('a', 'b', 'c')",
    "too few parts": "raw('<IDS|MSG>', '', '{}')",
    "a header that is not JSON": "raw('<IDS|MSG>', '', '{', '{}', '{}', '{}')",
    "a header that is a list": "raw('<IDS|MSG>', '', '[]', '{}', '{}', '{}')",
    "content that is not JSON": "send('stream', '{')",
    "content that is a number": "send('stream', '5')",
    "a stream of the wrong types": "send('stream', {'name': 5, 'text': {'a': 1}})",
    "a display of the wrong types": "send('display_data', {'data': {'text/plain': 5, 'image/png': [1]}, 'metadata': 7})",
    "an error of the wrong types": "send('error', {'ename': None, 'evalue': [], 'traceback': 'x'})",
    "an update without an id": "send('update_display_data', {'data': {}})",
    "a display id that is a dict": "send('display_data', {'data': {}, 'transient': {'display_id': {}}})",
    "half a character": 'send(\'stream\', \'{"name": "stdout", "text": "a\\\\ud800b"}\')',
    "not UTF-8": 'send(\'stream\', b\'{"name": "stdout", "text": "a\\xff\\xfe"}\')',
    "not a number": 'send(\'display_data\', \'{"data": {"application/json": NaN}, "metadata": {}}\')',
    "a huge number": "send('display_data', '{\"data\": {\"application/json\": ' + '9' * 5000 + '}, \"metadata\": {}}')",
    "deep nesting": "send('display_data', '{\"data\": {\"application/json\": ' + '[' * 3000 + ']' * 3000 + '}}')",
    "almost too deep nesting": "send('display_data', '{\"data\": {\"application/json\": ' + '[' * 950 + ']' * 950 + '}}')",
    "an unknown type": "send('🎉' * 1000, {})",
    "a parent that never was": "send('stream', {'name': 'stdout', 'text': 'x'}, parent={'msg_id': 'e-0000000000000000'})",
    "a parent id that is a list": "send('stream', {'name': 'stdout', 'text': 'x'}, parent={'msg_id': []})",
    "ten thousand displays": "for i in range(10_000): send('display_data', {'data': {'text/plain': str(i)}, 'metadata': {}, 'transient': {'display_id': str(i)}})",
    "an idle of its own": "send('status', {'execution_state': 'idle'})",
    "an input request on iopub": "send('input_request', {'prompt': 'x' * 100_000, 'password': 'yes'})",
    "a clear without content": "send('clear_output', {})",
    "many buffers": "raw('<IDS|MSG>', '', '{\"msg_type\": \"comm_msg\"}', '{}', '{}', '{}', *(['b'] * 3000))",
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_does_no_harm(run: Any, lie: str, http: httpx.Client, session: str) -> None:
    result = run(f"{PRELUDE}\n{LIES[lie]}\ntime.sleep(0.05)\nprint('and on')")
    assert result["status"] == "ok", result
    cell = nbformat.v4.new_code_cell("", outputs=[nbformat.from_dict(o) for o in result["outputs"]])
    nbformat.validate(nbformat.v4.new_notebook(cells=[cell]))
    assert run("6 * 7")["text"] == "42"
    assert http.get(f"/v1/sessions/{session}/executions").status_code == 200


SHOW = "send('display_data', {'data': {'text/plain': 'a'}, 'metadata': {}, 'transient': {'display_id': 'd'}}"
UPDATE = (
    "send('update_display_data', {'data': {'text/plain': 'b' * %d}, 'transient': {'display_id': 'd'}})"
)


def updates(http: httpx.Client, session: str) -> list[dict[str, Any]]:
    """The events of the session that update a display."""
    http.post(f"/v1/sessions/{session}/executions", json={"code": ""})  # all before it is worked off
    rows = http.get(f"/v1/sessions/{session}/events", params={"after": 0, "follow": "false"})
    return [data for _, kind, data in read_events(rows) if kind == "update"]


def test_cells_that_never_were_show_nothing(run: Any, http: httpx.Client, session: str) -> None:
    """One update is recorded once, however many cells the kernel says that it is shown in."""
    forged = f"for i in range(200): {SHOW}, parent={{'msg_id': f'e-{{i:016x}}'}})"
    run(f"{PRELUDE}\n{forged}\n{UPDATE % 100_000}\ntime.sleep(0.05)")
    (update,) = updates(http, session)
    assert len(update["data"]["text/plain"]) == 100_000
    assert run("6 * 7")["text"] == "42"


def test_an_update_is_copied_to_a_hundred_cells_and_large_ones_to_fewer(
    run: Any, http: httpx.Client, session: str
) -> None:
    run(PRELUDE)
    # Each is shown in a cell that was: the same as if it had been run there.
    ids = [run("")["id"] for _ in range(105)]
    run(f"for id in {ids}: {SHOW}, parent={{'msg_id': id}})")
    run(f"{UPDATE % 10}\ntime.sleep(0.05)")
    small = updates(http, session)
    assert {update["execution_id"] for update in small} == set(ids[-100:])
    run(f"{UPDATE % 4_000_000}\ntime.sleep(0.05)")
    large = updates(http, session)[len(small) :]
    assert [update["execution_id"] for update in large] == ids[:-6:-1]
    newest = http.get(f"/v1/sessions/{session}/executions/{ids[-1]}").json()
    assert newest["outputs"][0]["data"]["text/plain"].startswith("[text/plain of 4,000")


def test_prompts_count_as_output(http: httpx.Client) -> None:
    session = http.post("/v1/sessions", json={"limits": {"recorded_mb": 1}}).json()["id"]
    path = f"/v1/sessions/{session}"
    code = "for _ in range(2000): send('input_request', {'prompt': 'x' * 10_000})\ntime.sleep(60)"
    result = http.post(f"{path}/executions", json={"code": f"{PRELUDE}\n{code}"}).json()
    assert (result["status"], result["error"]["ename"]) == ("error", "OutputLimitExceeded"), result
    rows = list(read_events(http.get(f"{path}/events", params={"after": 0, "follow": "false"})))
    prompts = [data["prompt"] for _, kind, data in rows if kind == "input_request"]
    assert 900_000 < sum(map(len, prompts)) < 1_100_000
    http.delete(path)


def test_messages_that_cannot_be_read_hardly_fill_the_log(
    gateway: Gateway, run: Any, session: str
) -> None:
    result = run(f"{PRELUDE}\nfor _ in range(1000): raw('a')\ntime.sleep(0.05)")
    assert len(result["outputs"]) == 1000
    lines = [line for line in gateway.log.read_text().splitlines() if "malformed message" in line]
    assert 10 <= len([line for line in lines if session in line]) <= 11


FLOOD = """
import threading
def flood():
    while True: print("x" * 10_000)
threading.Thread(target=flood, daemon=True).start()
"""


def test_what_comes_after_a_cell_is_bounded_too(http: httpx.Client) -> None:
    """A thread that prints for ever does not fill the disk when its cell has ended."""
    session = http.post("/v1/sessions", json={"limits": {"recorded_mb": 2}}).json()["id"]
    path = f"/v1/sessions/{session}"
    http.post(f"{path}/executions", json={"code": FLOOD})
    recorded = 0
    with http.stream("GET", f"{path}/events", headers={"Accept": "text/event-stream"}) as events:
        for _, kind, data in read_events(events):
            recorded += len(data.get("text", ""))
            if kind == "warning":
                break
    assert data["what"] == "output"
    assert 1_000_000 < recorded < 5_000_000
    result = http.post(f"{path}/executions", json={"code": "flood = None; print('heard')"}).json()
    assert "heard" in result["text"]
    http.delete(path)


def test_a_kernel_cannot_speak_for_another_session(http: httpx.Client, run: Any, session: str) -> None:
    other = http.post("/v1/sessions").json()["id"]
    theirs = http.post(f"/v1/sessions/{other}/executions", json={"code": "print('mine')"}).json()
    forged = (
        f"send('stream', {{'name': 'stdout', 'text': 'forged'}}, parent={{'msg_id': '{theirs['id']}'}})"
    )
    run(f"{PRELUDE}\n{forged}\ntime.sleep(0.1)")
    assert http.get(f"/v1/sessions/{other}/executions/{theirs['id']}").json() == theirs
    http.delete(f"/v1/sessions/{other}")


def test_a_cell_cannot_reach_the_kernel_host(http: httpx.Client, session: str) -> None:
    code = (
        "import os, ctypes\nfound = []\n"
        "for pid in filter(str.isdecimal, os.listdir('/proc')):\n"
        "    try: command = open(f'/proc/{pid}/cmdline').read()\n"
        "    except OSError: continue\n"
        "    if 'interpreter.sandbox\\0' not in command: continue\n"
        "    libc = ctypes.CDLL(None, use_errno=True)\n"
        "    pidfd = libc.syscall(434, int(pid), 0)\n"
        "    for fd in range(3, 40):\n"
        "        if libc.syscall(438, pidfd, fd, 0) >= 0: found.append(fd)\n"
        "    try: os.listdir(f'/proc/{pid}/fd'); found.append('fd')\n"
        "    except PermissionError: pass\n"
        "    try: open(f'/proc/{pid}/mem', 'rb'); found.append('mem')\n"
        "    except PermissionError: pass\n"
        "found"
    )
    result = http.post(f"/v1/sessions/{session}/executions", json={"code": code}).json()
    assert result["text"] == "[]", result
