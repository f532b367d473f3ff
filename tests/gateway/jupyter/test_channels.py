"""Cells and messages over the WebSocket: recorded like any other cell, seen by everyone, never lost."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from tests.conftest import Gateway, only
from tests.gateway.jupyter.wire import Wire


@pytest.mark.parametrize("v1", [True, False], ids=["v1", "legacy"])
async def test_a_cell_of_a_client_is_an_execution_like_any_other(
    gateway: Gateway, api: httpx.AsyncClient, kernel: dict[str, Any], v1: bool
) -> None:
    wire = await Wire.open(gateway, kernel["id"], v1=v1)
    msg_id = wire.execute("print('out'); 6 * 7", user_expressions={"two": "1 + 1"})
    reply = await wire.reply(msg_id)
    assert reply["type"] == "execute_reply"
    assert reply["content"]["status"] == "ok"
    assert reply["content"]["user_expressions"]["two"]["data"]["text/plain"] == "2"
    assert reply["parent_header"]["session"] == wire.session_id
    assert reply["parent_header"]["username"] == "somebody"
    assert wire.text(msg_id) == "out\n"
    assert wire.of(msg_id, "execute_result")[0]["content"]["data"]["text/plain"] == "42"
    assert wire.of(msg_id, "execute_input")[0]["content"]["code"] == "print('out'); 6 * 7"
    wire.close()
    *_, execution = (await api.get(f"/v1/sessions/{kernel['session']}/executions")).json()["executions"]
    assert execution["code"] == "print('out'); 6 * 7"
    assert execution["status"] == "ok"
    assert execution["text"] == "out\n42"


async def test_what_an_agent_runs_is_seen_by_every_client(
    gateway: Gateway, api: httpx.AsyncClient, session: str
) -> None:
    first, second = await Wire.open(gateway, session), await Wire.open(gateway, session, v1=False)
    for wire in (first, second):
        await wire.reply(wire.ask("kernel_info_request", {}))
    execution = (
        await api.post(f"/v1/sessions/{session}/executions", json={"code": "print('agent')"})
    ).json()
    for wire in (first, second):
        id = execution["id"]
        await wire.until(
            lambda m, id=id: m["parent"] == id and m["content"].get("execution_state") == "idle"
        )
        assert wire.of(id, "execute_input")[0]["content"]["code"] == "print('agent')"
        assert wire.text(id) == "agent\n"
        assert not wire.of(id, "execute_reply"), "that is for the one who asked"
        wire.close()


async def test_replies_and_questions_go_to_the_client_that_asked_only(
    gateway: Gateway, kernel: dict[str, Any]
) -> None:
    one, other = await Wire.open(gateway, kernel["id"]), await Wire.open(gateway, kernel["id"])
    await other.reply(other.ask("kernel_info_request", {}))
    other.seen.clear()
    msg_id = one.execute("name = input('who? '); print('hello', name)", allow_stdin=True)
    await one.until(lambda m: m["type"] == "input_request" and m["parent"] == msg_id)
    other.ask("input_reply", {"value": "the wrong one"}, channel="stdin")
    one.ask("input_reply", {"value": "the right one"}, channel="stdin")
    await one.reply(msg_id)
    assert one.text(msg_id) == "hello the right one\n"
    completion = one.ask("complete_request", {"code": "pri", "cursor_pos": 3})
    assert "print" in (await one.reply(completion))["content"]["matches"]
    last = other.ask("kernel_info_request", {})
    assert (await other.reply(last))["content"]["language_info"]["name"] == "python"
    assert other.text(msg_id) == "hello the right one\n"
    theirs = [m for m in other.seen if m["channel"] != "iopub"]
    assert [m["parent"] for m in theirs] == [last]
    one.close()
    other.close()


@pytest.mark.parametrize("v1", [True, False], ids=["v1", "legacy"])
async def test_binary_buffers_arrive_both_ways(
    gateway: Gateway, kernel: dict[str, Any], v1: bool
) -> None:
    wire = await Wire.open(gateway, kernel["id"], v1=v1)
    code = """
from comm import get_comm_manager
def opened(comm, message):
    @comm.on_msg
    def answer(message):
        comm.send({"n": len(message["buffers"])}, buffers=[bytes(b)[::-1] for b in message["buffers"]])
