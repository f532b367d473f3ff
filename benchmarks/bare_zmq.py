"""A kernel's sockets with as little as possible around them: the floor of everything else."""

from __future__ import annotations

import json

import zmq

from interpreter.kernel import messages


class BareZmq:
    """One caller who waits; messages are searched for what ends a cell, not parsed."""

    def __init__(self, connection_file: str) -> None:
        with open(connection_file) as file:
            facts = json.load(file)
        self._context = zmq.Context()
        self._shell = self._context.socket(zmq.DEALER)
        self._iopub = self._context.socket(zmq.SUB)
        self._iopub.subscribe(b"")
        for sock, name in ((self._shell, "shell"), (self._iopub, "iopub")):
            sock.linger = 0
            sock.connect(f"ipc://{facts['ip']}-{facts[f'{name}_port']}")
        # The subscription is there when an answer is heard.
        while not self._iopub.poll(100):
            self._shell.send_multipart(messages.build("kernel_info_request", {}))
            self._shell.recv_multipart()
        while self._iopub.poll(100):
            self._iopub.recv_multipart()

    def run(self, code: str) -> None:
        content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False}
        self._shell.send_multipart(messages.build("execute_request", content))
        while b'"idle"' not in self._iopub.recv_multipart()[-1]:
            pass
        self._shell.recv_multipart()

    def close(self) -> None:
        self._context.destroy(linger=0)
