"""A kernel host that lies about processes. No real one does, so its end of the link is forged here."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from interpreter.errors import SandboxFailed
from interpreter.link.connection import Link
from interpreter.link.wire import Message, Wire
from interpreter.orchestrator import processes
from interpreter.orchestrator.processes import MOST_PROCESSES, SandboxProcesses

TRUE = {
    "pid": 7,
    "parent": 1,
    "name": "sleep",
    "command": "sleep 600",
    "state": "S",
    "cpu_seconds": 0.5,
    "memory_bytes": 4096,
    "started_at": 1.8e9,
    "execution_id": "e-0123456789abcdef",
    "kernel": "k1",
    "is_kernel": False,
}
Forge = Callable[[dict[str, Any]], Any]


@contextlib.asynccontextmanager
async def lying(forge: Forge) -> AsyncIterator[SandboxProcesses]:
    """The processes of a sandbox whose kernel host answers a command with what `forge` makes of it."""
    ours, theirs = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=theirs)
    host = Wire(opens=False)
    host.connect()

    async def serve() -> None:
        while data := await reader.read(65536):
            for event in host.receive(data):
                if isinstance(event, Message):
                    command = json.loads(event.parts[0])
                    if (answer := forge(command)) is not None:
                        host.send_json({"id": command["id"], **answer})
            writer.write(host.take())

    link = Link(Wire(opens=True), lambda reason: None)
    await asyncio.get_running_loop().create_connection(lambda: link, sock=ours)
    serving = asyncio.create_task(serve())
    try:
        await link.connected()
        yield SandboxProcesses(link, lambda id: True)
    finally:
        serving.cancel()
        link.close()
        writer.close()
        await asyncio.gather(serving, return_exceptions=True)


@pytest.mark.parametrize(
    "said",
    [
        None,
        5,
        "sleep",
        {"7": TRUE},
        [None, 5, [], "x", {}],
        [{**TRUE, "pid": -1}],
        [{**TRUE, "pid": 0}],
        [{**TRUE, "pid": 2**63}],
        [{**TRUE, "pid": "7"}],
        [{**TRUE, "pid": True}],
        [{**TRUE, "cpu_seconds": float("nan")}],
        [{**TRUE, "cpu_seconds": float("inf")}],
        [{**TRUE, "memory_bytes": 10**30}],
        [{**TRUE, "started_at": 1e300}],
        [{**TRUE, "started_at": -1}],
        [{**TRUE, "name": ["sleep"]}],
        [{**TRUE, "is_kernel": 1}],
        [{key: value for key, value in TRUE.items() if key != "state"}],
    ],
)
async def test_what_makes_no_sense_is_left_out(said: Any) -> None:
    async with lying(lambda command: {"processes": said, "ended": said, "left": said}) as sandbox:
        assert (await sandbox.all()).processes == []
        done = await sandbox.end(7)
        assert done.ended == []
        assert all(type(pid) is int for pid in done.left)


async def test_text_is_cut_and_cleaned_and_names_are_checked() -> None:
    entry = {
        **TRUE,
        "name": "\x1b]0;x\x07" * 50,
        "command": "rm\n" * 10_000,
        "state": "RRR",
        "kernel": "k 1\n",
        "execution_id": "e-0123456789abcdef\n",
    }
    async with lying(lambda command: {"processes": [entry]}) as sandbox:
        [process] = (await sandbox.all()).processes
    assert process.name.isprintable()
    assert len(process.name) == 64
    assert process.command.isprintable()
    assert len(process.command) == 400
    assert (process.state.value, process.kernel, process.execution_id) == ("other", None, None)
    assert not process.orphan


async def test_a_list_without_end_is_cut() -> None:
    def endless(command: dict[str, Any]) -> dict[str, Any]:
        after = command["after"]
        return {"processes": [{**TRUE, "pid": after + i} for i in range(1, 301)], "more": True}

    async with lying(endless) as sandbox:
        listed = await sandbox.all()
    assert len(listed.processes) == MOST_PROCESSES
    assert listed.more


async def test_a_list_that_does_not_go_on_ends() -> None:
    async with lying(lambda command: {"processes": [TRUE], "more": True}) as sandbox:
        assert [process.pid for process in (await sandbox.all()).processes] == [7]


async def test_a_host_that_does_not_answer_is_given_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "ANSWER_SECONDS", 0.1)
    async with lying(lambda command: None) as sandbox:
        with pytest.raises(SandboxFailed, match="does not answer"):
            await sandbox.all()
        with pytest.raises(SandboxFailed, match="does not answer"):
            await sandbox.end(7)
