"""How cells, kernels and sessions end: by time, by death, by will; and what is said of it."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from typing import Any

import httpx
import psutil
import pytest

from tests.e2e.conftest import read_events


def test_a_cell_is_interrupted_when_its_time_is_up(run: Any) -> None:
    result = run("x = 1\nprint('so far', flush=True)\nimport time\ntime.sleep(60)", timeout=0.5)
    assert result["status"] == "timeout"
    assert "0.5 s" in result["reason"]
    assert result["text"].startswith("so far\n")
    assert run("x")["text"] == "1", "an interrupted cell leaves the memory as it is"


def test_a_cell_that_does_not_yield_is_killed(run: Any, http: httpx.Client, session: str) -> None:
    code = (
        "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "print('deaf', flush=True)\nwhile True: time.sleep(1)"
    )
    result = run(code, timeout=0.5)
    assert result["status"] == "timeout"
    assert "killed" in result["reason"]
    assert result["text"] == "deaf\n"
    assert run("'x' in globals()")["text"] == "False"
    assert http.get(f"/v1/sessions/{session}").json()["state"] == "ready"


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import os; os._exit(7)", "exited with code 7"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "killed by SIGKILL"),
        ("import ctypes; ctypes.string_at(0)", "segmentation fault"),
    ],
)
def test_a_kernel_that_dies_says_why_and_the_session_goes_on(run: Any, code: str, reason: str) -> None:
    run("open('kept.txt', 'w').write('here')")
    result = run(f"print('last words', flush=True)\nimport time; time.sleep(0.3)\n{code}")
    assert result["status"] == "lost"
    assert reason in result["reason"]
    assert result["text"] == "last words\n"
    assert run("open('kept.txt').read()")["text"] == "'here'", "files survive a kernel"


@pytest.mark.parametrize(("lines", "times"), [(10, 4), (200_000, 1)])
def test_what_was_flushed_is_there_when_the_kernel_is_killed_at_once(
    run: Any, lines: int, times: int
) -> None:
    """It is on its way then, and no other process has it yet unless flushing sees to that."""
    code = (
        f"import os, signal, sys\nfor i in range({lines}): print(i)\n"
        "sys.stdout.flush()\nos.kill(os.getpid(), signal.SIGKILL)"
    )
    for _ in range(times):
        result = run(code)
        assert result["status"] == "lost"
        assert result["text"] == "".join(f"{i}\n" for i in range(lines))


def test_out_of_memory_takes_the_kernel_and_says_so(http: httpx.Client) -> None:
    created = http.post("/v1/sessions", json={"limits": {"memory_mb": 400}}).json()
    path = f"/v1/sessions/{created['id']}/executions"
    hog = "chunks = []\nwhile True: chunks.append(b'x' * 50_000_000)"
    result = http.post(path, json={"code": hog}).json()
    if created["limits_enforced_by"] == "cgroup":
        assert result["status"] == "lost"
        said = r"the kernel ran out of memory: (\d+) MB used of the limit of 400 MB"
        assert (used := re.fullmatch(said, result["reason"])), result["reason"]
        assert 300 < int(used[1]) <= 400
        assert result["usage"]["memory_peak_bytes"] > 300_000_000
    else:
        assert result["error"]["ename"] == "MemoryError"
    assert http.post(path, json={"code": "6 * 7"}).json()["text"] == "42"
    http.delete(f"/v1/sessions/{created['id']}")


def test_a_child_that_ran_out_of_memory_is_not_taken_for_the_kernel(http: httpx.Client) -> None:
    created = http.post("/v1/sessions", json={"limits": {"memory_mb": 400}}).json()
    path = f"/v1/sessions/{created['id']}/executions"
    hog = "chunks = []\nwhile True: chunks.append(b'x' * 50_000_000)"
    child = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {hog!r}]).returncode"
    assert http.post(path, json={"code": child}).json()["text"] in ("-9", "1")
    ended = http.post(path, json={"code": "import os; os._exit(3)"}).json()
    assert (ended["status"], ended["reason"]) == ("lost", "the kernel process exited with code 3")
    http.delete(f"/v1/sessions/{created['id']}")


def test_cells_behind_a_dead_kernel_do_not_run_without_its_memory(
    http: httpx.Client, session: str
) -> None:
    path = f"/v1/sessions/{session}/executions"
    codes = ["import time; time.sleep(0.5); import os; os._exit(1)", "print('ran')"]
    ids = [http.post(path, json={"code": code, "wait": False}).json()["id"] for code in codes]
    first, second = (http.get(f"{path}/{id}", params={"wait": "true"}).json() for id in ids)
    assert first["status"] == "lost"
    assert second["status"] == "cancelled"
    assert second["outputs"] == []


def test_a_restart_forgets_memory_and_keeps_files(run: Any, http: httpx.Client, session: str) -> None:
    run("x = 1; open('f', 'w').write('data')")
    answer = http.post(f"/v1/sessions/{session}/restart")
    assert answer.status_code == 200
    assert answer.json()["state"] == "ready"
    assert run("'x' in globals(), open('f').read()")["text"] == "(False, 'data')"
    assert run("import sys; 'pandas' in sys.modules")["text"] == "True"


def test_a_restart_cancels_what_runs_and_what_waits(http: httpx.Client, session: str) -> None:
    path = f"/v1/sessions/{session}/executions"
    codes = ["print('on', flush=True)\nwhile True: pass", "print('waiting')"]
    ids = [http.post(path, json={"code": code, "wait": False}).json()["id"] for code in codes]
    with http.stream("GET", f"{path}/{ids[0]}/events") as events:
        next(e for e in read_events(events) if e[1] == "stream")
    http.post(f"/v1/sessions/{session}/restart")
    first, second = (http.get(f"{path}/{id}").json() for id in ids)
    assert (first["status"], second["status"]) == ("cancelled", "cancelled")
    assert first["text"] == "on\n"
    assert "restarted" in first["reason"]


def test_interrupt_reaches_the_cell_and_its_children(run: Any, http: httpx.Client, session: str) -> None:
    results: list[dict[str, Any]] = []
    code = "import subprocess\nprint('on', flush=True)\nsubprocess.run(['sleep', '60'])"
    runner = threading.Thread(target=lambda: results.append(run(code)))
    runner.start()
    with http.stream("GET", f"/v1/sessions/{session}/events") as events:
        next(e for e in read_events(events) if e[1] == "stream")
    assert http.post(f"/v1/sessions/{session}/interrupt").status_code == 200
    runner.join(20)
    assert results[0]["status"] == "error"
    assert results[0]["error"]["ename"] == "KeyboardInterrupt"


def test_a_client_that_goes_away_does_not_stop_its_cell(http: httpx.Client, session: str) -> None:
    path = f"/v1/sessions/{session}/executions"
    code = "import time\nprint('on', flush=True)\ntime.sleep(0.5)\nprint('finished')"
    id = _leave_in_the_middle(http, path, {"code": code})
    result = http.get(f"{path}/{id}", params={"wait": "true"}).json()
    assert result["status"] == "ok"
    assert result["text"] == "on\nfinished\n"


def test_a_client_that_asked_for_it_stops_its_cell_by_going_away(
    http: httpx.Client, session: str
) -> None:
    path = f"/v1/sessions/{session}/executions"
    code = "import time\nprint('on', flush=True)\ntime.sleep(60)\nprint('finished')"
    id = _leave_in_the_middle(http, path, {"code": code, "cancel_on_disconnect": True, "timeout": 90})
    result = http.get(f"{path}/{id}", params={"wait": "true"}).json()
    assert result["status"] == "cancelled"
    assert "went away" in result["reason"]


def _leave_in_the_middle(http: httpx.Client, path: str, body: dict[str, Any]) -> str:
    with http.stream("POST", path, json=body, headers={"Accept": "text/event-stream"}) as answer:
        for _, kind, data in read_events(answer):
            if kind == "stream":
                return str(data["execution_id"])
    raise AssertionError("the cell printed nothing")


def test_a_cell_cannot_kill_the_kernel_host(run: Any) -> None:
    result = run("import os, signal\nx = 1\nos.kill(1, signal.SIGKILL); os.kill(1, signal.SIGTERM)")
    assert result["status"] == "ok"
    assert run("x")["text"] == "1"


def test_a_sandbox_that_is_killed_ends_its_session_with_a_reason(
    run: Any, http: httpx.Client, session: str
) -> None:
    path = f"/v1/sessions/{session}/executions"
    body = {"code": "print('on', flush=True)\nimport time; time.sleep(60)", "wait": False, "timeout": 90}
    cell = http.post(path, json=body).json()["id"]
    with http.stream("GET", f"{path}/{cell}/events") as answer:
        events = read_events(answer)
        next(e for e in events if e[1] == "stream")
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get("INTERPRETER_SANDBOX") == session:
                    process.kill()
        done = next(e for e in events if e[1] == "done")[2]["execution"]
    assert done["status"] == "lost"
    assert done["text"] == "on\n"
    assert "the sandbox ended" in done["reason"]
    info = http.get(f"/v1/sessions/{session}").json()
    assert info["state"] == "failed"
    assert "SIGKILL" in info["reason"]
    answer = http.post(path, json={"code": "1"})
    assert answer.status_code == 409
    assert answer.json()["error"]["code"] == "wrong_state"
    assert http.get(path).json()["executions"][0]["id"] == cell


def test_a_killed_zygote_is_replaced_when_it_is_needed(
    run: Any, http: httpx.Client, session: str
) -> None:
    code = (
        "import os, signal\n"
        "for pid in filter(str.isdecimal, os.listdir('/proc')):\n"
        "    try: command = open(f'/proc/{pid}/cmdline').read()\n"
        "    except OSError: continue\n"
        "    if 'sandbox.zygote' in command and int(pid) != os.getpid():\n"
        "        os.kill(int(pid), signal.SIGKILL)\n"
    )
    assert run("x = 5\n" + code)["status"] == "ok"
    assert run("x")["text"] == "5"
    assert http.post(f"/v1/sessions/{session}/restart").json()["state"] == "ready"
    assert run("'x' in globals()")["text"] == "False"


def test_a_fork_bomb_harms_only_its_session(http: httpx.Client, session: str) -> None:
    created = http.post("/v1/sessions", json={"limits": {"processes": 64}}).json()
    bomb = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"
    path = f"/v1/sessions/{created['id']}/executions"
    result = http.post(path, json={"code": bomb, "timeout": 2}, timeout=60).json()
    assert result["status"] in ("timeout", "lost")
    began = time.monotonic()
    other = http.post(f"/v1/sessions/{session}/executions", json={"code": "1+1"}).json()
    assert other["text"] == "2"
    assert time.monotonic() - began < 20
    assert http.delete(f"/v1/sessions/{created['id']}").status_code == 200


def test_deleting_a_session_ends_its_cells_and_its_followers(http: httpx.Client) -> None:
    id = http.post("/v1/sessions").json()["id"]
    path = f"/v1/sessions/{id}/executions"
    cell = http.post(path, json={"code": "while True: pass", "wait": False}).json()
    followed: list[str] = []

    def follow() -> None:
        with http.stream("GET", f"/v1/sessions/{id}/events") as answer:
            followed.extend(kind for _, kind, _ in read_events(answer))

    follower = threading.Thread(target=follow)
    follower.start()
    deleted = http.delete(f"/v1/sessions/{id}").json()
    assert deleted.pop("events") > 2
    assert deleted == {"id": id, "executions": 1, "workspace_bytes": 0, "sandbox": True}
    follower.join(20)
    assert not follower.is_alive()
    assert http.get(f"{path}/{cell['id']}").status_code == 404
    assert http.get(f"/v1/sessions/{id}").json()["error"]["code"] == "session_not_found"


def test_an_interrupt_right_at_the_start_is_not_lost(http: httpx.Client, session: str) -> None:
    path = f"/v1/sessions/{session}/executions"
    for _ in range(20):
        body = {"code": "while True: pass", "wait": False, "timeout": 20}
        cell = http.post(path, json=body).json()["id"]
        http.post(f"/v1/sessions/{session}/interrupt")
        result = http.get(f"{path}/{cell}", params={"wait": "true"}).json()
        assert result["status"] == "error", result
        assert result["error"]["ename"] == "KeyboardInterrupt"


def test_an_interrupt_of_an_idle_session_hits_no_later_cell(
    run: Any, http: httpx.Client, session: str
) -> None:
    assert http.post(f"/v1/sessions/{session}/interrupt").status_code == 200
    assert run("1 + 1")["text"] == "2"


def test_an_asynchronous_cell_can_be_interrupted(run: Any) -> None:
    result = run("import asyncio\nawait asyncio.sleep(60)", timeout=0.5)
    assert result["status"] == "timeout"
    assert "killed" not in result["reason"]
    assert run("1 + 1")["text"] == "2"
