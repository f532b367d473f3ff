"""The gateway is killed right after it said something, or between two things that belong together."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from chaos.processes import kernels_of
from tests.conftest import Gateway, only
from tests.e2e.conftest import read_events
from tests.e2e.test_restart_of_the_gateway import wait_for

pytestmark = only("embedded")
MARK = "import os\nf = os.open('ran', os.O_WRONLY | os.O_CREAT | os.O_APPEND)\nos.write(f, b'{}\\n')\n"


class Session:
    """A session whose gateway is killed and started again."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        gateway.start()
        with gateway.client() as client:
            self.path = f"/v1/sessions/{client.post('/v1/sessions').json()['id']}"

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> dict[str, Any]:
        with self.gateway.client() as client:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            answer = client.request(method, self.path + path, json=body, headers=named)
            assert answer.status_code < 300, answer.text
            return dict(answer.json())

    def run(self, code: str, key: str | None = None, **options: Any) -> dict[str, Any]:
        headers = {"Idempotency_Key": key} if key else {}
        return self.ask("POST", "/executions", {"code": code, **options}, **headers)

    def events(self) -> list[tuple[int, str, dict[str, Any]]]:
        with (
            self.gateway.client() as client,
            client.stream("GET", f"{self.path}/events?follow=false") as answer,
        ):
            return list(read_events(answer))

    def kill_and_start(self) -> None:
        self.gateway.kill()
        self.gateway.start()


@pytest.fixture
def session(own_gateway: Gateway) -> Iterator[Session]:
    return Session(own_gateway)


def test_a_cell_that_is_sent_again_after_the_kill_does_not_run_again(session: Session) -> None:
    for number in range(3):
        key = f"key {number}"
        sent = session.run(MARK.format(number), key, wait=False)
        session.kill_and_start()
        again = session.run(MARK.format(number), key)
        assert (again["id"], again["status"]) == (sent["id"], "ok")
    assert session.run("print(open('ran').read())")["text"].split() == ["0", "1", "2"]


def test_a_cell_is_known_by_its_key_when_its_session_was_stopped(session: Session) -> None:
    before = session.run(MARK.format(1), "key")
    session.ask("POST", "/stop")
    session.kill_and_start()
    assert session.run(MARK.format(1), "key") == before
    session.ask("POST", "/start")
    assert session.run(MARK.format(1), "key") == before
    assert session.run("print(open('ran').read())")["text"].split() == ["1"]


def test_a_cell_is_known_by_its_key_when_its_session_is_paused(session: Session) -> None:
    code = "import time; time.sleep(1.5); print('done')"
    sent = session.run(code, "key", wait=False)
    session.ask("POST", "/pause")
    session.kill_and_start()
    again = session.run(code, "key")
    assert (again["id"], again["status"], again["text"]) == (sent["id"], "ok", "done\n")


def test_many_may_use_it_when_its_session_is_paused(session: Session) -> None:
    contexts = [f"c{i}" for i in range(4)]
    for name in contexts:
        session.ask("POST", "/contexts", {"name": name})
    session.ask("POST", "/pause")
    session.kill_and_start()
    with ThreadPoolExecutor(40) as pool:
        running = []
        for name in contexts * 10:
            running.append(pool.submit(session.run, "6 * 7", context=name))
            time.sleep(0.003)  # some come while it is on its way back
        assert [cell.result()["text"] for cell in running] == ["42"] * 40


def test_a_cell_that_was_cancelled_stays_cancelled(session: Session) -> None:
    first = session.run("import time; time.sleep(1)", wait=False)
    second = session.run(MARK.format(2), wait=False)
    assert session.ask("DELETE", f"/executions/{second['id']}")["status"] == "cancelled"
    session.kill_and_start()
    assert session.ask("GET", f"/executions/{first['id']}?wait=true")["status"] == "ok"
    assert session.ask("GET", f"/executions/{second['id']}")["status"] == "cancelled"
    assert session.run("import os; os.path.exists('ran')")["text"] == "False"


