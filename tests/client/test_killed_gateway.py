"""A gateway that is killed, or stopped, and started again: whoever runs cells does not notice.

Real gateways, killed with -9 by another thread while the SDK is in the middle of a call. How often a
cell ran is counted where it cannot be hidden: in a file that every cell adds a line to.
"""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from interpreter import AsyncClient, Client, Result, Session
from tests.conftest import Gateway, only

pytestmark = only("embedded")
WAITS = (
    "import os, time\nwith open('ran', 'a') as f: f.write('x\\n')\n"
    "while not os.path.exists('go'): time.sleep(0.01)\nprint('the end')"
)


def workspace(gateway: Gateway, session_id: str) -> Path:
    return gateway.data / "workspaces" / session_id


@pytest.fixture
def session(own_gateway: Gateway) -> Iterator[Session]:
    own_gateway.start()
    with Client(own_gateway.url, own_gateway.token, reconnect=60) as client, client.session() as session:
        yield session


def in_thread(what: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=what)
    thread.start()
    return thread


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline, f"no {path.name}"
        time.sleep(0.002)


def by_run(session: Session) -> Result:
    return session.run(WAITS, timeout=60)


def by_stream(session: Session) -> Result:
    return Result.of(list(session.stream(WAITS, timeout=60))[-1])


def by_submit(session: Session) -> Result:
    return session.execution(session.submit(WAITS, timeout=60).id, wait=True)


@pytest.mark.parametrize("way", [by_run, by_stream, by_submit])
def test_a_cell_during_which_the_gateway_is_killed_gives_its_result_and_ran_once(
    own_gateway: Gateway, session: Session, way: Callable[[Session], Result]
) -> None:
    folder = workspace(own_gateway, session.id)

    def kill_and_start() -> None:
        wait_for(folder / "ran")
        own_gateway.kill()
        own_gateway.start()
        (folder / "go").touch()

    killer = in_thread(kill_and_start)
    result = way(session)
    killer.join()
    assert (result.ok, result.text) == (True, "the end\n")
    assert (folder / "ran").read_text() == "x\n"
    assert len(session.executions()) == 1


async def test_the_same_for_who_awaits(own_gateway: Gateway) -> None:
    own_gateway.start()
    async with AsyncClient(own_gateway.url, own_gateway.token, reconnect=60) as client:
        session = await client.create_session()
        folder = workspace(own_gateway, session.id)

        def kill_and_start() -> None:
            wait_for(folder / "ran")
            own_gateway.kill()
            own_gateway.start()
            (folder / "go").touch()

        killer = in_thread(kill_and_start)
        result = await session.run(WAITS, timeout=60)
        killer.join()
    assert (result.text, (folder / "ran").read_text()) == ("the end\n", "x\n")


def test_every_cell_runs_once_however_often_the_gateway_is_killed(
    own_gateway: Gateway, session: Session
) -> None:
    over = threading.Event()

    def kill_again_and_again() -> None:
        moments = random.Random(7)
        for _ in range(4):
            over.wait(moments.uniform(0.05, 0.3))
            own_gateway.kill()
            own_gateway.start()
        over.set()

    killer = in_thread(kill_again_and_again)
    sent = 0
    while not over.is_set() or sent < 50:
        code = f"with open('ran', 'a') as f: f.write('{sent}\\n')\nprint({sent})"
        if sent % 2:
            assert session.run(code).text == f"{sent}\n"
        else:
            assert Result.of(list(session.stream(code))[-1]).text == f"{sent}\n"
        sent += 1
    killer.join()
    ran = (workspace(own_gateway, session.id) / "ran").read_text().split()
    assert ran == [str(n) for n in range(sent)]


class Watched(httpx.HTTPTransport):
    """Notices when a gateway refuses something because it is about to stop."""

    def __init__(self) -> None:
        super().__init__()
        self.refused = threading.Event()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = super().handle_request(request)
        if response.status_code == 503:
            self.refused.set()
        return response


def test_a_cell_sent_to_a_gateway_that_stops_runs_at_the_next_one(
    own_gateway: Gateway, session: Session
) -> None:
    folder = workspace(own_gateway, session.id)
    first = session.submit(WAITS, timeout=60)
    wait_for(folder / "ran")
    process = own_gateway.process
    assert process is not None
    process.send_signal(signal.SIGTERM)
    transport = Watched()

    def finish_and_start() -> None:
        transport.refused.wait(60)
        (folder / "go").touch()
        process.wait(30)
        own_gateway.start()

    starter = in_thread(finish_and_start)
    with Client(own_gateway.url, own_gateway.token, reconnect=60, transport=transport) as client:
        code = "with open('ran', 'a') as f: f.write('y\\n')\n'second'"
        second = client.session(session.id).run(code)
    starter.join()
    assert transport.refused.is_set()
    assert second.text == "'second'"
    assert session.execution(first.id).text == "the end\n"
    assert (folder / "ran").read_text() == "x\ny\n"
