"""A sandbox that stood ready has gone through a cell before anybody had it, and nothing tells of it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import httpx
import pytest

from tests.e2e.conftest import read_events

LOOK = """
import json
namespace = get_ipython().user_ns
kept = {name: namespace.get(name, "") for name in ("_", "__", "___", "_1", "_i", "_ii", "_i1")}
kept["outputs"] = len(get_ipython().history_manager.outputs)
print(json.dumps([kept, len(Out), len(In), sorted(name for name in namespace if name[:1] != "_")]))
"""


@pytest.fixture
def warm(http: httpx.Client) -> Iterator[str]:
    """A session that got a sandbox which stood ready."""
    deadline = time.monotonic() + 120
    while not any(pool["ready"] for pool in http.get("/v1/status").json()["pools"]):
        assert time.monotonic() < deadline, "none is made ready"
        time.sleep(0.05)
    session = http.post("/v1/sessions").json()
    assert session["warm"], session
    yield session["id"]
    http.delete(f"/v1/sessions/{session['id']}")


def test_the_first_cell_finds_no_trace_of_one_before_it(http: httpx.Client, warm: str) -> None:
    url = f"/v1/sessions/{warm}/executions"
    first = http.post(url, json={"code": LOOK, "store_history": False}).json()
    assert first["status"] == "ok", first
    kept, results, inputs, names = json.loads(first["text"])
    assert kept == {"_": "", "__": "", "___": "", "_1": "", "_i": "", "_ii": "", "_i1": "", "outputs": 0}
    assert (results, inputs) == (0, 1), "IPython's own empty first input"
    assert sorted(names) == sorted(
        ["In", "Out", "exit", "get_ipython", "json", "kept", "namespace", "open", "quit"]
    )
    second = http.post(url, json={"code": "40 + 2"}).json()
    assert (second["text"], second["execution_count"]) == ("42", 1)
    assert http.post(url, json={"code": "_ + len(Out)"}).json()["text"] == "43", "its own are remembered"
    with http.stream("GET", f"/v1/sessions/{warm}/events?follow=false") as answer:
        events = list(read_events(answer))
    ours = {cell["id"] for cell in http.get(url).json()["executions"]}
    shown = {data["execution_id"] for _, kind, data in events if kind != "status"}
    assert shown == ours


def test_what_its_first_cell_changes_and_uses_is_told(http: httpx.Client, warm: str) -> None:
    cell = {"code": "open('first.txt', 'w').write('1')"}
    first = http.post(f"/v1/sessions/{warm}/executions", json=cell).json()
    assert [file["path"] for file in first["files"]] == ["first.txt"], first
    again = http.post(f"/v1/sessions/{warm}/executions", json={"code": "1"}).json()
    assert again["files"] == []
    assert (first["usage"] is None) == (again["usage"] is None)
