"""The database is damaged: a gateway does not start with it, and one that runs says so and stops writing."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys

import pytest

from tests.conftest import Gateway, only
from tests.faults.scene import Sessions, sessions, wait_for

pytestmark = only("embedded")
PAGE = 4096
PRINTED = "".join(f"{i} {'x' * 2000}\n" for i in range(500))
PRINTS = "for i in range(500): print(i, 'x' * 2000)"


def stop(gateway: Gateway) -> None:
    assert gateway.process is not None
    gateway.process.send_signal(signal.SIGTERM)
    assert gateway.process.wait(30) == 0


def garble(gateway: Gateway, first: int, last: int | None = None) -> None:
    """Writes nonsense over some pages of the database."""
    with (gateway.data / "interpreter.db").open("r+b") as file:
        pages = file.seek(0, os.SEEK_END) // PAGE
        for page in range(first, pages if last is None else last):
            file.seek(page * PAGE)
            file.write(random.Random(page).randbytes(PAGE))


def repair(gateway: Gateway, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "interpreter.cli", "repair", "--data-dir", str(gateway.data)]
    return subprocess.run([*command, *options], capture_output=True, text=True, timeout=60)


def error_of(s: Sessions, method: str, path: str, body: object = None) -> tuple[int, str]:
    answer = s.client.request(method, path, json=body)
    return answer.status_code, answer.json().get("error", {}).get("code", "")


def test_it_is_refused_repaired_and_used_again(own_gateway: Gateway) -> None:
    own_gateway.start()
    with sessions(own_gateway) as s:
        id = s.create(name="mine")
        cell = s.run(id, f"x = 1\n{PRINTS}")["id"]
        assert repair(own_gateway).returncode == 3
        assert "Another gateway already uses" in repair(own_gateway).stderr
    stop(own_gateway)
    assert "Nothing is wrong" in repair(own_gateway).stdout
    garble(own_gateway, 0, 1)
    with pytest.raises(RuntimeError, match=r"(?s)damaged.*interpreter repair") as refusal:
        own_gateway.start()
    assert "Traceback" not in str(refusal.value)
    assert own_gateway.process is not None
    assert own_gateway.process.wait() == 3
    done = repair(own_gateway)
    assert done.returncode == 0, done.stderr
    assert "recovered" in done.stdout
    assert "interpreter.db.damaged-1" in done.stdout
    own_gateway.start()
    with sessions(own_gateway) as s:
        assert s.read(id)["name"] == "mine"
        assert s.printed(id, cell) == PRINTED
        assert s.run(id, "x")["text"] == "1", "the session went on all the while"


def test_what_a_session_printed_meanwhile_is_not_lost(own_gateway: Gateway) -> None:
    """Found while the gateway runs: it stops writing, and what is not written stays in the sandbox."""
    own_gateway.start()
    with sessions(own_gateway) as s:
        id = s.create()
        old = s.run(id, PRINTS)["id"]
    stop(own_gateway)
    own_gateway.start()
    waits = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\nprint('meanwhile')"
    with sessions(own_gateway) as s:
        cell = s.begin(id, waits)
        wait_for(lambda: s.cell(id, cell)["status"] == "running")
        # What was just written is in the log beside it; what is damaged is older.
        wait_for(lambda: len(s.numbers(id)) > 0)
        keep = 40
        garble(own_gateway, keep)
        assert error_of(s, "GET", f"/v1/sessions/{id}/executions/{old}/output") == (503, "store_damaged")
        health = wait_for(lambda: (h := s.client.get("/healthz").json())["problems"] and h)
        assert health["status"] == "degraded"
        assert "interpreter repair" in health["problems"][0]
        assert error_of(s, "POST", f"/v1/sessions/{id}/executions", {"code": "1"}) == (
            503,
            "store_damaged",
        )
        assert error_of(s, "POST", "/v1/sessions") == (503, "store_damaged")
        assert s.read(id)["state"] == "busy"
        (own_gateway.data / "workspaces" / id / "go").touch()
        assert s.cell(id, cell, wait=True)["text"] == "meanwhile\n", "who waits is answered"
    assert "the database is damaged" in own_gateway.log.read_text()
    stop(own_gateway)
    report = json.loads(repair(own_gateway, "--json").stdout)
    assert report["problem"]
    own_gateway.start()
    with sessions(own_gateway) as s:
        assert s.client.get("/healthz").json()["status"] == "ok"
        again = s.cell(id, cell, wait=True)
        assert (again["status"], again["text"]) == ("ok", "meanwhile\n")
        assert s.run(id, "6 * 7")["text"] == "42"


def test_workspaces_of_lost_sessions_are_put_aside(own_gateway: Gateway) -> None:
    own_gateway.settings["limits__disk_mb"] = "16"
    own_gateway.start()
    with sessions(own_gateway) as s:
        id = s.create()
        s.run(id, "open('kept', 'w').write('here'); import os; os.sync()")
    stop(own_gateway)
    (own_gateway.data / "interpreter.db").write_bytes(b"")
    done = repair(own_gateway)
    assert done.returncode == 0, done.stderr
    assert "workspaces-without-session" in done.stdout
    own_gateway.start()
    with sessions(own_gateway) as s:
        assert s.all() == {}
    aside = own_gateway.data / "workspaces-without-session"
    assert [path.name for path in aside.iterdir()] == [f"{id}.img"]
    assert b"here" in (aside / f"{id}.img").read_bytes()


def test_named_workspaces_are_repaired_and_those_that_are_lost_put_aside(own_gateway: Gateway) -> None:
    own_gateway.settings["spares"] = "0"
    own_gateway.start()
    with sessions(own_gateway) as s:
        s.client.post("/v1/workspaces", json={"name": "kept", "disk_mb": 16})
        id = s.create(workspace="kept")
        s.run(id, "open('file', 'w').write('here')")
        s.client.delete(f"/v1/sessions/{id}")
    stop(own_gateway)
    garble(own_gateway, 0, 1)
    report = json.loads(repair(own_gateway, "--json").stdout)
    assert {t["table"]: t["rows"] for t in report["tables"]}["workspaces"] == 1
    assert report["workspaces_put_aside"] == []
    own_gateway.start()
    with sessions(own_gateway) as s:
        assert s.run(s.create(workspace="kept"), "open('file').read()")["text"] == "'here'"
        for id in s.all():
            s.client.delete(f"/v1/sessions/{id}")
    stop(own_gateway)
    (image,) = (own_gateway.data / "workspaces").glob("w-*.img")
    (own_gateway.data / "interpreter.db").write_bytes(b"")
    report = json.loads(repair(own_gateway, "--json").stdout)
    assert image.name in report["workspaces_put_aside"]
    own_gateway.start()
    assert (own_gateway.data / "workspaces-without-session" / image.name).exists()
