"""A kernel in a process that was forked from the zygote.

The imports are done; what is left is what must be this process's own: descriptors, random
state, ZMQ sockets, the shell. Output is never dropped: the IOPub socket blocks instead.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import random
import signal
import sys
from typing import Any

import zmq
from ipykernel import iostream
from ipykernel.kernelapp import IPKernelApp
from traitlets.config import Config

from interpreter.sandbox import interrupts, iopub, outstream, threads
from interpreter.sandbox.channels import TARGET
from interpreter.sandbox.written import Written

IOPUB_QUEUE = 8
"""Messages the IOPub socket holds before it blocks; each is bounded by `outstream.PIECE`."""
COPIED = 16 * outstream.PIECE
"""Messages up to this size are copied when they are sent. pyzmq would otherwise start a thread and a
context of its own to learn when libzmq is done with them, in the middle of a cell."""


class ForkedKernelApp(IPKernelApp):
    """ipykernel's application with an IOPub socket that waits instead of dropping."""

    stderr = 2
    """Where it reports what went wrong; fd 2 becomes a pipe that it reads itself."""

    def init_signal(self) -> None:
        signal.signal(signal.SIGINT, interrupts.on_sigint)

    def _bind_socket(self, s: zmq.Socket[Any], port: int) -> int:
        if s.type == zmq.XPUB:
            folder = os.path.dirname(self.abs_connection_file)
            outstream.BoundedOutStream.written = Written(s, f"ipc://{folder}/written")
        return int(super()._bind_socket(s, port))

    def init_iopub(self, context: zmq.Context[Any]) -> None:
        before = context.sockopts.copy()
        context.setsockopt(zmq.SNDHWM, IOPUB_QUEUE)
        super().init_iopub(context)
        context.sockopts.clear()
        context.sockopts.update(before)
        self.iopub_thread.socket.setsockopt(zmq.XPUB_NODROP, 1)
        iopub.outlive_errors(self.iopub_thread, self.stderr)


def run(connection_file: str, workspace: str, stderr: int) -> None:
    """Never returns. Called in the forked process."""
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(stderr, 1)
    os.dup2(stderr, 2)
    # A crash is reported on the original stderr: fd 2 will be a pipe that this process reads.
    faulthandler.enable(file=os.fdopen(stderr, "w"), all_threads=False)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    # When memory runs out it is the kernel that goes, not the kernel host.
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
    os.chdir(workspace)
    sys.argv = [""]
    sys.path.insert(0, "")
    random.seed()
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    iostream.PIPE_BUFFER_SIZE = 64 * 1024

    interrupts.target_file = os.path.join(os.path.dirname(connection_file), TARGET)
    config = Config()
    config.IPKernelApp.connection_file = connection_file
    config.IPKernelApp.outstream_class = "interpreter.sandbox.outstream.BoundedOutStream"
    config.IPKernelApp.kernel_class = "interpreter.sandbox.interrupts.InterruptibleKernel"
    config.IPKernelApp.log_level = "CRITICAL"
    config.HistoryManager.enabled = False
    # ipykernel gives output half a millisecond to overtake the reply; here nobody takes a cell for
    # ended before its idle status, which comes after all output.
    config.IPythonKernel._execute_sleep = 0.0
    config.Session.copy_threshold = COPIED
    ForkedKernelApp.stderr = stderr
    app = ForkedKernelApp.instance(config=config)
    app.initialize([])
    threads.keep_context()
    outstream.watch_forks()
    if app.shell is not None:
        # IPython keeps a copy of all that is ever printed, for %notebook: that fills the memory of a
        # session that prints much, and the gateway records it anyway.
        app.shell._tee = lambda channel: contextlib.nullcontext()
    if app.shell is not None and "matplotlib.pyplot" in sys.modules:
        # pyplot was imported before there was a shell to tell, so tell it now.
        app.shell.enable_matplotlib("inline")
    app.start()
    os._exit(0)
