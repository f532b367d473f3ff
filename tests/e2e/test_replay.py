"""A session that is created with a notebook: its cells run one after another, and everyone can see it."""

from __future__ import annotations

from typing import Any

import httpx
import nbformat
import pytest

from tests.conftest import Gateway, only
from tests.e2e.conftest import read_events
from tests.e2e.test_restart_of_the_gateway import wait_for
from tests.gateway.conftest import assert_refused

MARK = "f = open('ran', 'a')\nprint({0}, file=f, flush=True)\nimport time\ntime.sleep(0.2)\n{0}"


def notebook(*sources: str) -> dict[str, Any]:
    """Every source as a code cell, with what it showed once; '# …' is a heading."""
    cells = []
    for number, source in enumerate(sources):
        cell: dict[str, Any] = {"id": f"given-{number}", "metadata": {"tags": ["x"]}, "source": [source]}
        if source.startswith("# "):
            cells.append({**cell, "cell_type": "markdown"})
        else:
            shown = [{"output_type": "stream", "name": "stdout", "text": "old"}]
            cells.append({**cell, "cell_type": "code", "execution_count": 7, "outputs": shown})
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}


def create(http: httpx.Client, *sources: str, **options: Any) -> str:
    answer = http.post("/v1/sessions", json={"notebook": notebook(*sources), **options})
    assert answer.status_code in (201, 202), answer.text
    return f"/v1/sessions/{answer.json()['id']}"


def replayed(http: httpx.Client, path: str) -> dict[str, Any]:
    """How the replay ended."""

    def over() -> Any:
        replay = http.get(path).json()["replay"]
        return replay if replay["state"] in ("done", "failed", "cancelled") else None

    replay: dict[str, Any] = wait_for(over, 120)
    return replay


