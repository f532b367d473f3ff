"""Jupyter Kernel Gateway, the one to compare with: installed on first use, run as it comes.

It lives in a virtual environment of its own beside ours and starts plain ipykernels of the shared
kernel environment. Its client is Tornado's WebSocket client with TCP_NODELAY on our side; the
server's side is its own affair.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
import uuid
import venv
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from tornado.httpclient import HTTPRequest
from tornado.websocket import WebSocketClientConnection, websocket_connect

from benchmarks import direct
from benchmarks.gateway import stop
from benchmarks.plain_http import Address, Connection

REQUIREMENT = "jupyter-kernel-gateway==3.0.1"
NAME = "Kernel Gateway 3.0.1"
HOME = Path(sys.prefix) / "peers" / "kernel-gateway"
START_SECONDS = 60
NO_LIMITS = (
    "--ZMQChannelsWebsocketConnection.limit_rate=False",
    "--ZMQChannelsWebsocketConnection.iopub_msg_rate_limit=0",
    "--ZMQChannelsWebsocketConnection.iopub_data_rate_limit=0",
)


def install() -> Path:
    """The program, installed first if it is not there."""
    marker = HOME / ".complete"
    if not marker.exists() or marker.read_text() != REQUIREMENT:
        print(f"installing {REQUIREMENT} …")
        venv.create(HOME, clear=True, with_pip=True)
        pip = [str(HOME / "bin" / "pip"), "install", "-qq", "--disable-pip-version-check"]
        subprocess.run([*pip, REQUIREMENT], check=True)
        marker.write_text(REQUIREMENT)
    return HOME / "bin" / "jupyter-kernelgateway"


class KernelGateway:
    """A running one."""

    def __init__(self, pid: int, address: Address) -> None:
        self.pid = pid
        self.address = address

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        connection = Connection(self.address)
        try:
            return connection.ask(self.address.request(method, path, body))
        finally:
            connection.close()

    def create(self) -> str:
        """A new kernel's id."""
        return str(self.ask("POST", "/api/kernels", {})["id"])

    def delete(self, kernel: str) -> None:
        self.ask("DELETE", f"/api/kernels/{kernel}")


@contextmanager
def running(*flags: str) -> Iterator[KernelGateway]:
    program = install()
    with tempfile.TemporaryDirectory(prefix="interpreter-bench-") as folder:
        direct.write_kernelspec(Path(folder, "share", "kernels", "python3"))
        environ = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("JUPYTER", "KG_"))},
            "HOME": folder,
            "JUPYTER_PATH": os.path.join(folder, "share"),
            "JUPYTER_RUNTIME_DIR": os.path.join(folder, "runtime"),
            "IPYTHONDIR": os.path.join(folder, "ipython"),
            "PYDEVD_DISABLE_FILE_VALIDATION": "1",
        }
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        log = Path(folder, "log")
        with log.open("wb") as file:
            process = subprocess.Popen(
                [program, f"--KernelGatewayApp.port={port}", *flags],
                env=environ, cwd=folder, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=file, stderr=file,
            )  # fmt: skip
        try:
            server = KernelGateway(process.pid, Address(f"http://127.0.0.1:{port}"))
            _wait_for_answer(server, process, log)
            yield server
        finally:
            stop(process)


def _wait_for_answer(server: KernelGateway, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            server.ask("GET", "/api")
            return
        except ConnectionError:
            time.sleep(0.02)
    raise RuntimeError(f"Kernel Gateway did not start: {log.read_text()}")


class Channels:
    """The WebSocket of one kernel."""

    def __init__(self, connection: WebSocketClientConnection) -> None:
        self._connection = connection
        self._session = uuid.uuid4().hex

    @classmethod
    async def open(cls, address: Address, kernel: str) -> Channels:
        url = f"ws://{address.host}:{address.port}/api/kernels/{kernel}/channels"
        token = {"Authorization": f"token {address.token}"} if address.token else {}
        request = HTTPRequest(url, headers=token)
        connection = await websocket_connect(request, max_message_size=2**30)
        assert connection.protocol is not None
        connection.protocol.set_nodelay(True)
        return cls(connection)

    async def run(self, code: str) -> AsyncIterator[Any]:
        """Every message that belongs to the cell, until the reply and idle are both there."""
        id = uuid.uuid4().hex
        header = {
            "msg_id": id,
            "msg_type": "execute_request",
            "session": self._session,
            "version": "5.3",
        }
        content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False}
        message = {"header": header, "parent_header": {}, "metadata": {}, "content": content}
        await self._connection.write_message(
            msgspec.json.encode({**message, "channel": "shell"}).decode()
        )
        missing = {"reply", "idle"}
        while missing:
            text = await self._connection.read_message()
            if text is None:
                raise ConnectionError("Kernel Gateway closed the WebSocket")
            message = msgspec.json.decode(text)
            if message["parent_header"].get("msg_id") != id:
                continue
            yield message
            if message["msg_type"] == "execute_reply":
                missing.discard("reply")
            elif message["content"].get("execution_state") == "idle":
                missing.discard("idle")

    async def close(self) -> None:
        self._connection.close()
        while await self._connection.read_message() is not None:
            pass
