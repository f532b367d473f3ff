"""Signals to kernels and to what they have started.

An interrupt goes to the kernel and to all that the running cell has started; what earlier cells
left running is not touched. When a kernel has ended, everything it ever started is ended. Single
processes, and those of finished executions, are ended when the gateway asks for that: SIGTERM
first, SIGKILL after a moment. None of it holds up the kernel host's loop.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

from interpreter.sandbox import proc
from interpreter.sandbox.census import Census, Member
from interpreter.sandbox.kernels import Kernel
from interpreter.sandbox.proc import Process

GRACE_SECONDS = 1.0
"""Between SIGTERM and SIGKILL."""
GIVE_UP_SECONDS = 10.0
"""When what does not even end by SIGKILL is reported as left."""
POLL_SECONDS = 0.02
SWEEP_SECONDS = 0.5
"""How long processes that multiply are chased at a time; a bomb leaves this process little time."""
MOST_TOLD = 4096
"""Of processes that multiply while they are ended, not every one is told of."""
ANSWER_BYTES = 128 * 1024
"""An answer has to fit into one frame of the link."""

Answer = Callable[..., None]


class Ending:
    """Processes that are being ended, and the command that asked for it."""

    def __init__(self, command: dict[str, Any], wanted: Callable[[Member], bool]) -> None:
        self.command = command
        self.wanted = wanted
        self.began = time.monotonic()
        self.told: dict[tuple[int, int], dict[str, Any]] = {}
        """Who has been sent a signal, as it was then."""


class Endings:
    """The commands of the gateway that are about processes."""

    def __init__(self, census: Census, kernels: dict[str, Kernel], answer: Answer) -> None:
        self._census = census
        self._kernels = kernels
        self._answer = answer
        self._running: list[Ending] = []
        self._next = math.inf

    @property
    def patience(self) -> float:
        """Seconds until those that are being ended are looked at again."""
        return max(0.0, self._next - time.monotonic())

    # -- kernels

    def signal_kernel(self, command: dict[str, Any]) -> None:
        kernel = self._kernels.get(command["kernel"])
        sent = False
        if kernel is not None and kernel.pid is not None and kernel.status is None:
            with contextlib.suppress(ProcessLookupError):
                # A kernel that has processes in groups of their own (a shell on a terminal) passes an
                # interrupt on by itself, and a second one would confuse the two.
                passes_on = any(helper.group != kernel.pid for helper in kernel.helpers or ())
                if command["signal"] == signal.SIGINT and self._census.marks.usable and not passes_on:
                    # The kernel first: a cell must not go on because what it waited for has ended.
                    os.kill(kernel.pid, signal.SIGINT)
                    for process in self._census.of_cell(kernel):
                        proc.send_signal(process, signal.SIGINT)
                else:
                    os.killpg(kernel.pid, command["signal"])
                sent = True
        self._answer(command, sent=sent)

    def end_rest_of(self, kernel: Kernel) -> bool:
        """Ends what a dead kernel has started; returns whether nothing is left of it."""
        return sweep(lambda: self._census.of_dead(kernel))

    # -- processes

    def report(self, command: dict[str, Any]) -> None:
        """As many as fit into an answer, of those with a pid over `after`, in order of their pids."""
        members = [m for m in self._census.take() if m.process.pid > command.get("after", 0)]
        members.sort(key=lambda member: member.process.pid)
        reports = fitting(member.report() for member in members)
        self._answer(command, processes=reports, more=len(reports) < len(members))

    def end(self, command: dict[str, Any]) -> None:
        """Ends the process `pid`; or, without one, all processes of `executions`."""
        if "pid" in command:
            found = [m for m in self._census.take() if m.process.pid == command["pid"]]
            meant = {m.process.started for m in found}
            pid = command["pid"]
            ending = Ending(command, lambda m: m.process.pid == pid and m.process.started in meant)
            if not any(m.process.alive and not m.is_kernel for m in found):
                self._answer(command, refused="kernel" if any(m.is_kernel for m in found) else "none")
                return
        else:
            numbers = self._census.marks.numbers_of(set(command["executions"]))
            ending = Ending(command, lambda m: m.number in numbers)
        self._begin(ending)

    def begin(self, command: dict[str, Any], wanted: Callable[[Member], bool]) -> None:
        """Ends whatever is wanted, and answers the command when it has ended."""
        self._begin(Ending(command, wanted))

    def _begin(self, ending: Ending) -> None:
        self._running.append(ending)
        self._next = 0.0

    def step(self) -> None:
        """Goes on with what has been begun, if it is time."""
        if self._next <= time.monotonic():
            for ending in self._running[:]:
                self._step(ending)
            self._next = time.monotonic() + POLL_SECONDS if self._running else math.inf

    def _step(self, ending: Ending) -> None:
        there = self._find(ending)
        elapsed = time.monotonic() - ending.began
        for member in there:
            identity = (member.process.pid, member.process.started)
            if identity not in ending.told and len(ending.told) < MOST_TOLD:
                ending.told[identity] = member.report()
                for number in (signal.SIGTERM, signal.SIGCONT):
                    proc.send_signal(member.process, number)
        if there and elapsed > GRACE_SECONDS:
            sweep(lambda: [member.process for member in self._find(ending)])
            there = self._find(ending)
        if there and elapsed < GIVE_UP_SECONDS:
            return
        self._running.remove(ending)
        left = {(m.process.pid, m.process.started) for m in there}
        ended = [report for identity, report in ending.told.items() if identity not in left]
        reports = fitting(iter(ended))
        more = len(reports) < len(ended)
        self._answer(ending.command, ended=reports, left=sorted(p for p, _ in left)[:1000], more=more)

    def _find(self, ending: Ending) -> list[Member]:
        members = self._census.take()
        return [m for m in members if m.process.alive and not m.is_kernel and ending.wanted(m)]


def sweep(find: Callable[[], list[Process]]) -> bool:
    """Kills what is found until nothing is, or for a moment; returns whether nothing is left.

    All are stopped first: what is stopped has no more children but still takes its place among
    the processes that the sandbox may have, so that even a fork bomb comes to rest.
    """
    until = time.monotonic() + SWEEP_SECONDS
    while True:
        found = find()
        moving = [process for process in found if process.state not in "Tt"]
        late = time.monotonic() > until
        for process in moving:
            proc.send_signal(process, signal.SIGSTOP)
        if not moving or late:
            for process in found:
                proc.send_signal(process, signal.SIGKILL)
            return not found


def fitting(reports: Iterator[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first of these reports: as many as fit into an answer."""
    kept: list[dict[str, Any]] = []
    size = 0
    for report in reports:
        size += len(json.dumps(report))
        if size > ANSWER_BYTES:
            break
        kept.append(report)
    return kept
