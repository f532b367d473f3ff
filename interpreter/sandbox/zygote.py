"""A process that has done the imports and forks a kernel when told to.

It has one thread, no ZMQ and no event loop, so that a fork of it is sound. A kernel is forked
twice: its parent ends at once, and the kernel host, as the subreaper, becomes the one that
learns how it ended. Requests and answers are single packets of JSON on a socket; a request
brings the descriptor that becomes the kernel's stderr.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import select
import socket
import sys

ALWAYS = (
    "ipykernel.kernelapp",
    "ipykernel.ipkernel",
    "ipykernel.zmqshell",
    "ipykernel.debugger",
    "ipykernel.inprocess",
    "IPython.core.completerlib",
    "IPython.core.magics",
    "matplotlib_inline.backend_inline",
    "interpreter.sandbox.interrupts",
    "interpreter.sandbox.outstream",
    "interpreter.sandbox.kernel",
)
PACKET = 64 * 1024
PAUSE_SECONDS = 2.0
"""How long imports wait after a kernel was forked at once: its first cell needs the processor more."""


class Imports:
    """What is to be imported, step by step; what fails is named, and left to the cell that needs it."""

    def __init__(self, modules: list[str]) -> None:
        self.failed: list[str] = []
        self._waiting = [*ALWAYS, *modules]
        self._asked_for = set(modules)
        self._fresh = True

    @property
    def at_least(self) -> bool:
        """Whether everything is here that a kernel cannot do without."""
        return not self._waiting or self._waiting[0] in self._asked_for

    @property
    def done(self) -> bool:
        return not self._waiting

    def step(self) -> None:
        name = self._waiting.pop(0)
        self._fresh = True
        try:
            importlib.import_module(name)
        except Exception as e:
            if name in self._asked_for:
                self.failed.append(f"{name}: {type(e).__name__}: {e}")

    def settle(self) -> None:
        """Before a fork: what is here now stays in memory that kernels share."""
        if self._fresh:
            self._fresh = False
            gc.collect()
            gc.freeze()


def serve(channel: socket.socket, modules: list[str], payload: str) -> None:
    """Forks kernels until the kernel host is gone.

    A kernel that someone waits for is forked as soon as it can be; one that is made in advance when
    all imports are done. `payload` is where the kernel host's own modules came from; cells have no
    use for it.
    """
    imports = Imports(modules)
    while not imports.at_least:
        imports.step()
    if payload in sys.path:
        sys.path.remove(payload)
    pause = 0.0
    while True:
        while not imports.done and not select.select([channel], [], [], pause)[0]:
            pause = 0.0
            imports.step()
        packet, descriptors, _, _ = socket.recv_fds(channel, PACKET, 1)
        if not packet:
            return
        request = json.loads(packet)
        while not imports.done and not request.get("at_once"):
            imports.step()
        imports.settle()
        pause = PAUSE_SECONDS
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            for descriptor in descriptors:
                os.close(descriptor)
            continue
        os.setsid()
        if os.fork():
            os._exit(0)
        try:
            answer = {
                "kernel": request["kernel"],
                "pid": os.getpid(),
                "preload_failed": imports.failed,
            }
            channel.send(json.dumps(answer).encode())
            channel.close()
            os.setpgid(0, 0)
            from interpreter.sandbox import kernel

            kernel.run(request["connection_file"], request["workspace"], descriptors[0])
        except BaseException:
            import traceback

            os.write(descriptors[0], traceback.format_exc().encode())
        finally:
            os._exit(1)


if __name__ == "__main__":
    serve(
        socket.socket(fileno=int(sys.argv[1])), json.loads(sys.argv[2]), os.environ.pop("PYTHONPATH", "")
    )
