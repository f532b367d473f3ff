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
    "interpreter.sandbox.interrupts",
    "interpreter.sandbox.outstream",
    "interpreter.sandbox.kernel",
)
PACKET = 64 * 1024
MOMENT_SECONDS = 2.0


def preload(modules: list[str]) -> list[str]:
    """Imports modules; those that fail are named, and left to the cell that needs them."""
    failed = []
    for name in modules:
        try:
            importlib.import_module(name)
        except Exception as e:
            failed.append(f"{name}: {type(e).__name__}: {e}")
    return failed


def serve(channel: socket.socket, modules: list[str], payload: str) -> None:
    """Forks kernels until the kernel host is gone.

    Whoever is in a hurry gets a kernel without what is preloaded, if that is not done yet; it is done
    later, when nobody wants anything for a moment. `payload` is where the kernel host's own modules
    came from; cells have no use for it.
    """
    preload([*ALWAYS])
    if payload in sys.path:
        sys.path.remove(payload)
    failed: list[str] | None = None
    moment: float | None = None
    while True:
        if failed is None and not select.select([channel], [], [], moment)[0]:
            failed = _load(modules)
        packet, descriptors, _, _ = socket.recv_fds(channel, PACKET, 1)
        if not packet:
            return
        request = json.loads(packet)
        if failed is None and not request["hurry"]:
            failed = _load(modules)
        moment = MOMENT_SECONDS
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
            answer = {"kernel": request["kernel"], "pid": os.getpid(), "preload_failed": failed or []}
            channel.send(json.dumps(answer).encode())
            channel.close()
            os.setpgid(0, 0)
            os.environ.update(request["env"])
            from interpreter.sandbox import kernel

            kernel.run(request["connection_file"], request["workspace"], descriptors[0])
        except BaseException:
            import traceback

            os.write(descriptors[0], traceback.format_exc().encode())
        finally:
            os._exit(1)


def _load(modules: list[str]) -> list[str]:
    """Imports what kernels are to have loaded, and has it shared by all that are forked later."""
    failed = preload(modules)
    # pyplot looks for its way to show things before there is a shell; see `kernel.run`.
    if "matplotlib.pyplot" in sys.modules:
        preload(["matplotlib_inline.backend_inline"])
    gc.collect()
    gc.freeze()
    return failed


if __name__ == "__main__":
    serve(
        socket.socket(fileno=int(sys.argv[1])), json.loads(sys.argv[2]), os.environ.pop("PYTHONPATH", "")
    )
