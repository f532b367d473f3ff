"""A cell's journey and what comes back, on a real kernel behind a real gateway."""

from __future__ import annotations

import base64
import threading
import time
from typing import Any

import httpx
import nbformat
import pytest

from tests.e2e.conftest import read_events


def outputs_of_type(execution: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [output for output in execution["outputs"] if output["output_type"] == kind]


def test_state_stays_between_cells(run: Any) -> None:
    assert run("x = 40")["outputs"] == []
    result = run("x + 2")
    assert result["status"] == "ok"
    assert result["text"] == "42"
    assert result["execution_count"] == 2
    assert result["duration_ms"] > 0
    assert result["started_at"] >= result["queued_at"]


def test_pandas_is_loaded_and_shows_as_html(run: Any) -> None:
    result = run(
        "import sys; loaded = 'pandas' in sys.modules\nimport pandas as pd; pd.DataFrame({'a': [1, 2]})"
    )
    (output,) = result["outputs"]
    assert output["output_type"] == "execute_result"
    assert "<table" in output["data"]["text/html"]
    assert run("loaded")["text"] == "True"


def test_a_plot_is_an_image(run: Any) -> None:
    result = run("import matplotlib.pyplot as plt\nplt.plot([1, 3, 2]);")
    (output,) = outputs_of_type(result, "display_data")
    assert base64.b64decode(output["data"]["image/png"]).startswith(b"\x89PNG")
    assert "Figure" in output["data"]["text/plain"]


def test_outputs_are_a_valid_notebook(run: Any) -> None:
    result = run(
        "import sys, json\nfrom IPython.display import display, JSON, HTML\n"
        "print('out'); print('err', file=sys.stderr); display(HTML('<b>x</b>'), metadata={'m': 1})\n"
        "display(JSON({'a': [1]})); 1/0"
    )
    cell = nbformat.v4.new_code_cell("", outputs=[nbformat.from_dict(o) for o in result["outputs"]])
    nbformat.validate(nbformat.v4.new_notebook(cells=[cell]))
    html = outputs_of_type(result, "display_data")[0]
    assert html["metadata"] == {"m": 1}


def test_interleaved_streams_are_joined(run: Any) -> None:
    result = run(
        "import sys\nfor i in range(3):\n"
        "    print('o', i); sys.stdout.flush(); print('e', i, file=sys.stderr); sys.stderr.flush()"
    )
    assert result["outputs"] == [
        {"output_type": "stream", "name": "stdout", "text": "o 0\no 1\no 2\n"},
        {"output_type": "stream", "name": "stderr", "text": "e 0\ne 1\ne 2\n"},
    ]


def test_output_of_child_processes_and_of_c_code_is_captured(run: Any) -> None:
    result = run("import subprocess, os\nsubprocess.run('echo child; echo oops >&2', shell=True)\nNone")
    run("import time; time.sleep(0.2)")
    streams = {o["name"]: o["text"] for o in outputs_of_type(result, "stream")}
    assert "child" in streams.get("stdout", "") or "child" in result["text"]


def test_a_forked_process_prints_into_its_cell(run: Any) -> None:
    code = (
        "import multiprocessing, time\n"
        "p = multiprocessing.get_context('fork').Process(target=print, args=('from the child',))\n"
        "p.start(); p.join(); time.sleep(0.3); print('from the parent')"
    )
    text = run(code)["text"]
    assert "from the child" in text
    assert "from the parent" in text


def test_an_error_has_a_clean_traceback(run: Any) -> None:
    result = run("def f():\n    return 1/0\nf()")
    assert result["status"] == "error"
    assert result["error"]["ename"] == "ZeroDivisionError"
    assert result["error"]["evalue"] == "division by zero"
    assert "\x1b" not in "".join(result["error"]["traceback"])
    assert any("return 1/0" in line for line in result["error"]["traceback"])
    assert "ZeroDivisionError" in result["text"]
    assert run("'still here'")["text"] == "'still here'"


@pytest.mark.parametrize("cells_between", [0, 6])
def test_displays_are_updated_by_id_also_from_another_cell(
    run: Any, http: httpx.Client, session: str, cells_between: int
) -> None:
    first = run("h = display('one', display_id='d1')")
    assert first["outputs"][0]["data"]["text/plain"] == "'one'"
    for _ in range(cells_between):
        run("None")
    run("from IPython.display import update_display; update_display('two', display_id='d1')")
    path = f"/v1/sessions/{session}/executions"
    again = http.get(f"{path}/{first['id']}").json()
    assert again["outputs"] == [{**first["outputs"][0], "data": {"text/plain": "'two'"}}]
    assert http.get(path).json()["executions"][0] == again


def test_clear_output_is_obeyed(run: Any) -> None:
    code = "from IPython.display import clear_output\nprint('a')\nclear_output(wait={wait})\n{then}"
    assert run(code.format(wait=False, then=""))["outputs"] == []
    assert run(code.format(wait=True, then=""))["text"] == "a\n"
    assert run(code.format(wait=True, then="print('b')"))["text"] == "b\n"


def test_late_output_of_a_thread_belongs_to_its_cell(run: Any, http: httpx.Client, session: str) -> None:
    code = (
        "import threading\ngo = threading.Event()\n"
        "def late():\n    go.wait(); print('late')\n"
        "t = threading.Thread(target=late); t.start(); print('early')"
    )
    first = run(code)
    assert first["text"] == "early\n"
    run("go.set(); t.join()")
    path = f"/v1/sessions/{session}/executions/{first['id']}"
    deadline = time.monotonic() + 10
    while "late" not in http.get(path).json()["text"] and time.monotonic() < deadline:
        time.sleep(0.02)
    assert http.get(path).json()["text"] == "early\nlate\n"


def test_progress_bars_read_as_they_look_in_the_end(run: Any) -> None:
    result = run("print('\\r10%', end=''); print('\\r100%', end=''); print()")
    assert result["text"] == "100%\n"


def test_strange_text_survives(run: Any) -> None:
    assert run("print('日本語 \\x00 \\u2028 🎉')")["text"] == "日本語 \x00 \u2028 🎉\n"
    result = run("import os; os.write(1, b'\\xff\\xfe raw\\n'); import time; time.sleep(0.3)")
    assert "raw" in result["text"]
    assert run("float('nan')")["text"] == "nan"


def test_a_stream_tells_everything_in_order(stream: Any) -> None:
    events = stream("import time\nfor i in range(3): print(i, flush=True); time.sleep(0.1)\n'end'")
    kinds = [kind for _, kind, _ in events]
    assert kinds[:2] == ["status", "status"]
    assert kinds[-1] == "done"
    text = "".join(data["text"] for _, kind, data in events if kind == "stream")
    assert text == "0\n1\n2\n"
    assert kinds.count("stream") == 3
    numbers = [seq for seq, _, _ in events]
    assert numbers == sorted(numbers)
    done = events[-1][2]["execution"]
    assert done["status"] == "ok"
    assert done["text"] == "0\n1\n2\n'end'"


def test_events_can_be_followed_from_any_number(run: Any, http: httpx.Client, session: str) -> None:
    run("print('a')")
    last = run("print('b')")
    path = f"/v1/sessions/{session}/events"
    with http.stream("GET", path, params={"follow": "false"}) as answer:
        everything = list(read_events(answer))
    assert [seq for seq, _, _ in everything] == list(range(1, len(everything) + 1))
    middle = len(everything) // 2
    with http.stream(
        "GET", path, params={"follow": "false"}, headers={"Last-Event-ID": str(middle)}
    ) as answer:
        assert list(read_events(answer)) == everything[middle:]
    path = f"/v1/sessions/{session}/executions/{last['id']}/events"
    with http.stream("GET", path) as answer:
        own = list(read_events(answer))
    assert own == [event for event in everything if event[2]["execution_id"] == last["id"]]


def test_everyone_sees_what_anyone_runs(http: httpx.Client, session: str, run: Any) -> None:
    seen: list[str] = []
    started = threading.Event()

    def watch() -> None:
        with http.stream("GET", f"/v1/sessions/{session}/events") as answer:
            started.set()
            for _, kind, data in read_events(answer):
                if kind == "stream":
                    seen.append(data["text"])
                if kind == "done":
                    return

    watcher = threading.Thread(target=watch)
    watcher.start()
    started.wait()
    run("print('hello, watcher')")
    watcher.join(30)
    assert seen == ["hello, watcher\n"]


def test_a_running_execution_can_be_read_and_waited_for(http: httpx.Client, session: str) -> None:
    path = f"/v1/sessions/{session}/executions"
    code = "print('going', flush=True)\nimport time\nwhile not os.path.exists('stop'): time.sleep(0.01)"
    answer = http.post(path, json={"code": "import os\n" + code, "wait": False})
    assert answer.status_code == 202
    id = answer.json()["id"]
    with http.stream("GET", f"{path}/{id}/events") as events:
        next(e for e in read_events(events) if e[1] == "stream")
    running = http.get(f"{path}/{id}").json()
    assert running["status"] == "running"
    assert running["text"] == "going\n"
    assert http.get(f"/v1/sessions/{session}").json()["state"] == "busy"
    cancelled = http.delete(f"{path}/{id}").json()
    assert cancelled["status"] == "cancelled"
    assert http.get(f"{path}/{id}", params={"wait": "true"}).json() == cancelled


def test_input_is_asked_for_and_answered(http: httpx.Client, session: str) -> None:
    path = f"/v1/sessions/{session}/executions"
    code = "name = input('who? ')\nimport getpass\npw = getpass.getpass('secret? ')\nname + pw"
    with http.stream(
        "POST", path, json={"code": code, "allow_stdin": True}, headers={"Accept": "text/event-stream"}
    ) as answer:
        asked = []
        for _, kind, data in read_events(answer):
            if kind == "input_request":
                asked.append((data["prompt"], data["password"]))
                value = "Ada" if not data["password"] else "42"
                reply = http.post(f"{path}/{data['execution_id']}/input", json={"value": value})
                assert reply.status_code == 204
            if kind == "done":
                assert data["execution"]["text"].endswith("'Ada42'")
    assert asked == [("who? ", False), ("secret? ", True)]


def test_input_fails_clearly_for_a_client_that_cannot_answer(run: Any) -> None:
    result = run("input('who? ')")
    assert result["status"] == "error"
    assert result["error"]["ename"] == "StdinNotImplementedError"
    assert "does not support input" in result["error"]["evalue"]


def test_input_nobody_asked_for_is_refused(http: httpx.Client, session: str, run: Any) -> None:
    done = run("1")
    answer = http.post(f"/v1/sessions/{session}/executions/{done['id']}/input", json={"value": "x"})
    assert answer.status_code == 409
    assert answer.json()["error"]["code"] == "input_not_expected"


def test_cells_sent_at_once_run_in_order_each_with_its_own_outputs(
    http: httpx.Client, session: str
) -> None:
    path = f"/v1/sessions/{session}/executions"
    ids = []
    for i in range(10):
        code = f"print({i})" if i != 4 else "1/0"
        ids.append(http.post(path, json={"code": code, "wait": False}).json()["id"])
    results = [http.get(f"{path}/{id}", params={"wait": "true"}).json() for id in ids]
    assert [r["status"] for r in results] == ["ok"] * 4 + ["error"] + ["ok"] * 5
    assert [r["text"] for i, r in enumerate(results) if i != 4] == [
        f"{i}\n" for i in range(10) if i != 4
    ]
    assert [r["execution_count"] for r in results] == list(range(1, 11))
    listed = http.get(path, params={"limit": 3, "after": ids[1]}).json()["executions"]
    assert [e["id"] for e in listed] == ids[2:5]


def test_the_queue_has_an_end(http: httpx.Client) -> None:
    created = http.post("/v1/sessions", json={"limits": {"queued_cells": 2}}).json()
    path = f"/v1/sessions/{created['id']}/executions"
    answers = [
        http.post(path, json={"code": "import time; time.sleep(60)", "wait": False, "timeout": 90})
        for _ in range(4)
    ]
    assert [a.status_code for a in answers] == [202, 202, 202, 429]
    assert answers[-1].json()["error"]["code"] == "queue_full"
    assert http.delete(f"/v1/sessions/{created['id']}").json()["executions"] == 3


def test_a_queued_cell_can_be_cancelled(http: httpx.Client, session: str) -> None:
    path = f"/v1/sessions/{session}/executions"
    first = http.post(
        path, json={"code": "import time; time.sleep(60)", "wait": False, "timeout": 90}
    ).json()
    second = http.post(path, json={"code": "print('never')", "wait": False}).json()
    assert http.delete(f"{path}/{second['id']}").json()["status"] == "cancelled"
    assert http.delete(f"{path}/{first['id']}").json()["status"] == "cancelled"
    assert http.get(f"{path}/{second['id']}").json()["started_at"] is None


def test_history_can_be_left_out(run: Any) -> None:
    assert run("1", store_history=False)["status"] == "ok"
    assert run("2")["execution_count"] == 1


def test_what_fails_in_the_thread_that_sends_keeps_nothing_from_being_sent(
    http: httpx.Client, session: str
) -> None:
    code = "import sys\nsend = sys.stdout.pub_thread.schedule\nfor _ in range(3): send(lambda: 1 / 0)\nprint('x' * 5_000_000)"
    body = {"code": code, "max_output_bytes": 10_000_000}
    for _ in range(2):
        ran = http.post(f"/v1/sessions/{session}/executions", json=body).json()
        assert (ran["status"], len(ran["text"])) == ("ok", 5_000_001)


def test_what_is_shown_of_an_ended_cell_is_what_it_shows_now(http: httpx.Client, session: str) -> None:
    path = f"/v1/sessions/{session}/executions"
    show = "from IPython.display import display, update_display\n_ = display({'text/plain': 'old'}, raw=True, display_id='d')"
    update = "update_display({'text/plain': 'new'}, raw=True, display_id='d')"
    shown = http.post(path, json={"code": show}).json()
    assert http.post(path, json={"code": update}).json()["status"] == "ok"
    for query in ("", "?wait=true"):
        outputs = http.get(f"{path}/{shown['id']}{query}").json()["outputs"]
        assert [output["data"]["text/plain"] for output in outputs] == ["new"]
