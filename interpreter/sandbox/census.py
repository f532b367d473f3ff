"""Who belongs to whom in this sandbox: every process, its kernel, and the cell that started it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from typing import Any, NamedTuple

from interpreter.sandbox import proc
from interpreter.sandbox.kernels import Kernel
from interpreter.sandbox.marks import Marks
from interpreter.sandbox.proc import Process

DELIMITER = b"<IDS|MSG>"
LONGEST_ID = 64
NOBODY = ""
"""Takes the place of a kernel's name for what no kernel has started."""


class Member(NamedTuple):
    """A process of the sandbox that is not part of the kernel host."""

    process: Process
    number: int | None
    kernel: str | None
    execution: str | None
    is_kernel: bool

    def report(self) -> dict[str, Any]:
        process = self.process
        return {
            "pid": process.pid,
            "parent": process.parent,
            "name": process.name,
            "command": proc.command_line(process.pid),
            "state": process.state,
            "cpu_seconds": process.cpu_ticks / proc.TICKS,
            "memory_bytes": process.resident,
            "started_at": round(process.started_at, 2),
            "execution_id": self.execution,
            "kernel": self.kernel,
            "is_kernel": self.is_kernel,
        }


class Census:
    """Marks kernels with their cells, and tells whose each process is."""

    def __init__(self, kernels: dict[str, Kernel]) -> None:
        self.marks = Marks()
        self.zygote: int | None = None
        self.programs: set[int] = set()
        """Pids of what the kernel host has started beside the kernels; with all below, no kernel's."""
        self._kernels = kernels
        self._root = os.getpid()

    # -- marking

    def started(self, kernel: Kernel) -> None:
        """A kernel process is there: what it starts before its first cell is its own."""
        assert kernel.pid is not None
        kernel.number = self.marks.new(kernel.name)
        self.marks.put(kernel.pid, kernel.number)

    def passing(self, kernel: Kernel, parts: list[bytes]) -> str | None:
        """A message is about to be passed to a kernel's shell channel: a new cell, maybe. Its id."""
        execution = requested_execution(parts)
        if execution is None or kernel.pid is None or kernel.status is not None:
            return execution
        if kernel.helpers is None:
            kernel.helpers = self._helpers(kernel)
        if self.marks.full:
            self.marks.forget({m.number for m in self.take() if m.number is not None})
        kernel.number = self.marks.new(kernel.name, execution)
        self.marks.put(kernel.pid, kernel.number)
        for helper in kernel.helpers:
            if proc.is_there(helper):
                self.marks.put(helper.pid, kernel.number)
        return execution

    def _helpers(self, kernel: Kernel) -> list[Process]:
        """What a kernel with a command of its own consists of besides its first process."""
        if kernel.forked:
            return []
        own = [m.process for m in self.take() if m.kernel == kernel.name]
        return [process for process in own if process.pid != kernel.pid]

    # -- telling

    def take(self) -> Iterable[Member]:
        """Every process there is now, parents before their children."""
        kernels = [kernel for kernel in self._kernels.values() if kernel.status is None]
        own = {kernel.pid: kernel for kernel in kernels}
        helpers = {(p.pid, p.started): k for k in kernels for p in k.helpers or ()}
        above: dict[int, str | None] = {}
        """Pid → the kernel that it or its nearest known ancestor belongs to."""
        for process in proc.descendants(self._root):
            if self.zygote in (process.pid, process.parent):
                continue
            kernel = own.get(process.pid) or helpers.get((process.pid, process.started))
            if kernel is not None:
                above[process.pid] = kernel.name
                yield Member(process, kernel.number, kernel.name, None, True)
                continue
            number = self.marks.read(process.limit)
            owner = self.marks.owner(number)
            name = owner.kernel if owner else above.get(process.parent)
            if process.pid in self.programs:
                name = NOBODY
            if name is None and process.group in own:
                name = own[process.group].name
            above[process.pid] = name
            # Before a kernel's first cell there is nothing but the kernel.
            young = any(k.name == name and k.helpers is None and not k.forked for k in kernels)
            yield Member(process, number, name, owner.execution if owner else None, young)

    def of_cell(self, kernel: Kernel) -> list[Process]:
        """What the running cell of a kernel has started, wherever it is; the kernel is not in it.

        One in the kernel's own group that has lost its mark is taken for the running cell's.
        """
        return [
            m.process
            for m in self.take()
            if m.process.pid != kernel.pid
            and (m.number == kernel.number or (m.number is None and m.process.group == kernel.pid))
        ]

    def of_dead(self, kernel: Kernel) -> list[Process]:
        """What is left of a kernel that has ended, of all its cells.

        Where no other kernel is, a process that has lost its mark can be nobody else's.
        """
        alone = len(self._kernels) == 1
        return [
            m.process
            for m in self.take()
            if m.process.alive and (m.kernel == kernel.name or (alone and m.kernel is None))
        ]


def requested_execution(parts: list[bytes]) -> str | None:
    """The message id of an execute_request, which is the execution's id; None for other messages."""
    if len(parts) < 3 or parts[0] != DELIMITER or b'"execute_request"' not in parts[2]:
        return None
    try:
        return str(json.loads(parts[2])["msg_id"])[:LONGEST_ID]
    except (ValueError, KeyError, TypeError):
        return None
