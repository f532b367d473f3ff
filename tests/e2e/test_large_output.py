"""Output that is too much: whole for those who stream it, bounded for those who wait for it."""

from __future__ import annotations

from typing import Any

import httpx
import msgspec

from tests.conftest import Gateway
from tests.e2e.test_restart_of_the_gateway import wait_for

MEGABYTE = 1024 * 1024
LINES = 100_000
PRINT_100_MB = f"for i in range({LINES}): print(f'{{i:>10}}', 'x' * 988)"
"""Prints 100 MB in lines of 1,000 characters, each with its number."""


def test_100_mb_arrive_whole_at_a_client_that_streams(
    http: httpx.Client, session: str, gateway: Gateway
) -> None:
    before = gateway.memory()
    most = 0
    path = f"/v1/sessions/{session}/executions"
    text_bytes = 0
    next_line = 0
    rest = b""
    with http.stream(
        "POST",
        path,
        json={"code": PRINT_100_MB, "timeout": 300},
        headers={"Accept": "text/event-stream"},
    ) as answer:
        kind = b""
        for chunk in answer.iter_raw(1024 * 1024):
            rest += chunk
            *lines, rest = rest.split(b"\n")
            for line in lines:
                if line.startswith(b"event: "):
                    kind = line[7:]
                elif line.startswith(b"data: ") and kind == b"stream":
                    text = msgspec.json.decode(line[6:])["text"]
                    text_bytes += len(text)
                    next_line += text.count("\n")
                elif line.startswith(b"data: ") and kind == b"done":
                    done = msgspec.json.decode(line[6:])["execution"]
            most = max(most, gateway.memory())
    assert text_bytes == LINES * 1000
    assert next_line == LINES
    assert done["status"] == "ok"
    assert most - before < 150 * MEGABYTE
    assert done["truncated"]["total_bytes"] == LINES * 1000
    with http.stream("GET", done["truncated"]["url"]) as whole:
        numbers = [int(line[:10]) for line in whole.iter_lines()]
    assert numbers == list(range(LINES)), "every line is there, once, in order"
    assert most - before < 150 * MEGABYTE


def test_a_waiting_client_gets_the_head_and_the_tail(run: Any) -> None:
    code = "for i in range(20_000): print(f'{i:>8}', 'x' * 90)"
    result = run(code, max_output_bytes=10_000)
    first, last = result["text"].index("0 x"), result["text"].index("19999 x")
    assert first < last
    assert "bytes of output cut here" in result["text"]
    assert len(result["text"]) < 12_000
    assert result["truncated"]["total_bytes"] == 20_000 * 100
    assert result["truncated"]["kept_bytes"] <= 10_000


def test_late_output_is_cut_where_the_cell_asked_for_it(
    run: Any, http: httpx.Client, session: str
) -> None:
    code = (
        "import threading\ngo = threading.Event()\n"
        "def late():\n    go.wait()\n    for i in range(2000): print(f'{i:>8}', 'x' * 90)\n    print('last')\n"
        "threading.Thread(target=late).start()\nprint('early')"
    )
    cell = run(code, max_output_bytes=10_000)
    assert (cell["text"], cell["truncated"]) == ("early\n", None)
    for _ in range(10):
        run("pass")  # what is known of it is in the store alone
    run("go.set()")

    def ended() -> Any:
        found = http.get(f"/v1/sessions/{session}/executions/{cell['id']}").json()
        return found if found["text"].endswith("last\n") else None

    found = wait_for(ended)
    assert found["text"].startswith("early\n")
    assert "bytes of output cut here" in found["text"]
    assert len(found["text"]) < 12_000
    assert found["truncated"]["total_bytes"] == 2000 * 100 + len("early\nlast\n")
    assert found["truncated"]["kept_bytes"] <= 10_000


def test_an_output_of_a_gigabyte_leaves_the_gateway_small(http: httpx.Client, gateway: Gateway) -> None:
    limits = {"memory_mb": 8192, "recorded_mb": 2048}
    id = http.post("/v1/sessions", json={"limits": limits}).json()["id"]
    before = gateway.memory()
    code = "print('x' * 1_000_000_000)"
    result = http.post(
        f"/v1/sessions/{id}/executions", json={"code": code, "timeout": 300}, timeout=300
    ).json()
    assert result["status"] == "ok"
    assert result["truncated"]["total_bytes"] == 1_000_000_001
    assert gateway.memory() - before < 200 * MEGABYTE
    http.delete(f"/v1/sessions/{id}")


def test_one_message_of_a_gigabyte_is_replaced_by_a_note(http: httpx.Client, gateway: Gateway) -> None:
    id = http.post("/v1/sessions", json={"limits": {"memory_mb": 12_000}}).json()["id"]
    before = gateway.memory()
    code = (
        "from ipykernel.kernelapp import IPKernelApp\nkernel = IPKernelApp.instance().kernel\n"
        "data = {'text/plain': 'x' * 1_000_000_000}\n"
        "kernel.session.send(kernel.iopub_socket, 'display_data',\n"
        "    {'data': data, 'metadata': {}}, parent=kernel.get_parent())\n"
        "print('after')"
    )
    path = f"/v1/sessions/{id}/executions"
    result = http.post(path, json={"code": code, "timeout": 300}, timeout=300).json()
    assert result["status"] == "ok", result
    assert "display_data of 1,000,0" in result["text"]
    assert "was not kept" in result["text"]
    assert result["text"].endswith("after\n")
    assert gateway.memory() - before < 200 * MEGABYTE
    http.delete(f"/v1/sessions/{id}")


def test_a_cell_that_prints_without_end_is_stopped(http: httpx.Client) -> None:
    id = http.post("/v1/sessions", json={"limits": {"recorded_mb": 5}}).json()["id"]
    code = "while True: print('x' * 1000)"
    result = http.post(f"/v1/sessions/{id}/executions", json={"code": code}).json()
    assert result["status"] == "error"
    assert result["error"]["ename"] == "OutputLimitExceeded"
    assert "5 MB" in result["reason"]
    assert http.post(f"/v1/sessions/{id}/executions", json={"code": "1"}).json()["text"] == "1"
    http.delete(f"/v1/sessions/{id}")


def test_a_reader_that_stands_still_delays_nobody(http: httpx.Client, session: str) -> None:
    path = f"/v1/sessions/{session}/executions"
    body = {"code": "for i in range(30_000): print('x' * 999)", "timeout": 120}
    with http.stream("POST", path, json=body, headers={"Accept": "text/event-stream"}) as slow:
        # It reads nothing: the cell must end all the same.
        id = slow.headers["Location"].rsplit("/", 1)[1]
        result = http.get(f"{path}/{id}", params={"wait": "true"}).json()
        assert result["status"] == "ok"
        received = sum(line.count("x") for line in slow.iter_lines() if line.startswith("data: "))
    assert received >= 30_000 * 999, "and then it gets everything"


def test_what_was_printed_does_not_stay_in_the_kernels_memory(run: Any) -> None:
    run("print('x' * 10_000_000)")
    assert run("sum(len(str(o)) for o in get_ipython().history_manager.outputs.values())")["text"] == "0"


def test_an_image_over_the_limit_is_left_out_with_a_note(run: Any) -> None:
    code = "from IPython.display import display\ndisplay({'image/png': 'A' * 100_000, 'text/plain': 'pic'}, raw=True)"
    result = run(code, max_output_bytes=20_000)
    (output, _note) = result["outputs"]
    assert list(output["data"]) == ["text/plain"]
    assert output["data"]["text/plain"].startswith("pic\n[image/png of 100,0")
    assert result["truncated"] is not None