get_comm_manager().register_target("mirror", opened)
"""
    assert (await wire.reply(wire.execute(code)))["content"]["status"] == "ok"
    wire.ask("comm_open", {"comm_id": "c", "target_name": "mirror", "data": {}})
    blob = bytes(range(256)) * 4096
    wire.ask("comm_msg", {"comm_id": "c", "data": {}}, buffers=[blob, b"\x00\xff"])
    answer = await wire.until(lambda m: m["type"] == "comm_msg")
    assert answer["content"]["data"] == {"n": 2}
    assert answer["buffers"] == [blob[::-1], b"\xff\x00"]
    wire.close()


MIRROR = """
from comm import get_comm_manager
def opened(comm, message):
    @comm.on_msg
    def answer(message):
        comm.send({"n": [len(b) for b in message["buffers"]]})
get_comm_manager().register_target("measure", opened)
"""


async def test_large_messages_to_a_kernel_arrive_and_cells_run_behind_them(
    gateway: Gateway, own_kernel: dict[str, Any]
) -> None:
    """More than is under way at once: what comes behind waits, and nothing breaks."""
    wire = await Wire.open(gateway, own_kernel["id"])
    assert (await wire.reply(wire.execute(MIRROR)))["content"]["status"] == "ok"
    wire.ask("comm_open", {"comm_id": "c", "target_name": "measure", "data": {}})
    blob = bytes(20 * 1024 * 1024)
    for _ in range(3):
        wire.ask("comm_msg", {"comm_id": "c", "data": {}}, buffers=[blob])
    behind = wire.execute("'behind'")
    completion = wire.ask("complete_request", {"code": "pri", "cursor_pos": 3})
    assert (await wire.reply(behind))["content"]["status"] == "ok"
    assert "print" in (await wire.reply(completion))["content"]["matches"]
    answers = [m["content"]["data"] for m in wire.seen if m["type"] == "comm_msg"]
    assert answers == [{"n": [len(blob)]}] * 3
    wire.close()


@only("embedded")
async def test_a_message_that_is_too_large_ends_its_connection_and_nothing_else(
    gateway: Gateway, own_kernel: dict[str, Any]
) -> None:
    wire = await Wire.open(gateway, own_kernel["id"])
    running = wire.execute("x = 5")
    await wire.reply(running)
    assert int(wire.socket.headers["X-Max-Message-Bytes"]) == 32 * 1024 * 1024
    wire.ask("comm_msg", {"comm_id": "c", "data": {}}, buffers=[bytes(32 * 1024 * 1024)])
    await wire.closed()
    again = await Wire.open(gateway, own_kernel["id"], session_id=wire.session_id)
    last = again.execute("x")
    assert (await again.reply(last))["content"]["status"] == "ok"
    again.close()


async def test_a_hundred_megabytes_arrive_also_when_they_are_read_late(
    gateway: Gateway, kernel: dict[str, Any]
) -> None:
    wire = await Wire.open(gateway, kernel["id"])
    lazy = await Wire.open(gateway, kernel["id"])
    msg_id = wire.execute("for i in range(100): print(chr(97 + i % 26) * (1024 * 1024 - 1))")
    assert (await wire.reply(msg_id))["content"]["status"] == "ok"
    for reader in (wire, lazy):
        await reader.until(
            lambda m: m["parent"] == msg_id and m["content"].get("execution_state") == "idle"
        )
        lines = reader.text(msg_id).splitlines()
        assert [(line[0], len(line)) for line in lines] == [
            (chr(97 + i % 26), 1024 * 1024 - 1) for i in range(100)
        ]
        reader.close()


SLOW = """
import os, time
if os.path.exists("go"):
    os.remove("go")
for i in range(20):
    print("line", i, flush=True)
    while i == 7 and not os.path.exists("go"):
        time.sleep(0.01)
"""
LINES = "".join(f"line {i}\n" for i in range(20))


WAITS = """
import os, time
print('begun', flush=True)
while not os.path.exists("go"):
    time.sleep(0.01)
