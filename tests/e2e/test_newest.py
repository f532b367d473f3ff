"""Who opens a long history begins at its end, and goes on from there by events."""

from __future__ import annotations

import httpx

from tests.conftest import only
from tests.e2e.conftest import Run, read_events

pytestmark = only("embedded")


def test_the_newest_are_listed_first_and_older_ones_after_them(
    http: httpx.Client, session: str, run: Run
) -> None:
    sent = [run(f"{i}")["id"] for i in range(5)]
    url = f"/v1/sessions/{session}/executions"
    first = http.get(url, params={"newest": "true", "limit": 2}).json()
    assert [e["id"] for e in first["executions"]] == [sent[4], sent[3]]
    rest = http.get(url, params={"newest": "true", "after": sent[3]}).json()
    assert [e["id"] for e in rest["executions"]] == [sent[2], sent[1], sent[0]]
    assert [e["id"] for e in http.get(url).json()["executions"]] == sent
    none = http.get(url, params={"newest": "true", "after": sent[0]}).json()
    assert none["executions"] == []


def test_a_list_says_where_to_go_on_by_events(http: httpx.Client, session: str, run: Run) -> None:
    """Ended ones are as of `last_event`; of those that run, every event comes after `follow_after`."""
    url = f"/v1/sessions/{session}/executions"
    empty = http.get(url).json()
    assert empty["follow_after"] == empty["last_event"]
    run("print('over')")
    quiet = http.get(url).json()
    events = http.get(f"/v1/sessions/{session}/events", params={"follow": "false"})
    assert quiet["last_event"] == quiet["follow_after"] == [seq for seq, _, _ in read_events(events)][-1]
    body = {
        "code": "import time\nprint('begun', flush=True)\ntime.sleep(600)",
        "wait": False,
        "timeout": 600,
    }
    running = http.post(url, json=body).json()["id"]
    with http.stream("GET", f"{url}/{running}/events") as stream:
        assert (
            next(seq for seq, kind, _ in read_events(stream) if kind == "stream") > quiet["last_event"]
        )
    busy = http.get(url, params={"newest": "true", "limit": 1}).json()
    assert busy["last_event"] > busy["follow_after"] >= quiet["last_event"]
    events = http.get(
        f"/v1/sessions/{session}/events", params={"follow": "false", "after": busy["follow_after"]}
    )
    told = [(kind, data) for _, kind, data in read_events(events) if data["execution_id"] == running]
    assert told[0][1]["status"] == "queued"
    assert ("stream", "begun\n") in [(kind, data.get("text")) for kind, data in told]
    http.delete(f"{url}/{running}")
