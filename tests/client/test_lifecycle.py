"""What the SDK does with a session besides running cells, against a live gateway."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from interpreter import AsyncClient, Client, Event, EventType, Session
from interpreter.errors import (
    ContextExists,
    ContextNotFound,
    LimitTooHigh,
    TooManySessions,
    WrongState,
)
from interpreter.models import ExecutionStatus, SessionState
from tests.conftest import Gateway, only


@pytest.fixture
def client(gateway: Any) -> Iterator[Client]:
    with Client(gateway.url, gateway.token) as client:
        yield client


@pytest.fixture
def session(client: Client) -> Iterator[Session]:
    with client.session() as session:
        yield session


def test_a_paused_session_keeps_its_memory_and_the_next_cell_resumes_it(session: Session) -> None:
    session.run("x = 41")
    assert session.pause().state is SessionState.paused
    assert session.pause().state is SessionState.paused
    assert session.run("x + 1").text == "42"
    session.pause()
    assert session.resume().state is SessionState.ready
    assert session.info.state is SessionState.ready


def test_a_stopped_session_comes_back_with_its_files(session: Session) -> None:
    session.run("x = 1; open('kept', 'w').write('kept')")
    assert session.stop().state is SessionState.stopped
    with pytest.raises(WrongState, match="stopped"):
        session.run("1")
    assert session.start().state is SessionState.ready
    assert session.run("open('kept').read(), 'x' in globals()").text == "('kept', False)"
    assert session.info.cold_because == "it has a workspace already"
    assert session.executions()[0].execution.code.startswith("x = 1")


def test_what_is_given_of_a_session_is_changed_and_the_rest_stays(client: Client) -> None:
    with client.session(name="before", labels={"a": "b"}, on_idle="nothing") as session:
        info = session.update(limits={"executions": 2}, on_idle="stop")
        assert (info.name, info.labels, info.on_idle) == ("before", {"a": "b"}, "stop")
        assert info.limits.executions == 2
        assert session.update(name=None, labels={}).name is None
        assert session.refresh().labels == {}
        with pytest.raises(LimitTooHigh):
            session.update(limits={"executions": 10**9})


def test_environment_variables_reach_the_kernels_of_a_session(client: Client) -> None:
    with client.session(env={"GREETING": "hello"}) as session:
        code = "import os; os.environ['GREETING']"
        assert session.run(code).text == "'hello'"
        with session.context() as other:
            assert other.run(code).text == "'hello'"


def test_contexts_have_memory_of_their_own_and_share_files(session: Session) -> None:
    session.run("x = 1; open('shared', 'w').write('s')")
    with session.context("b") as b:
        assert [c.name for c in session.contexts()] == ["default", "b"]
        assert b.run("'x' in globals(), open('shared').read()").text == "(False, 's')"
        assert session.run("y = 2; y", context="b").text == "2"
        with session.context("b") as same:
            assert same.run("y").text == "2"
        assert b.run("y").text == "2", "who joined a context leaves it as it is"
        with pytest.raises(ContextExists):
            session.create_context("b")
        b.restart()
        assert b.run("'y' in globals()").text == "False"
        events = list(b.stream("print('streamed')"))
        assert events[-1].data["execution"]["context"] == "b"
    assert [c.name for c in session.contexts()] == ["default"]
    assert session.run("x").text == "1"
    with pytest.raises(ContextNotFound):
        session.run("1", context="b")


def test_cells_of_two_contexts_run_at_once_and_one_is_interrupted(session: Session) -> None:
    made = session.create_context()
    waits = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)"
    first = session.submit(waits)
    second = session.submit(waits, context=made.name)
    assert session.run("3", context=session.create_context("third").name).text == "3"
    session.run("open('go', 'w').close()", context="third")
    for cell in (first, second):
        assert session.execution(cell.id, wait=True).ok

    def interrupt(event: Event) -> None:
        if event.type is EventType.stream:
            session.interrupt(context=made.name)

    code = "print('started', flush=True); time.sleep(60)"
    result = session.run(code, context=made.name, on_event=interrupt)
    assert result.error is not None
    assert result.error.ename == "KeyboardInterrupt"
    session.delete_context(made.name)
    assert session.refresh().contexts == ["default", "third"]


def test_a_cell_that_runs_can_be_given_more_time(session: Session) -> None:
    def extend(event: Event) -> None:
        if event.type is EventType.stream:
            assert session.extend(str(event.execution_id), 60).execution.timeout == 60

    code = "import time; print('started', flush=True); time.sleep(1.5); 'the end'"
    result = session.run(code, timeout=1, on_event=extend)
    assert (result.status, result.text) == (ExecutionStatus.ok, "started\n'the end'")
    with pytest.raises(WrongState):
        session.extend(result.id, 60)


def test_a_session_that_is_still_being_created_runs_cells_when_it_is_there(client: Client) -> None:
    # Nobody keeps a sandbox ready that has another limit on the size of files.
    with client.session(wait=False, limits={"file_mb": 99}) as session:
        assert session.info.state is SessionState.creating
        assert session.run("6 * 7").text == "42"
        assert session.refresh().limits.file_mb == 99


def test_sessions_are_listed_by_state_name_and_labels(client: Client) -> None:
    labels = {"test": "listed", "n": "1"}
    with client.session(name="one", labels=labels) as one, client.session(name="two") as two:
        two.pause()
        assert [s.id for s in client.sessions(labels={"test": "listed"})] == [one.id]
        assert [s.id for s in client.sessions(labels={**labels, "n": "2"})] == []
        assert [s.id for s in client.sessions(state="paused", name="two")] == [two.id]
        assert two.id not in [s.id for s in client.sessions(state=SessionState.ready)]


def test_the_gateway_says_how_full_it_is(client: Client, session: Session) -> None:
    status = client.status()
    assert sum(status.sessions.values()) >= 1
    assert status.memory_reserved_mb >= session.info.limits.memory_mb
    assert "python" in [pool.environment for pool in status.pools]


@only("embedded")
def test_a_full_gateway_says_when_to_come_back(own_gateway: Gateway) -> None:
    own_gateway.settings |= {"max_sessions": "1", "queue_seconds": "0", "spares": "0"}
    own_gateway.start()
    with Client(own_gateway.url, own_gateway.token) as client, client.session():
        with pytest.raises(TooManySessions) as caught:
            client.create_session()
        assert caught.value.retry_after is not None
        assert caught.value.retry_after >= 1


async def test_all_of_it_can_be_awaited(gateway: Any) -> None:
    async with (
        AsyncClient(gateway.url, gateway.token) as client,
        client.session(wait=False, env={"A": "b"}, on_idle="nothing", labels={"test": "async"}) as s,
    ):
        assert (await s.run("import os; os.environ['A']")).text == "'b'"
        assert [i.id for i in await client.sessions(labels={"test": "async"})] == [s.id]
        assert (await s.pause()).state is SessionState.paused
        assert (await s.resume()).state is SessionState.ready
        async with s.context("b") as b:
            assert (await b.run("1")).ok
            await b.interrupt()
            await b.restart()
            assert (await (await s.context("b")).run("2")).text == "2"
            assert [c.name for c in await s.contexts()] == ["default", "b"]
        assert (await s.create_context("c")).name == "c"
        await s.delete_context("c")
        cell = await s.submit("import time; time.sleep(60)")
        assert (await s.extend(cell.id, 50)).execution.timeout == 50
        await s.cancel(cell.id)
        assert (await s.stop()).state is SessionState.stopped
        assert (await s.start()).state is SessionState.ready
        assert (await s.update(name="renamed")).name == "renamed"
        assert (await client.status()).max_sessions == 64
