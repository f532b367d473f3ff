"""Kernels without a gateway: what a cell costs when nothing of ours is in between.

They are the very kernels that run in a session, forked from the same zygote with the same
imports done, but outside of any sandbox. jupyter_client talks to them over unix sockets.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.connect import write_connection_file
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager

from benchmarks import kernels
from interpreter.runtimes import payload

READY_SECONDS = 60


class Kernel(NamedTuple):
    """A kernel process and the file that says how to connect to it."""

    pid: int
    file: str


@contextmanager
def running(count: int = 1) -> Iterator[list[Kernel]]:
    """That many kernels, each from a zygote of its own, as those of sessions are."""
    with tempfile.TemporaryDirectory(prefix="interpreter-bench-") as folder, ExitStack() as stack:
        yield [_kernel(folder, number, stack) for number in range(count)]


def _kernel(folder: str, number: int, stack: ExitStack) -> Kernel:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    stack.enter_context(ours)
    zygote = _zygote(folder, theirs)
    stack.callback(zygote.wait)
    stack.callback(zygote.kill)
    file = os.path.join(folder, f"{number}.json")
    write_connection_file(file, transport="ipc", ip=os.path.join(folder, f"k{number}"))
    request = {"kernel": str(number), "connection_file": file, "workspace": folder}
    request |= {"env": {}, "hurry": False}
    socket.send_fds(ours, [json.dumps(request).encode()], [sys.stderr.fileno()])
    answer = ours.recv(64 * 1024)
    if not answer:
        raise RuntimeError("the zygote ended")
    pid = json.loads(answer)["pid"]
    stack.callback(os.killpg, pid, signal.SIGKILL)
    return Kernel(pid, file)


def _zygote(folder: str, channel: socket.socket) -> subprocess.Popen[bytes]:
    environ = {
        **_clean_environ(folder),
        "PYTHONPATH": str(payload.write(Path(folder))),
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
    }
    preload = json.dumps(kernels.CONFIGURED.preload)
    with channel:
        return subprocess.Popen(
            [str(kernels.environment().python), "-P", "-m", "interpreter.sandbox.zygote",
             str(channel.fileno()), preload],
            pass_fds=[channel.fileno()], env=environ, cwd=folder, stdin=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip


@contextmanager
def running_stock() -> Iterator[str]:
    """The connection file of an ipykernel as it comes, in the same environment."""
    with tempfile.TemporaryDirectory(prefix="interpreter-bench-") as folder:
        write_kernelspec(Path(folder, "specs", "stock"))
        specs = KernelSpecManager(kernel_dirs=[os.path.join(folder, "specs")])
        manager = KernelManager(
            kernel_name="stock", kernel_spec_manager=specs, transport="ipc",
            ip=os.path.join(folder, "k"), connection_file=os.path.join(folder, "k.json"),
        )  # fmt: skip
        manager.start_kernel(env=_clean_environ(folder), cwd=folder)
        try:
            yield manager.connection_file
        finally:
            manager.shutdown_kernel(now=True)


def write_kernelspec(folder: Path) -> None:
    """A kernelspec for a plain ipykernel of the shared environment."""
    folder.mkdir(parents=True)
    python = str(kernels.environment().python)
    spec = {
        "argv": [python, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": "stock",
        "language": "python",
    }
    (folder / "kernel.json").write_text(json.dumps(spec))


def _clean_environ(folder: str) -> dict[str, str]:
    home = {"HOME": folder, "IPYTHONDIR": os.path.join(folder, "ipython"), "MPLCONFIGDIR": folder}
    keep = {name: os.environ[name] for name in ("PATH", "LANG", "TZ") if name in os.environ}
    return {**keep, **home, "PYDEVD_DISABLE_FILE_VALIDATION": "1"}


class Waiting:
    """A blocking client of one kernel: the quickest way that jupyter_client has."""

    def __init__(self, connection_file: str) -> None:
        self._client = BlockingKernelClient()
        self._client.load_connection_file(connection_file)
        self._client.start_channels(hb=False)
        self._client.wait_for_ready(timeout=READY_SECONDS)

    def run(self, code: str) -> None:
        id = self._client.execute(code)
        while True:
            message = self._client.get_iopub_msg(timeout=READY_SECONDS)
            if message["parent_header"].get("msg_id") == id and _is_idle(message):
                break
        while self._client.get_shell_msg(timeout=READY_SECONDS)["parent_header"].get("msg_id") != id:
            pass

    def close(self) -> None:
        self._client.stop_channels()


class Awaiting:
    """The same for one kernel of many on an event loop."""

    def __init__(self, connection_file: str) -> None:
        self._client = AsyncKernelClient()
        self._client.load_connection_file(connection_file)

    async def open(self) -> None:
        self._client.start_channels(hb=False)
        await self._client.wait_for_ready(timeout=READY_SECONDS)

    async def run(self, code: str) -> None:
        id = self._client.execute(code)
        while True:
            message = await self._client.get_iopub_msg()
            if message["parent_header"].get("msg_id") == id and _is_idle(message):
                break
        while (await self._client.get_shell_msg())["parent_header"].get("msg_id") != id:
            pass

    def close(self) -> None:
        self._client.stop_channels()


def _is_idle(message: dict[str, object]) -> bool:
    content = message["content"]
    return isinstance(content, dict) and content.get("execution_state") == "idle"
