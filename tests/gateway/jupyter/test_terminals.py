"""Terminals as JupyterLab asks for them: one list, each named by its session."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.websocket import WebSocketClientConnection, websocket_connect

from tests.conftest import Gateway, only

PATIENCE = 120.0


async def connect(gateway: Gateway, name: str, **headers: str) -> WebSocketClientConnection:
    url = f"{gateway.url.replace('http', 'ws')}/terminals/websocket/{name}"
    headers = headers or {"Authorization": f"token {gateway.token}"}
    return await websocket_connect(HTTPRequest(url, headers=headers))


async def shown(socket: WebSocketClientConnection, wanted: str) -> str:
    """What it shows, up to this."""
    text = ""
    while wanted not in text:
        message = await asyncio.wait_for(socket.read_message(), PATIENCE)
        assert message is not None, text
        match json.loads(message):
            case ["stdout", str(piece)]:
                text += piece
    return text


async def test_a_terminal_is_opened_used_listed_and_ended(
    gateway: Gateway, api: httpx.AsyncClient, session: str
) -> None:
    made = await api.post("/api/terminals", json={"cwd": f"{session}/some/folder"})
    assert made.status_code == 200, made.text
    name = made.json()["name"]
    assert name == f"{session}.1"
    assert made.json().keys() == {"name", "last_activity"}
    socket = await connect(gateway, name)
    await socket.write_message(json.dumps(["set_size", 30, 100, 0, 0]))
    await socket.write_message(json.dumps(["stdin", "stty size; echo $((6 * 7))-there\r"]))
    assert "30 100" in await shown(socket, "42-there")
    assert name in [terminal["name"] for terminal in (await api.get("/api/terminals")).json()]
    ours = (await api.get(f"/v1/sessions/{session}/terminals")).json()["terminals"]
    assert [terminal["name"] for terminal in ours] == ["1"]
    assert (await api.get(f"/api/terminals/{name}")).json()["name"] == name
    assert (await api.delete(f"/api/terminals/{name}")).status_code == 204
    while (message := await asyncio.wait_for(socket.read_message(), PATIENCE)) is not None:
        last = message
    assert json.loads(last)[0] == "disconnect"
    assert (await api.get(f"/api/terminals/{name}")).status_code == 404


@only("embedded")
async def test_where_a_terminal_is_opened(api: httpx.AsyncClient, session: str) -> None:
    async def opened(**body: Any) -> str:
        answer = await api.post("/api/terminals", json=body)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["name"])

    assert await opened(name=f"{session}.mine") == f"{session}.mine"
    assert await opened(name=f"{session}.mine") == f"{session}.mine", "it is there already"
    assert await opened(name=session) == f"{session}.1"
    assert await opened(name="plain") == f"{session}.plain", "the session that was used last"
    answer = await api.post("/api/terminals")
    assert answer.json()["name"] == f"{session}.2", "no body at all"
    assert (await api.post("/api/terminals", json={"name": "none.x"})).status_code == 404
    assert (await api.post("/api/terminals", json={"name": f"{session}.a/b"})).status_code == 400


@only("embedded")
async def test_who_may_not_and_what_is_not_there(
    gateway: Gateway, api: httpx.AsyncClient, session: str
) -> None:
    await api.post("/api/terminals", json={"name": f"{session}.there"})
    token = {"Authorization": f"token {gateway.token}"}
    for name, headers, status in (
        ("there", {"Authorization": "token wrong"}, 401),
        ("there", {**token, "Origin": "http://evil.example"}, 403),
        ("none", token, 404),
    ):
        with pytest.raises(HTTPClientError) as refusal:
            await connect(gateway, f"{session}.{name}", **headers)
        assert refusal.value.code == status, headers
