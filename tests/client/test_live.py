"""The SDK against a live gateway with real kernels."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from interpreter import AsyncClient, CellError, Client, Event, EventType, Session
from interpreter.client import InputMissing
from interpreter.errors import ProcessNotFound, QueueFull, SessionNotFound, Unauthorized
from interpreter.models import ExecutionStatus


@pytest.fixture
def client(gateway: Any) -> Iterator[Client]:
    with Client(gateway.url, gateway.token) as client:
        yield client


@pytest.fixture
def session(client: Client) -> Iterator[Session]:
    with client.session() as session:
        yield session


def text(events: list[Event]) -> str:
    return "".join(e.data["text"] for e in events if e.type is EventType.stream)


def test_state_stays_between_cells(session: Session) -> None:
    session.run("x = 40").raise_for_error()
    result = session.run("x + 2")
    assert (result.text, result.ok, result.execution_count) == ("42", True, 2)
    assert result.outputs[0]["output_type"] == "execute_result"


def test_a_result_says_what_the_cell_used(session: Session) -> None:
    usage = session.run("sum(range(10**6))").usage
    if session.refresh().limits_enforced_by == "cgroup":
        assert usage is not None
        assert usage.cpu_seconds > 0


def test_a_table_and_a_picture_come_back(session: Session) -> None:
    table = session.run("import pandas as pd; df = pd.DataFrame({'a': [1, 2]}); df")
    assert "<table" in (table.html or "")
    assert "a" in table.text
    picture = session.run("import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()")
    assert picture.images[0].data.startswith(b"\x89PNG")


def test_a_failing_cell_is_a_result(session: Session) -> None:
    result = session.run("print('before'); 1 / 0")
    assert (result.status, result.stdout) == (ExecutionStatus.error, "before\n")
    assert result.error is not None
    assert result.error.ename == "ZeroDivisionError"
    with pytest.raises(CellError, match="ZeroDivisionError"):
        result.raise_for_error()


def test_a_cell_is_streamed_as_it_runs(session: Session) -> None:
    events = list(session.stream("for i in range(3): print(i)"))
    assert text(events) == "0\n1\n2\n"
    assert events[-1].type is EventType.done
    assert [e.seq for e in events] == sorted(e.seq for e in events)


def test_ten_megabytes_arrive_whole(session: Session) -> None:
    code = "for i in range(100): print('x' * 99_999)"
    assert len(text(list(session.stream(code)))) == 10_000_000


def test_the_whole_output_can_be_fetched_where_the_result_was_cut(
    session: Session, tmp_path: Path
) -> None:
    result = session.run("print('x' * 1_000_000)", max_output_bytes=10_000)
    assert result.truncated is not None
    assert len(result.text) < 20_000
    saved = session.save_output(result.id, tmp_path / "all.txt")
    assert saved.read_bytes().strip() == b"x" * 1_000_000


def test_input_is_answered(session: Session) -> None:
    result = session.run("print(input('a? ') + input('b? '))", input=["1", "2"])
    assert "12" in result.stdout


def test_a_function_answers_input_and_passwords(session: Session) -> None:
    asked: list[tuple[str, bool]] = []

    def ask(prompt: str, password: bool) -> str:
        asked.append((prompt, password))
        return "secret"

    result = session.run("import getpass; getpass.getpass('pw: ')", input=ask)
    assert (result.text, asked) == ("'secret'", [("pw: ", True)])


def test_a_cell_that_asks_more_than_there_is_does_not_hang(session: Session) -> None:
    with pytest.raises(InputMissing):
        session.run("input(); input()", input="one")
    assert session.run("'still here'").ok


def test_a_submitted_cell_can_be_waited_for_listed_and_cancelled(session: Session) -> None:
    first = session.submit("import time; time.sleep(0.3); 'first'")
    second = session.submit("time.sleep(60)")
    assert first.status in (ExecutionStatus.queued, ExecutionStatus.running)
    assert session.execution(first.id, wait=True).text == "'first'"
    session.cancel(second.id)
    assert session.execution(second.id, wait=True).status is ExecutionStatus.cancelled
    assert [r.id for r in session.executions()] == [first.id, second.id]
    assert [r.id for r in session.executions(limit=1, after=first.id)] == [second.id]


def test_interrupt_and_restart(session: Session) -> None:
    def interrupt(event: Event) -> None:
        if event.type is EventType.stream and "started" in event.data["text"]:
            session.interrupt()

    code = "x = 1\nimport time\nprint('started', flush=True)\ntime.sleep(60)"
    result = session.run(code, on_event=interrupt)
    assert result.error is not None
    assert result.error.ename == "KeyboardInterrupt"
    session.restart()
    assert session.run("'x' in globals()").text == "False"


def test_processes_are_listed_and_ended(session: Session) -> None:
    sleep = "import subprocess\nsubprocess.Popen(['sleep', '600'], start_new_session=True).pid"
    cells = [session.run(sleep) for _ in range(3)]
    pids = [int(cell.text) for cell in cells]
    started = {p.pid: p.execution_id for p in session.processes() if not p.is_kernel}
    assert started == {pid: cell.id for pid, cell in zip(pids, cells, strict=True)}
    assert [p.pid for p in session.end_process(pids[0]).ended] == pids[:1]
    with pytest.raises(ProcessNotFound):
        session.end_process(pids[0])
    assert {p.pid for p in session.end_orphans().ended} == set(pids[1:])
    assert not [p for p in session.processes() if p.orphan]


def test_a_timeout_is_in_the_result(session: Session) -> None:
    result = session.run("import time; print('a', flush=True); time.sleep(60)", timeout=0.5)
    assert (result.status, result.stdout) == (ExecutionStatus.timeout, "a\n")
    assert result.reason


def test_a_long_cell_takes_the_way_that_survives(session: Session) -> None:
    assert session.run("6 * 7", timeout=100).text == "42"


def test_everything_in_a_session_can_be_followed_from_the_start(
    client: Client, session: Session
) -> None:
    session.run("print('one')")
    with client.session(session.id) as other:
        other.run("print('two')")
    past = list(session.events(follow=False))
    assert text(past) == "one\ntwo\n"
    assert [e.seq for e in past] == list(range(1, len(past) + 1))
    after = past[-3].seq
    assert [e.seq for e in session.events(after, follow=False)] == [after + 1, after + 2]


def test_following_a_session_ends_when_it_is_deleted(client: Client) -> None:
    session = client.create_session()
    seen: list[Event] = []
    watcher = threading.Thread(target=lambda: seen.extend(session.events()))
    watcher.start()
    session.run("print('x')")
    session.delete()
    watcher.join(10)
    assert not watcher.is_alive()


def test_sessions_are_found_by_name_and_deleted_after_their_block(client: Client) -> None:
    with client.session(name="sdk-live", labels={"k": "v"}) as session:
        assert client.session("sdk-live").id == session.id
        assert session.refresh().labels == {"k": "v"}
        assert session.id in [s.id for s in client.sessions()]
    with pytest.raises(SessionNotFound):
        client.session(session.id)


def test_errors_keep_their_class(gateway: Any, client: Client) -> None:
    with pytest.raises(Unauthorized):
        Client(gateway.url, "wrong").sessions()
    with client.session(limits={"queued_cells": 1}) as session:
        session.submit("import time; time.sleep(60)")
        with pytest.raises(QueueFull):
            [session.submit("1") for _ in range(3)]


async def test_the_async_client_does_the_same(gateway: Any, tmp_path: Path) -> None:
    async with AsyncClient(gateway.url, gateway.token) as client, client.session() as session:
        assert (await session.run("6 * 7")).text == "42"
        assert text([e async for e in session.stream("print('streamed')")]) == "streamed\n"

        async def ask(prompt: str, password: bool) -> str:
            await asyncio.sleep(0)
            return prompt.upper()

        assert (await session.run("input('who')", input=ask)).text == "'WHO'"
        submitted = await session.submit("print('later')")
        done = await session.execution(submitted.id, wait=True)
        assert done.stdout == "later\n"
        assert (await session.save_output(done.id, tmp_path / "o")).read_text() == "later\n"
        assert len(await session.executions()) == 4
        await session.run("import subprocess; sleep = subprocess.Popen(['sleep', '600'])")
        [orphan] = [p for p in await session.processes() if p.orphan]
        assert [p.pid for p in (await session.end_orphans()).ended] == [orphan.pid]
        with pytest.raises(ProcessNotFound):
            await session.end_process(orphan.pid)
        await session.restart()
        assert [e async for e in session.events(follow=False)]
        assert (await client.health()).status == "ok"


async def test_many_sessions_run_at_once(gateway: Any) -> None:
    async with AsyncClient(gateway.url, gateway.token) as client:

        async def one(n: int) -> str:
            async with client.session() as session:
                return (await session.run(f"{n} * {n}")).text

        assert await asyncio.gather(*map(one, range(4))) == ["0", "1", "4", "9"]


@contextmanager
def breaking_proxy(url: str, after_bytes: int, breaks: int) -> Iterator[str]:
    """A way to the gateway that cuts the first `breaks` connections that carry much."""
    target = urlsplit(url)
    listener = socket.create_server(("127.0.0.1", 0))
    left = [breaks]

    def carry(a: socket.socket, b: socket.socket, limited: bool) -> None:
        carried = 0
        with suppress(OSError):
            while data := a.recv(4096):
                b.sendall(data)
                carried += len(data)
                if limited and left[0] and carried > after_bytes:
                    left[0] -= 1
                    break
        for one in (a, b):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def accept() -> None:
        with suppress(OSError):
            while True:
                near, _ = listener.accept()
                far = socket.create_connection((str(target.hostname), target.port))
                for pair in ((near, far, False), (far, near, True)):
                    threading.Thread(target=carry, args=pair, daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def test_broken_connections_lose_no_output_and_run_no_cell_twice(gateway: Any, client: Client) -> None:
    code = "n = globals().get('n', 0) + 1\nfor i in range(20): print(str(i) * 10_000)"
    with client.session() as session, breaking_proxy(gateway.url, 50_000, breaks=3) as url:
        events = list(Client(url, gateway.token).session(session.id).stream(code))
        assert text(events) == "".join(str(i) * 10_000 + "\n" for i in range(20))
        assert len({e.seq for e in events}) == len(events)
        assert session.run("n").text == "1"
