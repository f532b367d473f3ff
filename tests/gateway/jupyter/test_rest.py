"""Kernels over REST, as Jupyter's clients ask for them, and who is not let in."""

from __future__ import annotations

import re
import uuid
from typing import Any

import httpx
import pytest
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.websocket import websocket_connect

from tests.conftest import Gateway, only
from tests.gateway.jupyter.wire import Wire

ONCE = only("embedded")
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


@ONCE
def test_the_server_tells_of_itself(gateway: Gateway, http: httpx.Client) -> None:
    assert httpx.get(f"{gateway.url}/api", trust_env=False).json().keys() == {"version"}
    status = http.get("/api/status").json()
    assert status.keys() == {"connections", "kernels", "last_activity", "started"}
    assert MOMENT.fullmatch(status["last_activity"])
    me = http.get("/api/me").json()
    assert me["identity"]["username"]
    assert "permissions" in me
    specs = http.get("/api/kernelspecs").json()
    assert specs["default"] == "python"
    assert {"python", "python3"} <= specs["kernelspecs"].keys()
    one = http.get("/api/kernelspecs/python3").json()
    assert one["spec"]["language"] == "python"
    assert http.get("/api/kernelspecs/fortran").status_code == 404


@ONCE
def test_a_kernel_is_a_session_and_a_session_is_a_kernel(
    http: httpx.Client, session: str, kernel: dict[str, Any]
) -> None:
    assert uuid.UUID(kernel["id"])
    assert kernel["execution_state"] == "idle"
    assert MOMENT.fullmatch(kernel["last_activity"])
    assert http.get(f"/v1/sessions/{kernel['session']}").json()["state"] == "ready"
    listed = {k["session"]: k for k in http.get("/api/kernels").json()}
    assert {session, kernel["session"]} <= listed.keys()
    theirs = listed[session]["id"]
    assert http.get(f"/api/kernels/{theirs}").json() == http.get(f"/api/kernels/{session}").json()
    joined = http.post("/api/kernels", json={"kernel_id": theirs})
    assert joined.status_code == 201
    assert joined.json()["session"] == session
    assert joined.headers["Location"] == f"/api/kernels/{theirs}"


@ONCE
def test_a_kernel_has_the_variables_that_its_client_gave(http: httpx.Client) -> None:
    given = {"GIVEN": "here", "KERNEL_USERNAME": "somebody"}
    kernel = http.post("/api/kernels", json={"env": given}).json()
    path = f"/v1/sessions/{kernel['session']}"
    code = "import os; [os.environ.get(name) for name in ('GIVEN', 'KERNEL_USERNAME')]"
    assert http.post(f"{path}/executions", json={"code": code}).json()["text"] == "['here', None]"
    http.delete(path)
    for wrong in ({"LONG": "x" * 20_000}, {"a=b": "x"}):
        assert http.post("/api/kernels", json={"env": wrong}).status_code == 400, wrong


@ONCE
def test_a_document_that_gets_another_kernel_keeps_its_id(http: httpx.Client) -> None:
    first = http.post("/api/sessions", json={"path": "kept.ipynb"}).json()
    second = http.post("/api/kernels").json()
    changed = http.patch(f"/api/sessions/{first['id']}", json={"kernel": {"id": second["id"]}}).json()
    assert (changed["id"], changed["path"]) == (first["id"], "kept.ipynb")
    assert changed["kernel"]["id"] == second["id"]
    assert http.get(f"/api/sessions/{first['id']}").json()["kernel"]["id"] == second["id"]
    listed = http.get("/api/sessions").json()
    assert len({one["id"] for one in listed}) == len(listed)
    # As with Jupyter's own server a name means a new kernel, also that of the one that is there.
    third = http.patch(f"/api/sessions/{first['id']}", json={"kernel": {"name": "python3"}}).json()
    assert (third["id"], third["path"]) == (first["id"], "kept.ipynb")
    made = [first["kernel"]["session"], second["session"], third["kernel"]["session"]]
    assert len(set(made)) == 3
    states = [http.get(f"/v1/sessions/{session}").json()["state"] for session in made]
    assert states == ["stopped", "stopped", "ready"], "a kernel that nobody has open is ended"
    for session in made:
        http.delete(f"/v1/sessions/{session}")


@ONCE
def test_what_is_not_there_is_told_as_jupyter_does(http: httpx.Client) -> None:
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/restart"), ("POST", "/interrupt")):
        answer = http.request(method, f"/api/kernels/{uuid.uuid4()}{path}")
        assert answer.status_code == 404
        assert "does not exist" in answer.json()["message"]
        assert answer.json()["reason"]
    assert http.post("/api/kernels", json={"name": "fortran"}).status_code == 400
    assert http.put("/api/kernels").status_code == 405
    assert http.get("/api/nothing").status_code == 404


