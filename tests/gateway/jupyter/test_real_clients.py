"""Clients that others wrote, as they come."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from jupyter_kernel_client import JupyterKernelClient

from tests.conftest import Gateway
from tests.other_pythons import python_with

CLIENTS = Path(__file__).parent / "clients"
AGENTS = ("autogen-ext[docker-jupyter-executor]==0.7.5", "smolagents[docker]==1.26.0")


@pytest.fixture
def tidy(http: httpx.Client) -> Iterator[set[str]]:
    """The sessions that were there before; those that a client makes are deleted."""
    before = {session["id"] for session in http.get("/v1/sessions").json()["sessions"]}
    yield before
    for session in http.get("/v1/sessions").json()["sessions"]:
        if session["id"] not in before:
            http.delete(f"/v1/sessions/{session['id']}")


def made_since(before: set[str], http: httpx.Client) -> list[dict[str, Any]]:
    sessions = http.get("/v1/sessions").json()["sessions"]
    return [session for session in sessions if session["id"] not in before]


def run(python: Path | str, script: str, *arguments: str, **env: str) -> None:
    command = [str(python), str(CLIENTS / script), *arguments]
    done = subprocess.run(
        command, env={**os.environ, **env}, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr


def place(gateway: Gateway) -> tuple[str, str, str]:
    host, _, port = gateway.url.removeprefix("http://").partition(":")
    return host, port, gateway.token


def test_jupyter_kernel_client(gateway: Gateway, kernel: dict[str, Any]) -> None:
    place = {"server_url": gateway.url, "token": gateway.token}
    with JupyterKernelClient(kernel_id=kernel["id"], **place) as client:
        check(client)


def check(client: JupyterKernelClient) -> None:
    reply = client.execute("x = 6 * 7\nprint('hello')\nx")
    assert reply["status"] == "ok"
    kinds = [output["output_type"] for output in reply["outputs"]]
    assert kinds == ["stream", "execute_result"]
    assert reply["outputs"][1]["data"]["text/plain"] == "42"
    failed = client.execute("1 / 0")
    assert failed["status"] == "error"
    assert failed["outputs"][0]["ename"] == "ZeroDivisionError"


def test_autogens_executor(gateway: Gateway, http: httpx.Client, tidy: set[str], tmp_path: Path) -> None:
    run(python_with(*AGENTS), "autogen.py", *place(gateway), str(tmp_path))
    assert [session["state"] for session in made_since(tidy, http)] == ["stopped"]


def test_smolagents_executor(gateway: Gateway, http: httpx.Client, tidy: set[str]) -> None:
    run(python_with(*AGENTS), "smolagents_executor.py", *place(gateway))
    (session,) = made_since(tidy, http)
    path = f"/v1/sessions/{session['id']}/executions"
    assert "final_answer({'x': x})" in [e["code"] for e in http.get(path).json()["executions"]]


def test_nbclient_over_a_gateway_url(
    gateway: Gateway, http: httpx.Client, tidy: set[str], tmp_path: Path
) -> None:
    run(sys.executable, "nbclient_by_gateway.py", **gateway_settings(gateway, tmp_path))
    assert [session["state"] for session in made_since(tidy, http)] == ["stopped", "stopped"]


def gateway_settings(gateway: Gateway, folder: Path) -> dict[str, str]:
    return {
        "JUPYTER_GATEWAY_URL": gateway.url,
        "JUPYTER_GATEWAY_AUTH_TOKEN": gateway.token,
        "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
        "JUPYTER_CONFIG_DIR": str(folder / "config"),
        "JUPYTER_DATA_DIR": str(folder / "data"),
    }


@pytest.fixture
def jupyter_server(gateway: Gateway, tmp_path: Path) -> Iterator[str]:
    """The address of a Jupyter Server that has its kernels at the gateway; its token is 'front'."""
    options = ["--ServerApp.port=0", "--IdentityProvider.token=front", "--allow-root", "--no-browser"]
    command = [sys.executable, "-m", "jupyter_server", *options, f"--gateway-url={gateway.url}"]
    env = {**os.environ, **gateway_settings(gateway, tmp_path)}
    (tmp_path / "files").mkdir()
    with open(tmp_path / "log", "wb") as log:
        process = subprocess.Popen(
            command, cwd=tmp_path / "files", env=env, stdout=log, stderr=subprocess.STDOUT
        )
    try:
        deadline = time.monotonic() + 120
        while not (found := list((tmp_path / "runtime").glob("jpserver-*.json"))):
            assert process.poll() is None, (tmp_path / "log").read_text()
            assert time.monotonic() < deadline, (tmp_path / "log").read_text()
            time.sleep(0.05)
        while not (text := found[0].read_text()).endswith("}"):
            time.sleep(0.05)
        yield str(json.loads(text)["url"])
    finally:
        process.terminate()
        process.wait(60)


def test_a_jupyter_server_joins_a_session_that_an_agent_made(
    jupyter_server: str, http: httpx.Client, session: str
) -> None:
    assert http.post(f"/v1/sessions/{session}/executions", json={"code": "x = 41"}).is_success
    kernel = http.get(f"/api/kernels/{session}").json()["id"]
    front = httpx.post(
        f"{jupyter_server}api/kernels",
        headers={"Authorization": "token front"},
        json={"kernel_id": kernel},
        timeout=120,
        trust_env=False,
    )
    assert (front.status_code, front.json()["id"]) == (201, kernel), front.text
    with JupyterKernelClient(kernel_id=kernel, server_url=jupyter_server, token="front") as client:
        assert client.execute("x + 1")["outputs"][0]["data"]["text/plain"] == "42"
    assert len(http.get(f"/v1/sessions/{session}/executions").json()["executions"]) == 2


def test_a_jupyter_server_with_its_kernels_here(
    jupyter_server: str, http: httpx.Client, tidy: set[str]
) -> None:
    with httpx.Client(
        base_url=jupyter_server, headers={"Authorization": "token front"}, timeout=120, trust_env=False
    ) as front:
        assert "python3" in front.get("api/kernelspecs").json()["kernelspecs"]
        body = {"path": "n.ipynb", "name": "n", "type": "notebook", "kernel": {"name": "python3"}}
        made = front.post("api/sessions", json=body)
        assert made.status_code == 201, made.text
        kernel = made.json()["kernel"]["id"]
        with JupyterKernelClient(kernel_id=kernel, server_url=jupyter_server, token="front") as client:
            check(client)
        assert front.post(f"api/kernels/{kernel}/restart").status_code == 200
        with JupyterKernelClient(kernel_id=kernel, server_url=jupyter_server, token="front") as client:
            assert client.execute("x")["status"] == "error"
        assert front.delete(f"api/sessions/{made.json()['id']}").status_code == 204
    assert [session["state"] for session in made_since(tidy, http)] == ["stopped"]
