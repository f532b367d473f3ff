"""A kernel of an application that is a session: everything that goes over its sockets, and its whole life."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from jupyter_client.manager import AsyncKernelManager, KernelManager, start_new_kernel
from jupyter_client.provisioning import KernelProvisionerFactory

from tests.conftest import Gateway, only
from tests.mounts import soon
from tests.page.broken_network import BrokenNetwork
from tests.provisioner.conftest import KERNEL, Kernel, at

PATIENCE = 120


def text_of(client: Any, msg_id: str) -> str:
    """What a cell printed, when it is idle."""
    text = ""
    while True:
        message = client.get_iopub_msg(timeout=PATIENCE)
        if message["parent_header"].get("msg_id") != msg_id:
            continue
        if message["msg_type"] == "stream":
            text += message["content"]["text"]
        if message["content"].get("execution_state") == "idle":
            return text


def run(client: Any, code: str) -> str:
    msg_id = client.execute(code)
    reply = client._recv_reply(msg_id, timeout=PATIENCE)
    assert reply["content"]["status"] == "ok", reply["content"]
    return text_of(client, msg_id)


def test_questions_buffers_and_large_outputs_pass(kernel: Kernel) -> None:
    _, client = kernel
    msg_id = client.execute("print('hello', input('who? '))", allow_stdin=True)
    question = client.get_stdin_msg(timeout=PATIENCE)
    assert question["content"]["prompt"] == "who? "
    client.input("the one that asked")
    assert text_of(client, msg_id) == "hello the one that asked\n"

    run(
        client,
        "from comm import get_comm_manager\n"
        "def opened(comm, message):\n"
        "    comm.on_msg(lambda m: comm.send({}, buffers=[bytes(b)[::-1] for b in m['buffers']]))\n"
        "get_comm_manager().register_target('mirror', opened)",
    )
    blob = bytes(range(256)) * 4096
    for type, content in (("comm_open", {"target_name": "mirror"}), ("comm_msg", {})):
        content = {"comm_id": "c", "data": {}, **content}
        message = client.session.msg(type, content)
        buffers = [blob, b"\x00\xff"] if type == "comm_msg" else None
        client.session.send(client.shell_channel.socket, message, buffers=buffers)
    while (said := client.get_iopub_msg(timeout=PATIENCE))["msg_type"] != "comm_msg":
        pass
    assert [bytes(buffer) for buffer in said["buffers"]] == [blob[::-1], b"\xff\x00"]

    printed = run(client, "for i in range(50): print(chr(97 + i % 26) * (1024 * 1024 - 1))")
    lines = printed.splitlines()
    assert [(line[0], len(line)) for line in lines] == [
        (chr(97 + i % 26), 1024 * 1024 - 1) for i in range(50)
    ]


def test_a_message_that_is_too_large_is_answered_and_others_pass(kernel: Kernel) -> None:
    _, client = kernel
    run(
        client,
        "from comm import get_comm_manager\n"
        "def opened(comm, message):\n"
        "    comm.on_msg(lambda m: comm.send({'n': [len(b) for b in m['buffers']]}))\n"
        "get_comm_manager().register_target('measure', opened)",
    )

    def send(type: str, content: dict[str, Any], size: int = 0) -> None:
        message = client.session.msg(type, {"comm_id": "c", "data": {}, **content})
        buffers = [bytes(size)] if size else None
        client.session.send(client.shell_channel.socket, message, buffers=buffers)

    send("comm_open", {"target_name": "measure"})
    send("comm_msg", {}, 33 * 1024 * 1024)
    too_long = client.execute("'" + 33 * 1024 * 1024 * "x" + "'")
    reply = client._recv_reply(too_long, timeout=PATIENCE)
    assert reply["content"]["ename"] == "MessageTooLarge"
    assert text_of(client, too_long) == ""
    send("comm_msg", {}, 20 * 1024 * 1024)
    while (said := client.get_iopub_msg(timeout=PATIENCE))["msg_type"] != "comm_msg":
        pass
    assert said["content"]["data"] == {"n": [20 * 1024 * 1024]}
    assert run(client, "print('on')") == "on\n"


def test_interrupt_restart_and_shutdown_are_those_of_the_session(
    kernel: Kernel, state_of: Callable[[KernelManager], str]
) -> None:
    manager, client = kernel
    ports = manager.ports
    for interrupt in ("message", "signal"):
        msg_id = client.execute("print('begun', flush=True)\nimport time\nwhile True: time.sleep(0.01)")
        while client.get_iopub_msg(timeout=PATIENCE)["msg_type"] != "stream":
            pass
        manager.kernel_spec.interrupt_mode = interrupt
        manager.interrupt_kernel()
        reply = client._recv_reply(msg_id, timeout=PATIENCE)
        assert reply["content"]["ename"] == "KeyboardInterrupt"
    run(client, "x = 1; open('kept', 'w').write('yes')")
    session = manager.provisioner.session_id  # type: ignore[union-attr]
    for now in (False, True):
        manager.restart_kernel(now=now)
        client.wait_for_ready(timeout=PATIENCE)
        assert run(client, "print('x' in globals(), open('kept').read()); x = 1") == "False yes\n"
        assert manager.is_alive()
        assert manager.ports == ports
        assert manager.provisioner.session_id == session  # type: ignore[union-attr]
    assert state_of(manager) in ("ready", "busy")
    manager.shutdown_kernel()
    assert not manager.is_alive()
    assert state_of(manager) == "stopped"


def test_a_session_that_is_stopped_elsewhere_is_a_dead_kernel_that_can_be_restarted(
    kernel: Kernel, http: httpx.Client
) -> None:
    manager, client = kernel
    path = f"/v1/sessions/{manager.provisioner.session_id}"  # type: ignore[union-attr]
    assert http.post(f"{path}/stop").is_success
    assert soon(lambda: not manager.is_alive())
    manager.restart_kernel(now=True)
    client.wait_for_ready(timeout=PATIENCE)
    assert run(client, "print('again')") == "again\n"
    assert http.delete(path).is_success
    assert soon(lambda: not manager.is_alive())
    manager.restart_kernel(now=True)
    client.wait_for_ready(timeout=PATIENCE)
    assert run(client, "print('in a new one')") == "in a new one\n"


ABANDONED = """
import asyncio, json, sys
from jupyter_client.manager import start_new_kernel
manager, client = start_new_kernel(kernel_name=sys.argv[1])
client.execute("x = 'still here'", reply=True)
print(json.dumps(asyncio.run(manager.provisioner.get_provisioner_info())))
"""


@only("embedded")
def test_an_application_that_ends_without_a_word_leaves_a_session_that_another_goes_on_with(
    kernel_name: str, http: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = [sys.executable, "-c", ABANDONED, kernel_name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    info = json.loads(done.stdout)
    assert http.get(f"/v1/sessions/{info['session']}").json()["state"] in ("ready", "busy")

    async def go_on() -> None:
        manager = AsyncKernelManager(kernel_name=kernel_name)
        factory = KernelProvisionerFactory.instance()
        provisioner = factory.create_provisioner_instance(
            info["kernel_id"], manager.kernel_spec, parent=manager
        )
        with monkeypatch.context() as patched:
            patched.setenv("INTERPRETER_URL", "http://127.0.0.1:1")
            with pytest.raises(Exception, match="There is no way"):
                await provisioner.load_provisioner_info(info)
        # The sockets are free again, and the session is there.
        await provisioner.load_provisioner_info(info)
        assert provisioner.has_process
        assert await provisioner.poll() is None
        manager.load_connection_info(provisioner.connection_info)
        client = manager.client()
        client.start_channels()
        await client.wait_for_ready(timeout=PATIENCE)
        reply = await client.execute_interactive("print(x)", timeout=PATIENCE)
        assert reply["content"]["status"] == "ok"
        client.stop_channels()
        await provisioner.cleanup()

    asyncio.run(go_on())
    assert http.get(f"/v1/sessions/{info['session']}").json()["state"] == "stopped"


@only("embedded")
def test_a_gateway_that_cannot_be_reached_is_told(
    kernel_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTERPRETER_URL", "http://127.0.0.1:1")
    with pytest.raises(Exception, match="No gateway answers"):
        start_new_kernel(kernel_name=kernel_name)


SLOW = """
import os, sys, time
from IPython.display import display
for i in range(20):
    print("line", i, flush=True, file=sys.stdout if i % 3 else sys.stderr)
    if i == 4:
        display("shown")
    while i in (7, 12) and not os.path.exists(f"go-{i}"):
        time.sleep(0.01)