def executions(http: httpx.Client, path: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = http.get(f"{path}/executions").json()["executions"]
    return found


def test_a_notebook_is_replayed_cell_by_cell(http: httpx.Client) -> None:
    sources = [
        "# Title",
        "x = 1",
        "",
        "# Middle",
        "print('shown')\nx + 1",
        "%%bash\necho from bash",
        "# End",
    ]
    path = create(http, *sources)
    after = http.post(f"{path}/executions", json={"code": "x += 1\nx"}).json()
    assert after["text"] == "2", "a cell that comes meanwhile runs after the notebook"
    replay = http.get(path).json()["replay"]
    ran = executions(http, path)
    assert [cell["code"] for cell in ran] == [sources[1], sources[4], sources[5], "x += 1\nx"]
    assert [cell["status"] for cell in ran] == ["ok"] * 4
    assert [cell["text"] for cell in ran[:3]] == ["", "shown\n2", "from bash\n"]
    ended = {"error_cell": None, "execution_id": ran[2]["id"], "reason": None}
    assert replay == {"state": "done", "cells": 3, "done": 3, **ended}
    with http.stream("GET", f"{path}/events?follow=false") as answer:
        told = [data["replay"] for _, _, data in read_events(answer) if "replay" in data]
    assert [(p["state"], p["done"]) for p in told] == [
        ("waiting", 0),
        ("running", 0),
        ("running", 1),
        ("running", 2),
        ("done", 3),
    ]
    exported = nbformat.reads(http.get(f"{path}/notebook").text, as_version=4)
    nbformat.validate(exported)
    assert [cell.source for cell in exported.cells] == [*sources, "x += 1\nx"]
    assert [cell.id for cell in exported.cells if cell.cell_type == "markdown"] == [
        *("given-0", "given-3", "given-6")
    ]
    again = http.post("/v1/sessions", json={"notebook": dict(exported)})
    assert again.status_code == 201, "what was exported can be replayed"
    again_path = f"/v1/sessions/{again.json()['id']}"
    assert replayed(http, again_path)["done"] == 4
    for one in (path, again_path):
        http.delete(one)


@only("embedded")
def test_a_failing_cell_stops_the_notebook_unless_it_is_to_go_on(http: httpx.Client) -> None:
    sources = ["1", "1 / 0", "import time\ntime.sleep(60)", "'after'"]
    path = create(http, *sources)
    replay = replayed(http, path)
    assert (replay["state"], replay["done"], replay["error_cell"]) == ("failed", 2, 2)
    assert replay["reason"] == "cell 2: ZeroDivisionError: division by zero"
    assert [cell["status"] for cell in executions(http, path)] == [
        "ok",
        "error",
        "cancelled",
        "cancelled",
    ]
    assert "ZeroDivisionError" in executions(http, path)[3]["reason"]
    assert http.post(f"{path}/executions", json={"code": "'goes on'"}).json()["status"] == "ok"
    http.delete(path)
    path = create(http, *sources, keep_going=True, cell_timeout=1)
    replay = replayed(http, path)
    assert (replay["state"], replay["done"], replay["error_cell"]) == ("failed", 4, 2)
    assert [cell["status"] for cell in executions(http, path)] == ["ok", "error", "timeout", "ok"]
    http.delete(path)


@only("embedded")
@pytest.mark.parametrize("way", ["cancel", "interrupt", "restart", "stop", "kill"])
def test_a_notebook_ends_with_the_cell_the_kernel_or_the_session(http: httpx.Client, way: str) -> None:
    code = "import os, time\nprint('on')\n" + ("os._exit(1)" if way == "kill" else "time.sleep(600)")
    path = create(http, "1", code, "'never'", keep_going=way != "interrupt")
    running = wait_for(lambda: executions(http, path)[1])["id"]
    if way != "kill":
        wait_for(lambda: "on" in http.get(f"{path}/executions/{running}").json()["text"])
    if way == "cancel":
        assert http.delete(f"{path}/executions/{running}").json()["status"] == "cancelled"
    elif way != "kill":
        assert http.post(f"{path}/{way}").status_code == 200
    replay = replayed(http, path)
    expected = {"cancel": "cancelled", "restart": "cancelled"}.get(way, "failed")
    assert replay["state"] == expected
    assert replay["reason"].startswith("cell 2: ")
    ran = executions(http, path)
    assert ran[1]["status"] == {"cancel": "cancelled", "restart": "cancelled", "interrupt": "error"}.get(
        way, "lost"
    )
    assert ran[2]["status"] == "cancelled"
    http.delete(path)


def test_a_notebook_goes_on_after_the_gateway_was_killed(own_gateway: Gateway) -> None:
    own_gateway.start()
    count = 9
    sources = ["# Marks", *(MARK.format(number) for number in range(count))]
    with own_gateway.client() as http:
        path = create(http, *sources, wait=False)
    for done in (0, 2, 4, 6):
        # At once after it was promised, then in the middle of a cell; once as an operator ends it.
        with own_gateway.client() as http:
            wait_for(lambda: http.get(path).json()["replay"]["done"] >= done, 60)  # noqa: B023
        if done == 4:
            own_gateway.end()
        else:
            own_gateway.kill()
        own_gateway.start()
    with own_gateway.client() as http:
        after = http.post(f"{path}/executions", json={"code": "print(open('ran').read())"}).json()
        assert after["text"].split() == [str(n) for n in range(count)], "each once, and in order"
        replay = replayed(http, path)
        assert (replay["state"], replay["done"], replay["cells"]) == ("done", count, count)
        ran = executions(http, path)
        assert [cell["status"] for cell in ran] == ["ok"] * (count + 1)
        assert [cell["text"] for cell in ran[:count]] == [str(n) for n in range(count)]
        cells = http.get(f"{path}/notebook").json()["cells"]
        assert [cell["source"] for cell in cells] == [*sources, "print(open('ran').read())"]


@only("embedded")
def test_a_paused_session_goes_on_with_its_notebook(own_gateway: Gateway) -> None:
    own_gateway.start()
    with own_gateway.client() as http:
        path = create(http, *(MARK.format(number) for number in range(3)))
        assert http.post(f"{path}/pause").json()["replay"]["state"] == "running"
    own_gateway.kill()
    own_gateway.start()
    with own_gateway.client() as http:
        assert http.get(path).json()["replay"]["state"] == "running"
        http.post(f"{path}/resume")
        assert replayed(http, path)["done"] == 3


@only("embedded")
def test_the_cells_of_a_notebook_leave_room_in_the_queue(http: httpx.Client) -> None:
    slow = "import time\ntime.sleep(600)"
    path = create(http, slow, "1", "2", "3", limits={"queued_cells": 1})
    more = [http.post(f"{path}/executions", json={"code": "4", "wait": False}) for _ in range(2)]
    assert [answer.status_code for answer in more] == [202, 429]
    http.delete(path)


@only("embedded")
def test_what_cannot_be_replayed_is_refused(http: httpx.Client) -> None:
    def refused(given: Any, code: str, *words: str, **options: Any) -> None:
        answer = http.post("/v1/sessions", json={"notebook": given, **options})
        assert_refused(answer, code, *words)

    before = len(http.get("/v1/sessions").json()["sessions"])
    refused({}, "invalid_request", "nbformat", "$.notebook")
    refused("x = 1", "invalid_request", "$.notebook")
    refused({"nbformat": 3, "worksheets": [{"cells": []}]}, "invalid_notebook", "version 3", "nbconvert")
    refused({"nbformat": 4, "cells": [{"source": "1"}]}, "invalid_request", "cell_type")
    refused({"nbformat": 4, "cells": [{"cell_type": "code", "source": 1}]}, "invalid_request", "source")
    refused(notebook(*["1"] * 10_000), "invalid_notebook", "10,000 cells", "1,000")
    refused(notebook("x" * 5_000_000), "code_too_long", "5,000,007", "4,194,304")
    refused(notebook("1", "2", "3"), "limit_too_high", "3 cells", limits={"executions": 2})
    refused(notebook("1"), "limit_too_high", "600", cell_timeout=10_000)
    large = notebook("1")
    large["cells"][0]["outputs"] = ["x" * 68_000_000]
    refused(large, "request_too_large", "67,108,864")
    assert len(http.get("/v1/sessions").json()["sessions"]) == before


@only("embedded")
def test_a_notebook_with_large_outputs_is_taken_and_its_outputs_are_not_kept(
    gateway: Gateway, http: httpx.Client
) -> None:
    given = notebook("'small'")
    given["cells"][0]["outputs"] = [
        {"output_type": "stream", "name": "stdout", "text": "x" * 50_000_000}
    ]
    path = f"/v1/sessions/{http.post('/v1/sessions', json={'notebook': given}).json()['id']}"
    assert replayed(http, path)["state"] == "done"
    events = http.get(f"{path}/events?follow=false")
    assert len(events.content) < 100_000
    http.delete(path)


@only("embedded")
def test_a_notebook_without_code_is_done_at_once(http: httpx.Client) -> None:
    path = create(http, "# Only", "# Words")
    assert http.get(path).json()["replay"]["state"] == "done"
    cells = http.get(f"{path}/notebook").json()["cells"]
    assert [cell["source"] for cell in cells] == ["# Only", "# Words"]
    http.delete(path)