"""


@pytest.mark.parametrize("same", [True, False], ids=["same-session", "reload"])
@pytest.mark.parametrize("ended", [True, False], ids=["ended-meanwhile", "runs"])
async def test_twenty_lines_with_a_reload_in_between_are_twenty_lines(
    gateway: Gateway, api: httpx.AsyncClient, kernel: dict[str, Any], same: bool, ended: bool
) -> None:
    files = f"/v1/sessions/{kernel['session']}/files"
    executions = f"/v1/sessions/{kernel['session']}/executions"
    before = await Wire.open(gateway, kernel["id"])
    msg_id = before.execute(SLOW)
    await before.until(lambda m: m["type"] == "stream" and "line 7" in before.text(msg_id))
    seen = before.text(msg_id)
    before.close()
    await before.closed()
    if ended:
        await api.put(f"{files}/go", content=b"")
        *_, running = (await api.get(executions)).json()["executions"]
        await api.get(f"{executions}/{running['id']}", params={"wait": True})
    after = await Wire.open(gateway, kernel["id"], session_id=before.session_id if same else None)
    await api.put(f"{files}/go", content=b"")
    assert (await after.reply(msg_id))["content"]["status"] == "ok"
    assert (seen if same else "") + after.text(msg_id) == LINES
    after.close()


async def test_who_is_back_before_its_old_connection_is_known_to_be_dead_misses_nothing(
    gateway: Gateway, api: httpx.AsyncClient, kernel: dict[str, Any]
) -> None:
    asleep = await Wire.open(gateway, kernel["id"])
    msg_id = asleep.execute(SLOW)
    await asleep.until(lambda m: m["type"] == "stream" and "line 7" in asleep.text(msg_id))
    await asleep.confirmed()
    after = await Wire.open(gateway, kernel["id"], session_id=asleep.session_id)
    await asleep.closed()
    await api.put(f"/v1/sessions/{kernel['session']}/files/go", content=b"")
    assert (await after.reply(msg_id))["content"]["status"] == "ok"
    assert asleep.text(msg_id) + after.text(msg_id) == LINES
    assert not asleep.of(msg_id, "execute_reply")
    (there,) = [k for k in (await api.get("/api/kernels")).json() if k["id"] == kernel["id"]]
    assert there["connections"] == 1
    after.close()


@pytest.mark.parametrize("same", [True, False], ids=["same-session", "reload"])
async def test_twenty_lines_are_twenty_lines_with_a_second_client_attached(
    gateway: Gateway, api: httpx.AsyncClient, kernel: dict[str, Any], same: bool
) -> None:
    """Stock servers take the one that stays for the one that left, and keep nothing for the latter."""
    other = await Wire.open(gateway, kernel["id"])
    await other.reply(other.ask("kernel_info_request", {}))
    before = await Wire.open(gateway, kernel["id"])
    msg_id = before.execute(SLOW)
    await before.until(lambda m: m["type"] == "stream" and "line 7" in before.text(msg_id))
    seen = before.text(msg_id)
    before.close()
    await before.closed()
    await api.put(f"/v1/sessions/{kernel['session']}/files/go", content=b"")
    await other.until(lambda m: m["parent"] == msg_id and m["content"].get("execution_state") == "idle")
    assert other.text(msg_id) == LINES
    after = await Wire.open(gateway, kernel["id"], session_id=before.session_id if same else None)
    assert (await after.reply(msg_id))["content"]["status"] == "ok"
    assert (seen if same else "") + after.text(msg_id) == LINES
    other.close()
    after.close()


async def test_who_comes_back_is_told_of_the_cells_of_its_kernel_only(
    gateway: Gateway, api: httpx.AsyncClient, own_kernel: dict[str, Any]
) -> None:
    path = f"/v1/sessions/{own_kernel['session']}"
    before = await Wire.open(gateway, own_kernel["id"])
    await before.reply(before.execute("'before'"))
    before.close()
    await before.closed()
    assert (await api.post(f"{path}/commands", json={"command": "echo no cell"})).json()["id"]
    assert (await api.post(f"{path}/contexts", json={"name": "other"})).is_success
    for i in range(6):  # more than are kept in memory
        elsewhere = {"code": f"print('elsewhere', {i})", "context": "other"}
        assert (await api.post(f"{path}/executions", json=elsewhere)).json()["status"] == "ok"
    assert (await api.delete(f"{path}/contexts/other")).is_success
    here = (await api.post(f"{path}/executions", json={"code": "print('here')"})).json()["id"]
    after = await Wire.open(gateway, own_kernel["id"], session_id=before.session_id)
    await after.until(lambda m: m["parent"] == here and m["content"].get("execution_state") == "idle")
    assert after.text() == "here\n"
    assert {m["parent"] for m in after.seen if m["type"] == "execute_input"} == {here}
    after.close()


async def test_a_cell_with_a_key_that_is_sent_again_runs_once_and_is_told_once(
    gateway: Gateway, kernel: dict[str, Any]
) -> None:
    wire = await Wire.open(gateway, kernel["id"])
    metadata = {"idempotency_key": "of this cell"}
    code = {"code": "n = globals().get('n', 0) + 1; print(n)"}
    first = wire.ask("execute_request", code, metadata=metadata, msg_id="asked-once")
    assert wire.ask("execute_request", code, metadata=metadata, msg_id="asked-once") == first
    assert (await wire.reply(first))["content"]["status"] == "ok"
    last = wire.execute("print(n)")
    await wire.reply(last)
    assert wire.text() == "1\n1\n"
    assert len(wire.of(first, "execute_reply")) == 1
    wire.close()


async def test_the_history_is_that_of_the_session(
    gateway: Gateway, api: httpx.AsyncClient, own_kernel: dict[str, Any]
) -> None:
    path = f"/v1/sessions/{own_kernel['session']}"
    for code in ("x = 1", "'of an agent'"):
        assert (await api.post(f"{path}/executions", json={"code": code})).json()["status"] == "ok"
    await api.post(f"{path}/restart")
    wire = await Wire.open(gateway, own_kernel["id"])
    await wire.reply(wire.execute("x = 2"))
    await wire.reply(wire.execute("'of a person'"))
    await wire.reply(wire.execute("hidden = 1", store_history=False))

    async def history(**wanted: Any) -> list[Any]:
        reply = await wire.reply(wire.ask("history_request", wanted))
        assert reply["type"] == "history_reply"
        return list(reply["content"]["history"])

    tail = await history(hist_access_type="tail", n=10, output=False, raw=True)
    agents, persons = (
        [[1, 1, "x = 1"], [1, 2, "'of an agent'"]],
        [[2, 1, "x = 2"], [2, 2, "'of a person'"]],
    )
    assert tail == agents + persons
    found = await history(hist_access_type="search", pattern="'of*", n=1, output=True)
    assert found == [[2, 2, ["'of a person'", "'of a person'"]]]
    assert await history(hist_access_type="range", session=-1, start=2) == [[1, 2, "'of an agent'"]]
    wire.close()


async def test_a_restart_and_a_death_are_told(
    gateway: Gateway, api: httpx.AsyncClient, own_kernel: dict[str, Any]
) -> None:
    wire = await Wire.open(gateway, own_kernel["id"])
    msg_id = wire.execute("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    reply = await wire.reply(msg_id)
    assert reply["content"]["status"] == "error"
    assert "SIGKILL" in reply["content"]["evalue"]
    await wire.until(lambda m: m["content"].get("execution_state") == "restarting")
    assert (await wire.reply(wire.execute("1")))["content"]["status"] == "ok"
    wire.seen.clear()
    assert (await api.post(f"/api/kernels/{own_kernel['id']}/restart")).json()["id"] == own_kernel["id"]
    assert (await wire.reply(wire.execute("2")))["content"]["status"] == "ok"
    # Whoever asked for it knows; told of it, a page would take it for a crash.
    assert not [m for m in wire.seen if m["content"].get("execution_state") == "restarting"]
    assert (await api.delete(f"/api/kernels/{own_kernel['id']}")).status_code == 204
    await wire.until(lambda m: m["content"].get("execution_state") == "dead")
    assert (await api.get(f"/api/kernels/{own_kernel['id']}")).status_code == 404
    wire.close()


async def test_what_is_asked_while_the_kernel_is_replaced_is_answered_by_the_next(
    gateway: Gateway, api: httpx.AsyncClient, own_kernel: dict[str, Any]
) -> None:
    wire = await Wire.open(gateway, own_kernel["id"])
    msg_id = wire.execute("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    await wire.until(lambda m: m["type"] == "execute_reply" and m["parent"] == msg_id)
    asked = [wire.ask("complete_request", {"code": "pri", "cursor_pos": 3})]
    await wire.until(lambda m: m["content"].get("execution_state") == "restarting")
    asked += [wire.ask("complete_request", {"code": "pri", "cursor_pos": 3}) for _ in range(3)]
    for request in asked:
        assert "print" in (await wire.reply(request))["content"]["matches"]
    wire.close()


async def test_an_interrupt_ends_a_cell_and_its_reply_comes(
    gateway: Gateway, api: httpx.AsyncClient, kernel: dict[str, Any]
) -> None:
    wire = await Wire.open(gateway, kernel["id"])
    for interrupt in ("rest", "message"):
        msg_id = wire.execute("import time\nprint('begun', flush=True)\nwhile True: time.sleep(0.01)")
        await wire.until(lambda m, msg_id=msg_id: m["type"] == "stream" and m["parent"] == msg_id)
        if interrupt == "rest":
            assert (await api.post(f"/api/kernels/{kernel['id']}/interrupt")).status_code == 204
        else:
            wire.ask("interrupt_request", {}, channel="control")
        reply = await wire.reply(msg_id)
        assert reply["content"]["ename"] == "KeyboardInterrupt"
    wire.close()


async def test_a_failing_cell_of_one_client_does_not_abort_the_next_of_another(
    gateway: Gateway, kernel: dict[str, Any]
) -> None:
    one, other = await Wire.open(gateway, kernel["id"]), await Wire.open(gateway, kernel["id"])
    failing = one.execute("import time; time.sleep(0.3); 1 / 0", stop_on_error=True)
    await one.until(lambda m: m["type"] == "execute_input" and m["parent"] == failing)
    fine = other.execute("'fine'")
    assert (await one.reply(failing))["content"]["ename"] == "ZeroDivisionError"
    assert (await other.reply(fine))["content"]["status"] == "ok"
    one.close()
    other.close()


@pytest.mark.parametrize("ends", ["fails", "is interrupted"])
async def test_a_failing_cell_aborts_what_its_own_client_sent_along_with_it(
    gateway: Gateway, api: httpx.AsyncClient, kernel: dict[str, Any], ends: str
) -> None:
    """As JupyterLab's Run All relies on; others' cells run."""
    one, other = await Wire.open(gateway, kernel["id"]), await Wire.open(gateway, kernel["id"])
    code = WAITS + ("while True: time.sleep(0.01)" if ends == "is interrupted" else "1 / 0")
    await one.reply(one.execute("ran = []"))
    failing = one.execute(code)
    behind = [one.execute(f"ran.append({i})") for i in range(60)]
    await one.until(lambda m: m["type"] == "stream" and m["parent"] == failing)
    theirs = other.execute("ran.append('other')")
    await other.reply(other.ask("kernel_info_request", {}, channel="control"))
    await api.put(f"/v1/sessions/{kernel['session']}/files/go", content=b"")
    if ends == "is interrupted":
        one.ask("interrupt_request", {}, channel="control")
    assert (await one.reply(failing))["content"]["status"] == "error"
    # What is sent by one that knows of it is run, also while the rest is still to be aborted.
    after = one.execute("ran.append('after')")
    for msg_id in behind:
        assert (await one.reply(msg_id))["content"]["status"] == "aborted"
        assert not one.of(msg_id, "execute_input")
    assert (await other.reply(theirs))["content"]["status"] == "ok"
    assert (await one.reply(after))["content"]["status"] == "ok"
    last = one.execute("print(ran)")
    await one.reply(last)
    assert one.text(last) == "['other', 'after']\n"
    await api.delete(f"/v1/sessions/{kernel['session']}/files/go")
    one.close()
    other.close()


async def test_cells_that_are_still_on_their_way_when_one_fails_are_aborted_too(
    gateway: Gateway, kernel: dict[str, Any]
) -> None:
    wire = await Wire.open(gateway, kernel["id"])
    await wire.reply(wire.execute("ran = []"))
    sent = datetime.now(UTC).isoformat()
    failing = wire.ask("execute_request", {"code": "1 / 0"}, date=sent)
    assert (await wire.reply(failing))["content"]["status"] == "error"
    late = wire.ask("execute_request", {"code": "ran.append('late')"}, date=sent)
    assert (await wire.reply(late))["content"]["status"] == "aborted"
    for more in ({"date": ""}, {}):
        msg_id = wire.ask("execute_request", {"code": "ran.append('aware')"}, **more)
        assert (await wire.reply(msg_id))["content"]["status"] == "ok"
    last = wire.execute("print(ran)")
    await wire.reply(last)
    assert wire.text(last) == "['aware', 'aware']\n"
    wire.close()


async def test_a_long_notebook_is_run_whole_and_every_cell_is_answered(
    gateway: Gateway, api: httpx.AsyncClient, own_kernel: dict[str, Any]
) -> None:
    """As JupyterLab's Run All sends it: all cells at once, more than anybody else may have waiting."""
    path = f"/v1/sessions/{own_kernel['session']}"
    wire = await Wire.open(gateway, own_kernel["id"])
    first = wire.execute(WAITS)
    asked = [wire.execute(f"print({i})") for i in range(300)]
    await wire.reply(wire.ask("kernel_info_request", {}, channel="control"))
    theirs = await api.post(f"{path}/executions", json={"code": "print('theirs')", "wait": False})
    assert theirs.status_code == 202, "those of a Jupyter client keep nobody else from running cells"
    await api.put(f"{path}/files/go", content=b"")
    assert (await wire.reply(first))["content"]["status"] == "ok"
    for i, msg_id in enumerate(asked):
        assert (await wire.reply(msg_id))["content"]["status"] == "ok"
        assert wire.text(msg_id) == f"{i}\n"
    wire.close()


