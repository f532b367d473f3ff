"""What is sent is not what has arrived: a network that breaks, with a word or without one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.conftest import Gateway, only
from tests.gateway.jupyter.test_channels import LINES, SLOW
from tests.gateway.jupyter.wire import Wire
from tests.page.broken_network import BrokenNetwork


@pytest.fixture
def network(gateway: Gateway) -> Iterator[BrokenNetwork]:
    network = BrokenNetwork(gateway.url)
    yield network
    network.close()


async def go_on(api: httpx.AsyncClient, kernel: dict[str, Any]) -> None:
    """Has the cell print the rest, and waits until it has ended."""
    path = f"/v1/sessions/{kernel['session']}"
    await api.put(f"{path}/files/go", content=b"")
    *_, running = (await api.get(f"{path}/executions")).json()["executions"]
    await api.get(f"{path}/executions/{running['id']}", params={"wait": True})


@pytest.mark.parametrize("same", [True, False], ids=["same-session", "reload"])
async def test_what_is_lost_without_a_word_comes_when_the_client_is_back(
    gateway: Gateway,
    api: httpx.AsyncClient,
    own_kernel: dict[str, Any],
    network: BrokenNetwork,
    same: bool,
) -> None:
    before = await Wire.open(gateway, own_kernel["id"], by=network.url)
    msg_id = before.execute(SLOW)
    await before.until(lambda m: m["type"] == "stream" and "line 7" in before.text(msg_id))
    await before.confirmed()
    network.lose()
    await go_on(api, own_kernel)
    session_id = before.session_id if same else None
    after = await Wire.open(gateway, own_kernel["id"], session_id=session_id, by=network.url)
    assert (await after.reply(msg_id))["content"]["status"] == "ok"
    assert (before.text(msg_id) if same else "") + after.text(msg_id) == LINES
    # And that is remembered: nobody else is told of it once more.
    await after.confirmed()
    other = await Wire.open(gateway, own_kernel["id"])
    await other.confirmed()
    assert other.text() == ""
    after.close()
    other.close()


@only("embedded")
@pytest.mark.parametrize("ended", [True, False], ids=["ended-meanwhile", "runs"])
@pytest.mark.parametrize("v1", [True, False], ids=["v1", "legacy"])
async def test_who_comes_back_to_a_gateway_that_was_killed_gets_what_it_asked_for(
    own_gateway: Gateway, ended: bool, v1: bool
) -> None:
    """All of it, after it is told to clear what is there."""
    own_gateway.start()
    with own_gateway.client() as http:
        kernel = http.post("/api/kernels").json()
    path = f"/v1/sessions/{kernel['session']}"
    before = await Wire.open(own_gateway, kernel["id"], v1=v1)
    msg_id = before.execute(SLOW)
    behind = before.execute("print('behind')")
    await before.until(lambda m: m["type"] == "stream" and "line 7" in before.text(msg_id))
    await before.confirmed()  # and so both have arrived
    own_gateway.kill()
    own_gateway.start()

    def go_on() -> None:
        with own_gateway.client() as http:
            http.put(f"{path}/files/go", content=b"")
            for execution in http.get(f"{path}/executions").json()["executions"]:
                http.get(f"{path}/executions/{execution['id']}", params={"wait": True})

    if ended:
        go_on()
    # One that is no such client, and is first, takes nothing away from it.
    other = await Wire.open(own_gateway, kernel["id"])
    await other.reply(other.ask("kernel_info_request", {}, channel="control"))
    after = await Wire.open(own_gateway, kernel["id"], v1=v1, session_id=before.session_id)
    await after.until(lambda m: m["type"] == "execute_input" and m["parent"] == msg_id)
    if not ended:
        go_on()
    for asked in (msg_id, behind):
        assert (await after.reply(asked))["content"]["status"] == "ok"
        assert len(after.of(asked, "execute_reply")) == 1
    assert after.text(msg_id) == LINES
    assert after.text(behind) == "behind\n"
    told = [m["type"] for m in after.seen if m["parent"] == msg_id]
    assert told.index("clear_output") < told.index("execute_input") < told.index("stream")
    assert not [m for m in other.seen if m["type"] == "execute_reply"]
    # Once it has them that is that: what it gets on its next connection is what is new.
    await after.confirmed()
    after.close()
    await after.closed()
    again = await Wire.open(own_gateway, kernel["id"], v1=v1, session_id=before.session_id)
    last = again.execute("print('on')")
    assert (await again.reply(last))["content"]["status"] == "ok"
    assert again.text() == "on\n"
    other.close()
    again.close()


async def test_what_was_on_its_way_when_the_connection_broke_is_not_missing(
    gateway: Gateway, api: httpx.AsyncClient, own_kernel: dict[str, Any], network: BrokenNetwork
) -> None:
    before = await Wire.open(gateway, own_kernel["id"], by=network.url)
    waits = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\n"
    msg_id = before.execute(waits + "for i in range(6000): print(i, 'x' * 1000)")
    await before.until(lambda m: m["type"] == "execute_input")
    await go_on(api, own_kernel)  # it does not read meanwhile, and all of it is sent
    await before.until(lambda m: m["type"] == "stream")
    network.drop()
    after = await Wire.open(gateway, own_kernel["id"], session_id=before.session_id, by=network.url)
    assert (await after.reply(msg_id))["content"]["status"] == "ok"
    printed = (before.text(msg_id) + after.text(msg_id)).splitlines()
    assert {line.split()[0] for line in printed} >= {str(i) for i in range(6000)}
    assert after.text(msg_id).endswith("5999 " + "x" * 1000 + "\n")
    after.close()


async def test_a_reply_to_what_is_no_cell_waits_for_the_client_that_asked(
    gateway: Gateway, api: httpx.AsyncClient, own_kernel: dict[str, Any]
) -> None:
    before = await Wire.open(gateway, own_kernel["id"])
    running = before.execute(SLOW)
    await before.until(lambda m: m["type"] == "stream" and "line 7" in before.text(running))
    asked = [before.ask("is_complete_request", {"code": "1 +"}) for _ in range(2)]
    await before.confirmed()
    before.close()
    await before.closed()
    await go_on(api, own_kernel)
    other = await Wire.open(gateway, own_kernel["id"])
    await other.reply(other.ask("kernel_info_request", {}))
    after = await Wire.open(gateway, own_kernel["id"], session_id=before.session_id)
    for msg_id in asked:
        reply = await after.until(lambda m, id=msg_id: m["parent"] == id and m["channel"] == "shell")
        assert reply["type"] == "is_complete_reply"
    assert not [m for m in other.seen if m["parent"] in asked and m["channel"] == "shell"]
    after.close()
    other.close()


async def test_a_question_of_one_that_is_gone_is_answered_by_nobody_else(
    gateway: Gateway, api: httpx.AsyncClient, own_kernel: dict[str, Any]
) -> None:
    one = await Wire.open(gateway, own_kernel["id"])
    msg_id = one.execute("name = input('who? '); print('hello', name)", allow_stdin=True)
    await one.until(lambda m: m["type"] == "input_request")
    one.close()
    await one.closed()
    other = await Wire.open(gateway, own_kernel["id"])
    await other.until(lambda m: m["parent"] == msg_id and m["type"] == "execute_input")
    other.ask("input_reply", {"value": "the wrong one"}, channel="stdin")
    await other.confirmed()
    again = await Wire.open(gateway, own_kernel["id"], session_id=one.session_id)
    # It was asked before it left, and is not asked twice.
    again.ask("input_reply", {"value": "the right one"}, channel="stdin")
    assert (await again.reply(msg_id))["content"]["status"] == "ok"
    assert again.text(msg_id) == "hello the right one\n"
    assert not [m for m in other.seen if m["type"] == "input_request"]
    other.close()
    again.close()