def test_a_cell_that_is_being_cancelled_ends_as_cancelled(session: Session) -> None:
    slow = (
        "import time\nprint('begun', flush=True)\n"
        "try: time.sleep(60)\nexcept KeyboardInterrupt:\n    time.sleep(1.5); raise"
    )
    cell = session.run(slow, wait=False, timeout=100)

    def cancel() -> None:
        with pytest.raises(httpx.TransportError):
            session.ask("DELETE", f"/executions/{cell['id']}")

    wait_for(lambda: [e for e in session.events() if e[1] == "stream"])
    asking = threading.Thread(target=cancel)
    asking.start()
    wait_for(lambda: [e for e in session.events() if "verdict" in e[2]])
    session.kill_and_start()
    asking.join()
    assert session.ask("GET", f"/executions/{cell['id']}?wait=true")["status"] == "cancelled"


def test_what_changed_a_cell_after_its_end_is_not_forgotten(session: Session) -> None:
    show = "from IPython.display import display\n_ = display({'text/plain': 'old'}, raw=True, display_id='d')"
    update = "from IPython.display import update_display\nupdate_display({'text/plain': 'new'}, raw=True, display_id='d')"
    shown = session.run(show)
    assert [o["data"]["text/plain"] for o in shown["outputs"]] == ["old"]
    session.run(update)
    session.kill_and_start()

    def is_new() -> bool:
        outputs = session.ask("GET", f"/executions/{shown['id']}")["outputs"]
        return [o["data"]["text/plain"] for o in outputs] == ["new"]

    assert wait_for(is_new)


def test_an_error_from_before_the_kill_is_an_error_like_any_other(session: Session) -> None:
    code = "import time\nget_ipython().showtraceback((ValueError, ValueError('x'), None))\ntime.sleep(1)"
    cell = session.run(code, wait=False)
    wait_for(lambda: [e for e in session.events() if e[1] == "error"])
    session.kill_and_start()
    ended = session.ask("GET", f"/executions/{cell['id']}?wait=true")
    assert [set(output) for output in ended["outputs"]] == [
        {"output_type", "ename", "evalue", "traceback"}
    ]


def test_every_end_in_the_history_is_in_the_events(session: Session) -> None:
    for _ in range(5):
        answered = session.run("print(1)")
        session.kill_and_start()
        path = f"/executions/{answered['id']}?wait=true"
        assert session.ask("GET", path)["text"] == "1\n"
        kinds = [kind for _, kind, data in session.events() if data["execution_id"] == answered["id"]]
        assert kinds[0] == "status"
        assert kinds.count("done") == 1


def test_what_was_answered_is_so_to_the_last_figure(session: Session) -> None:
    """Also what was measured, of which the kernel knows nothing."""
    session.run("pass")
    for number in range(5):
        answered = session.run(f"open('made-{number}', 'w').write('x'); print(1)")
        assert [file["path"] for file in answered["files"]] == [f"made-{number}"]
        session.kill_and_start()
        assert session.ask("GET", f"/executions/{answered['id']}?wait=true") == answered


def test_a_late_interrupt_does_not_hit_the_next_cell(session: Session) -> None:
    for _ in range(40):
        cell = session.run("pass", wait=False)
        session.ask("DELETE", f"/executions/{cell['id']}")
        assert session.run("1 + 1")["status"] == "ok"


def test_a_cell_that_took_its_kernel_along_does_not_run_in_the_next_one(session: Session) -> None:
    """Not even when the gateway is killed before the database has taken anything of it."""
    session.run("pass")
    before = kernels(session)
    assert before
    database = sqlite3.connect(session.gateway.data / "interpreter.db", isolation_level=None)
    database.execute("BEGIN IMMEDIATE")  # nothing else can be written from now on
    cell = session.run(MARK.format(1) + "os.kill(os.getpid(), 9)", wait=False)
    wait_for(lambda: before.isdisjoint(kernels(session)))
    with contextlib.suppress(AssertionError):
        wait_for(lambda: kernels(session), seconds=3)  # which would hear nothing of the cell
    session.gateway.kill()
    database.close()
    session.gateway.start()
    got = session.ask("GET", f"/executions/{cell['id']}?wait=true")
    assert got["status"] == "lost", got
    assert session.run("print(open('ran').read())")["text"].split() == ["1"]


def kernels(session: Session) -> set[int]:
    return {process.pid for process in kernels_of(session.path.rpartition("/")[2])}