async def test_the_queue_of_a_jupyter_client_has_an_end(
    gateway: Gateway, own_kernel: dict[str, Any]
) -> None:
    wire = await Wire.open(gateway, own_kernel["id"])
    running = wire.execute(WAITS)
    await wire.until(lambda m: m["type"] == "stream" and m["parent"] == running)
    asked = [wire.execute("'fine'", store_history=False) for _ in range(1001)]
    reply = await wire.reply(asked[-1])
    assert reply["content"]["ename"] == "QueueFull"
    wire.ask("interrupt_request", {}, channel="control")
    assert (await wire.reply(running))["content"]["ename"] == "KeyboardInterrupt"
    for msg_id in asked[:-1]:
        assert (await wire.reply(msg_id))["content"]["status"] == "aborted"
    wire.close()


async def test_who_does_not_want_its_cells_aborted_has_them_run(
    gateway: Gateway, kernel: dict[str, Any]
) -> None:
    wire = await Wire.open(gateway, kernel["id"])
    failing = wire.execute("import time; time.sleep(0.2); 1 / 0", stop_on_error=False)
    behind = wire.execute("'fine'")
    assert (await wire.reply(failing))["content"]["status"] == "error"
    assert (await wire.reply(behind))["content"]["status"] == "ok"
    wire.close()


