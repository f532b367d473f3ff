"""A gateway that is told to stop, and a second one that is started too soon."""

from __future__ import annotations

import signal
import threading
from typing import Any

import pytest

from tests.conftest import Gateway, only
from tests.faults.scene import Sessions, sessions, wait_for

pytestmark = only("embedded")
RUNS = "import time\nfor i in range(20): print(i, flush=True); time.sleep(0.1)\n'x' * 2_000_000"
GOES_ON = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\n'gone on'"


def terminate(gateway: Gateway) -> None:
    assert gateway.process is not None
    gateway.process.send_signal(signal.SIGTERM)


def ended(gateway: Gateway) -> int:
    assert gateway.process is not None
    return gateway.process.wait(30)


def draining(s: Sessions) -> bool:
    return bool(s.client.get("/v1/status").json()["draining"])


def test_a_second_gateway_refuses_to_share_a_data_directory(own_gateway: Gateway) -> None:
    own_gateway.start()
    with sessions(own_gateway) as s:
        id = s.create()
        second = Gateway(own_gateway.data, **own_gateway.settings)
        second.log = own_gateway.log.with_suffix(".second")
        with pytest.raises(RuntimeError, match="Another gateway already uses the data directory"):
            second.start()
        assert second.process is not None
        assert second.process.wait() == 3
        assert s.run(id, "6 * 7")["text"] == "42", "and the first does not notice"


def test_running_cells_are_waited_for_and_answered_and_new_ones_refused(own_gateway: Gateway) -> None:
    own_gateway.start()
    answers: list[dict[str, Any]] = []
    with sessions(own_gateway) as s, sessions(own_gateway) as waiting:
        id = s.create()
        runner = threading.Thread(target=lambda: answers.append(waiting.run(id, RUNS, timeout=60)))
        runner.start()
        wait_for(lambda: s.cells(id) and s.cells(id)[0]["text"])
        terminate(own_gateway)
        wait_for(lambda: draining(s))
        for path, body in (
            (f"/v1/sessions/{id}/executions", {"code": "1"}),
            ("/v1/sessions", {}),
        ):
            refused = s.client.post(path, json=body)
            assert refused.status_code == 503
            assert refused.json()["error"]["code"] == "shutting_down"
            assert int(refused.headers["Retry-After"]) > 0
        assert s.read(id)["state"] == "busy", "reading goes on"
        runner.join(30)
        assert ended(own_gateway) == 0
    (answer,) = answers
    assert answer["status"] == "ok"
    assert answer["text"] == "".join(f"{i}\n" for i in range(20)) + repr("x" * 2_000_000)


def test_commands_are_waited_for_and_answered_but_not_those_in_the_background(
    own_gateway: Gateway,
) -> None:
    own_gateway.settings["drain_seconds"] = "600"
    own_gateway.start()
    answers: list[dict[str, Any]] = []
    waits = "echo begun; while [ ! -e go ]; do sleep 0.01; done; echo done"
    with sessions(own_gateway) as s, sessions(own_gateway) as waiting:
        id = s.create()
        path = f"/v1/sessions/{id}/commands"
        s.client.post(path, json={"command": "sleep 1000", "background": True})

        def run() -> None:
            answers.append(waiting.client.post(path, json={"command": waits, "timeout": 60}).json())

        runner = threading.Thread(target=run)
        runner.start()
        wait_for(lambda: "begun\n" in [c["stdout"] for c in s.client.get(path).json()["commands"]])
        terminate(own_gateway)
        wait_for(lambda: draining(s))
        refused = s.client.post(path, json={"command": "true"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "shutting_down")
        (own_gateway.data / "workspaces" / id / "go").touch()
        runner.join(30)
        assert ended(own_gateway) == 0, "it does not wait for what nobody waits for"
    (answer,) = answers
    assert (answer["status"], answer["stdout"]) == ("ok", "begun\ndone\n")


def test_a_cell_that_takes_longer_goes_on_alone_and_is_found_again(own_gateway: Gateway) -> None:
    own_gateway.settings["drain_seconds"] = "0.5"
    own_gateway.start()
    with sessions(own_gateway) as s:
        id = s.create()
        cell = s.begin(id, GOES_ON)
        behind = s.begin(id, "'behind'")
        wait_for(lambda: s.cell(id, cell)["status"] == "running")
        terminate(own_gateway)
        assert ended(own_gateway) == 0
    (own_gateway.data / "workspaces" / id / "go").touch()
    own_gateway.start()
    with sessions(own_gateway) as s:
        assert s.cell(id, cell, wait=True)["text"] == "'gone on'"
        assert s.cell(id, behind, wait=True)["text"] == "'behind'"


def test_cells_that_wait_are_left_to_the_next_gateway(own_gateway: Gateway) -> None:
    own_gateway.start()
    with sessions(own_gateway) as s:
        id = s.create()
        cell = s.begin(id, GOES_ON)
        behind = s.begin(id, "'behind'")
        wait_for(lambda: s.cell(id, cell)["status"] == "running")
        terminate(own_gateway)
        wait_for(lambda: draining(s))
        (own_gateway.data / "workspaces" / id / "go").touch()
        assert ended(own_gateway) == 0
    own_gateway.start()
    with sessions(own_gateway) as s:
        first, second = s.cell(id, cell, wait=True), s.cell(id, behind, wait=True)
    assert (first["status"], second["status"]) == ("ok", "ok")
    assert first["started_at"] < second["started_at"]


def test_told_once_more_it_ends_at_once(own_gateway: Gateway) -> None:
    own_gateway.settings["drain_seconds"] = "600"
    own_gateway.start()
    with sessions(own_gateway) as s:
        id = s.create()
        cell = s.begin(id, GOES_ON)
        wait_for(lambda: s.cell(id, cell)["status"] == "running")
        terminate(own_gateway)
        wait_for(lambda: draining(s))
        terminate(own_gateway)
        assert ended(own_gateway) == 0
    (own_gateway.data / "workspaces" / id / "go").touch()
    own_gateway.start()
    with sessions(own_gateway) as s:
        assert s.cell(id, cell, wait=True)["text"] == "'gone on'"


def test_sessions_that_end_with_the_gateway_say_so(own_gateway: Gateway) -> None:
    own_gateway.settings |= {"on_shutdown": "stop", "drain_seconds": "0.2"}
    own_gateway.start()
    with sessions(own_gateway) as s:
        id = s.create()
        s.run(id, "open('kept', 'w').write('here')")
        cell = s.begin(id, GOES_ON)
        wait_for(lambda: s.cell(id, cell)["status"] == "running")
        terminate(own_gateway)
        assert ended(own_gateway) == 0
    own_gateway.start()
    with sessions(own_gateway) as s:
        session = s.read(id)
        assert (session["state"], session["reason"]) == ("stopped", "the gateway stopped")
        assert s.cell(id, cell)["status"] == "lost"
        assert s.client.post(f"/v1/sessions/{id}/start").json()["state"] == "ready"
        assert s.run(id, "open('kept').read()")["text"] == "'here'"
