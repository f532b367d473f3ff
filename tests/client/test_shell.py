"""The SDK's commands and terminals against a live gateway."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from interpreter import AsyncClient, Client, EventType
from interpreter.client.errors import ConnectionLost
from interpreter.errors import InputNotExpected, SessionNotFound, TooManyCommands
from interpreter.models import ExecutionStatus
from tests.conftest import Gateway


@pytest.fixture
def client(gateway: Gateway) -> Iterator[Client]:
    with Client(gateway.url, gateway.token) as client:
        yield client


def test_commands_are_run_started_fed_listed_and_cancelled(client: Client) -> None:
    with client.session(limits={"commands": 2}) as s:
        assert s.shell("printf '%s\n' *.txt; echo x > a.txt", cwd=".").exit_code == 0
        assert s.shell(["ls"]).stdout == "a.txt\n"
        assert s.shell("cat", stdin="given").stdout == "given"
        running = s.shell.start("read x; echo got $x; sleep 600")
        running.send("it\n")
        first = next(e for e in running.events() if e.type is EventType.stream)
        assert first.data["text"] == "got it\n"
        other = s.shell.start("sleep 600", interactive=False)
        with pytest.raises(InputNotExpected):
            other.send("x")
        with pytest.raises(TooManyCommands):
            s.shell("true")
        assert s.shell.get(running.id).cancel().status is ExecutionStatus.cancelled
        assert running.wait().stdout == "got it\n"
        assert [c.status.value for c in s.shell.list(running=False)][-2:] == ["cancelled", "running"]
        assert [c.id for c in s.shell.list()] == [other.id]
        newest = s.shell.list(newest=True, limit=2, running=False)
        assert [c.id for c in newest] == [other.id, running.id]
        assert list(running.events())[-1].type is EventType.done
        assert running.info.status is not ExecutionStatus.running


def test_a_terminal_is_typed_into_and_read(client: Client) -> None:
    with client.session() as s:
        with s.terminal() as terminal:
            terminal.resize(30, 90)
            terminal.send("stty size; exit\r")
            shown = "".join(terminal)
            terminal.close()
            with pytest.raises(ConnectionLost):
                terminal.send("x")
            with pytest.raises(ConnectionLost):
                terminal.resize(20, 80)
        assert "30 90\r\n" in shown
        assert "this terminal is over: its shell exited with 0" in shown
        assert s.terminals() == []
        with s.terminal("other") as terminal:
            terminal.send("stty raw -echo; echo ta''ke; head -c 2000000 | wc -c; exit\r")
            shown = ""
            for text in terminal:
                shown += text
                if "take" in shown:
                    break
            terminal.send("😀" * 500_000)
            assert "2000000" in "".join(terminal), "as much as one likes"
        with s.terminal("other") as terminal:
            assert [t.name for t in s.terminals()] == ["other"]
            terminal.end()
    with pytest.raises(SessionNotFound):
        s.terminal()


async def test_the_same_with_await(gateway: Gateway) -> None:
    async with AsyncClient(gateway.url, gateway.token) as client, client.session() as s:
        assert (await s.shell("echo hello")).stdout == "hello\n"
        running = await s.shell.start("cat; exit 4")
        await running.send("text", eof=True)
        assert ((await running.wait()).stdout, running.info.exit_code) == ("text", 4)
        kinds = [event.type.value async for event in running.events()]
        assert kinds[-1] == "done"
        assert [c.id for c in await s.shell.list(running=False)][-1] == running.id
        assert await s.shell.list() == []
        assert (await (await s.shell.get(running.id)).cancel()).exit_code == 4
        async with s.terminal() as terminal:
            await terminal.resize(30, 90)
            await terminal.send("stty size; exit\r")
            shown = "".join([text async for text in terminal])
            await terminal.close()
            with pytest.raises(ConnectionLost):
                await terminal.send("x")
            with pytest.raises(ConnectionLost):
                await terminal.resize(20, 80)
        assert "30 90\r\n" in shown
        assert await s.terminals() == []