@only("embedded")
async def test_a_client_that_does_not_read_costs_little_memory_and_misses_nothing(
    gateway: Gateway, api: httpx.AsyncClient, kernel: dict[str, Any]
) -> None:
    lazy = await Wire.open(gateway, kernel["id"])
    await lazy.reply(lazy.ask("kernel_info_request", {}))
    before = gateway.memory()
    code = "for i in range(300): print(chr(97 + i % 26) * (1024 * 1024 - 1))"
    url = f"/v1/sessions/{kernel['session']}/executions"
    answer = await api.post(url, json={"code": code, "timeout": 300})
    assert answer.json()["status"] == "ok", answer.text
    assert gateway.memory() - before < 150 * 1024 * 1024
    id = answer.json()["id"]
    count = 0
    while message := await lazy.read():
        if message["type"] == "stream":
            count += len(message["content"]["text"])
        lazy.seen.clear()
        if message["parent"] == id and message["content"].get("execution_state") == "idle":
            break
    assert count == 300 * 1024 * 1024
    lazy.close()


async def test_a_client_that_cannot_be_told_what_it_missed_is_hung_up_on(
    gateway: Gateway, api: httpx.AsyncClient, own_kernel: dict[str, Any]
) -> None:
    lazy = await Wire.open(gateway, own_kernel["id"])
    await lazy.reply(lazy.ask("kernel_info_request", {}))
    path = f"/v1/sessions/{own_kernel['session']}"
    code = {"code": "for i in range(64): print('x' * (1024 * 1024 - 1))", "timeout": 300}
    assert (await api.post(f"{path}/executions", json=code)).json()["status"] == "ok"
    assert (await api.delete(path)).is_success
    await lazy.closed()
    assert len(lazy.text()) < 64 * 1024 * 1024
    assert lazy.socket.close_code in (1001, 1011)