@ONCE
@pytest.mark.parametrize("setting", ["stop", "detach"])
def test_deleting_a_kernel_does_what_the_setting_says(own_gateway: Gateway, setting: str) -> None:
    own_gateway.settings["jupyter_delete"] = setting
    own_gateway.start()
    with own_gateway.client() as http:
        kernel = http.post("/api/kernels", json={"name": "python3"}).json()
        assert http.delete(f"/api/kernels/{kernel['id']}").status_code == 204
        state = http.get(f"/v1/sessions/{kernel['session']}").json()["state"]
        assert state == ("stopped" if setting == "stop" else "ready")
        again = http.post("/api/kernels", json={"kernel_id": kernel["id"]})
        assert again.status_code == 201
        assert again.json()["execution_state"] == "idle"


@ONCE
def test_with_delete_nothing_is_left_of_a_kernel_but_an_agents_session_stays(
    own_gateway: Gateway,
) -> None:
    own_gateway.settings["jupyter_delete"] = "delete"
    own_gateway.start()
    with own_gateway.client() as http:
        agents = http.post("/v1/sessions").json()["id"]
        mine = http.post("/api/kernels").json()
        for kernel in (mine["id"], agents):
            assert http.delete(f"/api/kernels/{kernel}").status_code == 204
        assert http.get(f"/v1/sessions/{mine['session']}").status_code == 404
        assert http.get(f"/v1/sessions/{agents}").json()["state"] == "stopped"


@ONCE
async def test_a_websocket_needs_the_token_and_no_page_of_another_host(
    gateway: Gateway, kernel: dict[str, Any]
) -> None:
    url = f"{gateway.url.replace('http', 'ws')}/api/kernels/{kernel['id']}/channels"
    token = {"Authorization": f"token {gateway.token}"}
    refused = [
        ({}, 401),
        ({"Authorization": "token wrong"}, 401),
        ({**token, "Origin": "http://evil.example"}, 403),
        ({**token, "Origin": "null"}, 403),
        ({**token, "Host": "evil.example"}, 403),
        ({**token, "Host": "evil.example", "Origin": "http://evil.example"}, 403),
    ]
    for headers, status in refused:
        with pytest.raises(HTTPClientError) as refusal:
            await websocket_connect(HTTPRequest(url, headers=headers))
        assert refusal.value.code == status, headers
    with pytest.raises(HTTPClientError) as refusal:
        await websocket_connect(HTTPRequest(url.replace(kernel["id"], "no"), headers=token))
    assert refusal.value.code == 404
    for headers, query in ((token, ""), ({}, f"?token={gateway.token}")):
        own = {**headers, "Origin": gateway.url}
        socket = await websocket_connect(HTTPRequest(url + query, headers=own))
        socket.close()


@ONCE
@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\x00" * 8,
        b"\xff" * 64,
        (7).to_bytes(8, "little") + b"\xff" * 56,
        "no json",
        "{}",
        '{"header": {"msg_id": 1, "msg_type": "x"}}',
        '{"header": {"msg_id": "1", "msg_type": "execute_request"}, "content": []}',
    ],
    ids=range(8),
)
@pytest.mark.parametrize("v1", [True, False], ids=["v1", "legacy"])
async def test_what_is_no_message_ends_the_connection_and_nothing_else(
    gateway: Gateway, session: str, frame: str | bytes, v1: bool
) -> None:
    wire = await Wire.open(gateway, session, v1=v1)
    before = len(gateway.log.read_text())
    wire.socket.write_message(frame, binary=isinstance(frame, bytes))
    await wire.closed()
    assert wire.socket.close_code == 1007
    assert "Traceback" not in gateway.log.read_text()[before:]


@ONCE
async def test_a_message_with_wrong_content_is_answered_and_ends_nothing(
    gateway: Gateway, kernel: dict[str, Any]
) -> None:
    wire = await Wire.open(gateway, kernel["id"])
    asked = [
        wire.ask("history_request", {"session": None}),
        wire.ask("execute_request", {"code": None}),
        wire.ask("execute_request", {"code": "1", "user_expressions": {"a": 5}}),
    ]
    wire.ask("input_reply", {"value": "x" * 1_000_001}, channel="stdin")
    wire.ask("input_reply", {"value": None}, channel="stdin")
    for msg_id in asked:
        assert (await wire.reply(msg_id))["content"]["status"] == "error"
    assert (await wire.reply(wire.execute("1")))["content"]["status"] == "ok"
    wire.close()


@ONCE
async def test_what_clients_leave_out_is_made_up_for(gateway: Gateway, kernel: dict[str, Any]) -> None:
    url = (
        f"{gateway.url.replace('http', 'ws')}/api/kernels/{kernel['id']}/channels?token={gateway.token}"
    )
    wire = Wire(await websocket_connect(url), "", v1=False)
    header = '{"msg_id": "m1", "msg_type": "execute_request", "version": "5.0"}'
    wire.socket.write_message(f'{{"header": {header}, "content": {{"code": "1+1"}}, "buffers": {{}}}}')
    assert (await wire.reply("m1"))["content"]["status"] == "ok"
    wire.close()
