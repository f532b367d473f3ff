"""The disk of the gateway is full: nothing is lost, readers are answered, and it goes on by itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from interpreter.store.journal import Journal
from tests.conftest import Gateway
from tests.faults.conftest import SmallDisk
from tests.faults.scene import Sessions, sessions, wait_for

LINES = 12_000
FLOOD = f"for i in range({LINES}): print(i, 'x' * 2000)"
FLOODED = "".join(f"{i} {'x' * 2000}\n" for i in range(LINES))
"""More than what a sandbox keeps for a gateway that does not take it."""


@pytest.fixture
def cramped(small_disk: SmallDisk) -> Iterator[Gateway]:
    """A gateway with everything on the small disk, its log included."""
    gateway = Gateway(small_disk.path / "data", spares="0", limits__disk_mb="16")
    gateway.log = small_disk.path / "log"
    yield gateway
    if gateway.process is not None:
        if gateway.process.poll() is not None:
            gateway.start()
        gateway.stop()


def health(s: Sessions) -> dict[str, object]:
    return dict(s.client.get("/healthz").json())


def test_a_cell_goes_on_or_waits_and_nothing_it_printed_is_lost(
    cramped: Gateway, small_disk: SmallDisk
) -> None:
    cramped.start()
    with sessions(cramped) as s:
        id = s.create()
        before = s.run(id, "x = 1; print('before')")
        assert health(s)["status"] == "ok"
        small_disk.fill()
        # Nobody has noticed yet: it is taken, and written down in space that was taken beforehand.
        cell = s.begin(id, FLOOD)
        wait_for(lambda: health(s)["status"] == "degraded")
        (problem,) = health(s)["problems"]
        assert "disk is full" in problem
        assert "free some space" in problem

        for path, body in ((f"/v1/sessions/{id}/executions", {"code": "1"}), ("/v1/sessions", {})):
            refused = s.client.post(path, json=body)
            assert refused.status_code == 503, "what cannot be recorded is not begun"
            assert refused.json()["error"]["code"] == "store_unavailable"
            assert int(refused.headers["Retry-After"]) > 0
        assert s.read(id)["state"] == "busy"
        assert s.cell(id, cell)["status"] == "running", "it waits to be listened to"
        assert s.cell(id, before["id"])["text"] == "before\n"
        assert s.cells(id)[0]["text"] == "before\n"
        assert s.numbers(id)

        small_disk.free()
        ended = s.cell(id, cell, wait=True)
        assert ended["status"] == "ok"
        assert s.printed(id, cell) == FLOODED, "every line, once and in order"
        numbers = s.numbers(id)
        assert numbers == list(range(1, len(numbers) + 1))
        assert health(s) | {"problems": []} == health(s)
        assert health(s)["status"] == "ok"
        assert s.run(id, "x")["text"] == "1"
    assert "the database can be written again" in cramped.log.read_text()


def test_a_gateway_that_is_killed_on_a_full_disk_forgets_nothing(
    cramped: Gateway, small_disk: SmallDisk
) -> None:
    cramped.start()
    with sessions(cramped) as s:
        id = s.create()
        small_disk.fill()
        done = s.run(id, "print('answered'); x = 1")
        assert done["status"] == "ok"
        wait_for(lambda: health(s)["status"] == "degraded")
    cramped.kill()
    small_disk.free()
    cramped.start()
    with sessions(cramped) as s:
        again = s.cell(id, done["id"], wait=True)
        assert (again["status"], again["text"]) == ("ok", "answered\n")
        assert s.run(id, "x")["text"] == "1"
        assert [c["code"] for c in s.cells(id)] == [done["code"], "x"], "and it was not run twice"


def test_deleting_a_session_is_a_way_out(cramped: Gateway, small_disk: SmallDisk) -> None:
    cramped.start()
    with sessions(cramped) as s:
        large, id = s.create(), s.create()
        s.run(large, "open('large', 'wb').write(b'x' * 10_000_000); import os; os.sync()")
        small_disk.fill()
        cell = {"code": "print('unnoticed')", "wait": False}

        def is_noticed() -> bool:
            # A little may still fit into what the database has.
            s.client.post(f"/v1/sessions/{id}/executions", json=cell)
            return health(s)["status"] == "degraded"

        wait_for(is_noticed)
        assert s.client.delete(f"/v1/sessions/{large}").status_code == 200
        wait_for(lambda: health(s)["status"] == "ok")
        assert s.run(id, "6 * 7")["text"] == "42"


def test_a_gateway_does_not_start_half_on_a_full_disk(cramped: Gateway, small_disk: SmallDisk) -> None:
    cramped.start()
    with sessions(cramped) as s:
        id = s.create()
        s.run(id, "x = 1")
    cramped.kill()
    small_disk.fill()
    log, cramped.log = cramped.log, small_disk.path.with_name("elsewhere.log")
    with pytest.raises(RuntimeError, match="no space left"):
        cramped.start()
    assert cramped.process is not None
    assert cramped.process.wait() == 3
    assert "Traceback" not in cramped.log.read_text()
    cramped.log.unlink()
    cramped.log = log
    small_disk.free()
    cramped.start()
    with sessions(cramped) as s:
        assert s.run(id, "x")["text"] == "1"


def test_the_journal_takes_cells_when_the_disk_does_not(small_disk: SmallDisk) -> None:
    path = Path(small_disk.path, "journal")
    journal = Journal(path)
    small_disk.fill()
    cell = {
        "id": "e1",
        "session_id": "s1",
        "code": "x" * 1000,
        "status": "running",
        "queued_at": "2026-01-02T12:00:00Z",
    }
    written = [journal.add(json.dumps(cell).encode(), b"{}") for _ in range(500)]
    next_one = Journal(path)
    assert [entry.execution.code for entry in next_one.left["s1"].entries] == ["x" * 1000] * 500
    for file in written:
        file.settle()
    journal.close()
    next_one.close()
    assert not path.exists(), "and what it took beforehand is given back"