"""


def test_every_line_is_there_once_though_the_connection_breaks_while_they_are_carried(
    gateway: Gateway, http: httpx.Client, kernel_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = BrokenNetwork(gateway.url)
    monkeypatch.setenv("INTERPRETER_URL", network.url)
    manager, client = start_new_kernel(kernel_name=kernel_name)
    code = (
        "import time\nfor i in range(1000):\n    print(i, 'x' * 1000, flush=True)\n    time.sleep(0.001)"
    )
    msg_id = client.execute(code)
    seen = ""
    for until in (100, 400, 700):
        while f"\n{until} " not in seen:
            message = client.get_iopub_msg(timeout=PATIENCE)
            if message["msg_type"] == "stream":
                seen += message["content"]["text"]
        network.drop()
    assert client._recv_reply(msg_id, timeout=PATIENCE)["content"]["status"] == "ok"
    seen += text_of(client, msg_id)
    assert seen == "".join(f"{i} {'x' * 1000}\n" for i in range(1000))
    client.stop_channels()
    manager.shutdown_kernel(now=True)
    network.close()


@only("embedded")
def test_twenty_lines_are_twenty_lines_though_the_gateway_is_killed_in_between(
    own_gateway: Gateway, kernelspecs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_gateway.start()
    at(own_gateway, kernelspecs, tmp_path, monkeypatch)
    manager, client = start_new_kernel(kernel_name=KERNEL)
    msg_id = client.execute(SLOW)
    after = client.execute("print('and another one')")
    seen = ""

    def read_to(line: int) -> None:
        nonlocal seen
        while f"line {line}\n" not in seen:
            message = client.get_iopub_msg(timeout=PATIENCE)
            if message["parent_header"].get("msg_id") != msg_id:
                continue
            if message["msg_type"] == "stream":
                seen += message["content"]["text"]
            if message["msg_type"] == "display_data":
                seen += message["content"]["data"]["text/plain"] + "\n"

    files = f"/v1/sessions/{manager.provisioner.session_id}/files"  # type: ignore[union-attr]
    for line in (7, 12):
        read_to(line)
        own_gateway.kill()
        own_gateway.start()
        with own_gateway.client() as http:
            assert http.put(f"{files}/go-{line}", content=b"").is_success
    assert client._recv_reply(msg_id, timeout=PATIENCE)["content"]["status"] == "ok"
    seen += text_of(client, msg_id)
    lines = [f"line {i}\n" for i in range(20)]
    lines.insert(5, "'shown'\n")
    assert seen == "".join(lines)
    assert client._recv_reply(after, timeout=PATIENCE)["content"]["status"] == "ok"
    assert text_of(client, after) == "and another one\n"
    client.stop_channels()
    manager.shutdown_kernel()
