"""The commands of one session: many at once, each an execution with its own outputs.

What they share with cells (events, history, time limits, what changed, how an end is recorded) is
inherited. What is different: they have no queue and no kernel. A command is a stream on the link. It
has ended when the sandbox closes the stream, and it is ended with all that it has started.

A command that was written down and has no stream in the sandbox has never run: a gateway that comes
after a killed one starts it. One that has a stream is asked for again, which the sandbox takes for
what it is.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import msgspec

from interpreter.errors import InputNotExpected, QueueFull, TooManyCommands
from interpreter.link.connection import Incoming
from interpreter.link.wire import Closed, Message
from interpreter.models import EventType, ExecutionStatus
from interpreter.models.commands import CommandCreate
from interpreter.orchestrator import policy
from interpreter.orchestrator.cell import Cell
from interpreter.orchestrator.cells import CATCH_UPS, Cells
from interpreter.orchestrator.command import Command, Exit
from interpreter.orchestrator.live_sandbox import LiveSandbox
from interpreter.orchestrator.processes import patience

OUTPUTS = {b"stdout": "stdout", b"stderr": "stderr"}
MEGABYTE = 1024 * 1024
STOP_SECONDS = 60.0
"""How long a sandbox has to end a command; a fork bomb leaves it little time."""


class Commands(Cells):
    """The commands of one session that run."""

    variables: dict[str, str] = {}
    """What the session's own variables are."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._running: dict[str, Command] = {}
        self._live: LiveSandbox | None = None

    @property
    def busy(self) -> bool:
        return bool(self._running)

    @property
    def running(self) -> list[Command]:
        return list(self._running.values())

    # -- what callers ask for

    def run(self, id: str, session_id: str, asked: CommandCreate) -> Command:
        policy.check_command(self._config, asked)
        timeout = policy.command_timeout(self._config, self.limits, asked)
        limit = policy.output_limit(self._config, asked)
        if len(self._running) >= self.limits.commands:
            raise TooManyCommands(f"{len(self._running)} commands run here, and no more may.")
        command = Command(id, session_id, asked, timeout, limit)
        facts: dict[str, Any] = msgspec.to_builtins(asked)
        # Before it is started: a gateway that comes after this one must not start it again.
        self.history.write_down(command, facts)
        self.history.add(command)
        self._running[id] = command
        self.events.append(EventType.status, id, {"status": "queued", "request": facts})
        command.start()
        self._record_start(command, new=True)
        self._tasks.spawn(self._begin(command))
        self.history.save_written_down(command)
        return command

    def cancel(self, cell: Cell, reason: str) -> None:
        self.stop_running(cell, ExecutionStatus.cancelled, reason)

    def answer_input(self, cell: Cell, value: str) -> None:
        raise InputNotExpected("This is a command.", "POST …/commands/{id}/input gives it something.")

    async def give(self, command: Command, text: str, *, eof: bool) -> None:
        """Has a command read something; returns when the sandbox has it."""
        if not command.asked.interactive:
            raise InputNotExpected(
                "This command's input ended with what it was started with.",
                "Start it with 'interactive' to send it more.",
            )
        live = self._live
        if live is None or command.ending:
            raise InputNotExpected("This command has ended.", "Start it again.")
        if live.link.crowded:
            raise QueueFull("The sandbox has not taken what it was sent before.", "Send it later.")
        async with patience():
            answer = await live.link.command("input", command=command.id, text=text, eof=eof)
        if answer.get("refused") == "full":
            raise QueueFull("The command has not read what it was sent before.", "Send it later.")
        if answer.get("refused") is not None:
            raise InputNotExpected("This command takes no more input.", "It has ended, or closed it.")

    def hold(self) -> None:
        for command in self._running.values():
            if command.time_limit is not None:
                command.time_limit.hold()
                self._note(command, command.hold())

    def go_on(self) -> None:
        for command in self._running.values():
            if command.time_limit is not None:
                command.time_limit.go_on()
                self._note(command, command.go_on())

    # -- the sandbox comes and goes

    def enter(self, live: LiveSandbox) -> None:
        self._live = live

    def lose(self, reason: str) -> None:
        """The sandbox is gone, and everything that ran in it."""
        self._live = self.watched = None
        for command in list(self._running.values()):
            status, why = command.verdict or (ExecutionStatus.lost, None)
            self._finish(command, status, reason if why is None else f"{why}; {reason}")

    async def resume_in(self, live: LiveSandbox, unfinished: list[Command]) -> None:
        """Goes on with the commands that an earlier gateway left in this sandbox."""
        self._live = live
        self.watched = await live.watched()
        streams = {str(i.get("command")): n for n, i in live.link.wire.streams.items() if "command" in i}
        for command in unfinished:
            self.history.add(command)
            self._running[command.id] = command
            if command.status is ExecutionStatus.queued:
                command.start()
            if command.paused_tick is not None:
                self._note(command, command.go_on())
            command.stream = streams.pop(command.id, None)
            if command.exit is not None:
                self._finish_by_exit(command)
                continue
            self._limit_time(command, command.remaining())
            if command.stream is not None:
                live.link.on_stream(command.stream, partial(self._take_in, command))
            if command.verdict is not None:
                self._interrupt(command)
            else:
                self._tasks.spawn(self._begin(command))
        for id in streams:  # nobody knows of them any more
            self._tasks.spawn(live.link.command("stop", within=STOP_SECONDS, command=id))

    # -- running

    async def _begin(self, command: Command) -> None:
        """Has the sandbox start a command, unless it did."""
        live = self._live
        if live is None:
            return
        new = command.stream is None
        if command.stream is None:
            if self.watched is None:
                self.watched = await live.watched()
            for _ in range(CATCH_UPS):
                waiting = None if self.watched is None else self.watched.catch_up()
                if waiting is None:
                    break
                await asyncio.shield(waiting)
            meter = await live.meter()
            if command.ending or self._live is not live or command.verdict is not None:
                if meter is not None:
                    meter.close()
                if command.verdict is not None:
                    self._finish(command, *command.verdict)
                return
            self._watch(command)
            self._measure(command, meter)
            info = {"command": command.id}
            command.stream = live.link.open(info, partial(self._take_in, command))
        asked = command.asked
        answer = await live.link.command(
            "run", within=STOP_SECONDS, command=command.id, text=asked.command, argv=asked.argv,
            cwd=asked.cwd, env={**self.variables, **asked.env}, stdin=asked.stdin,
            interactive=asked.interactive,
        )  # fmt: skip
        # One that an earlier gateway left is not run again, and that says nothing of it.
        if "error" in answer or (new and answer.get("run") is not True):
            problem = Exit(problem=str(answer.get("error", "the sandbox did not take it")))
            self._finish(command, *(command.verdict or (problem.status, problem.reason)))

    def _watch(self, command: Command) -> None:
        if self.watched is not None:
            command.recording = self.watched.begin(f"/v1/sessions/{command.session_id}/files/")

    def _measure(self, command: Command, meter: Any) -> None:
        command.meter = meter
        if meter is not None:
            meter.begin()
        self._not_alone(command)

    def _take_in(self, command: Command, event: Incoming) -> None:
        if isinstance(event, Closed):
            command.exit = Exit.read(event.info)
            self._finish_by_exit(command)
            if not command.status.final:
                # The link is about to forget that it ended, and what it changed is still looked for.
                self._note(command, {"exit": msgspec.to_builtins(command.exit)})
        elif isinstance(event, Message) and not command.ending and len(event.parts) == 2:
            name = OUTPUTS.get(event.parts[0])
            if name is not None and not command.muted:
                self._output(command, name, event.parts[1].decode(errors="replace"))
        self.events.passed(event.number)

    def _output(self, command: Command, name: str, text: str) -> None:
        data = {"name": name, "text": text}
        command.recorded_bytes += self.history.output(command.id, EventType.stream, data)
        limit = self.limits.recorded_mb
        if command.recorded_bytes > limit * MEGABYTE:
            command.muted = True
            reason = f"its output is over the limit of {limit} MB"
            self.stop_running(command, ExecutionStatus.error, reason)

    # -- ending

    def stop_running(self, cell: Cell, status: ExecutionStatus, reason: str) -> None:
        """Ends a command and all that it has started."""
        assert isinstance(cell, Command)
        if cell.verdict is None and not cell.ending:
            cell.verdict = (status, reason)
            self._note(cell, {"verdict": status.value, "reason": reason})
            self._interrupt(cell)

    def _interrupt(self, cell: Cell) -> None:
        assert isinstance(cell, Command)
        self._tasks.spawn(self._stop(cell))

    async def _stop(self, command: Command) -> None:
        # What becomes of it is written down first, or the next gateway takes it for an error; where
        # nothing can be written it is ended all the same.
        await self.events.caught_up()
        live = self._live
        if live is None or command.ending or command.verdict is None:
            return
        if command.stream is None:
            self._finish(command, *command.verdict)  # it was never started, and will not be
            return
        answer = await live.link.command("stop", within=STOP_SECONDS, command=command.id)
        if command.ending:
            return
        left = answer.get("left")
        if isinstance(left, list) and left:
            status, reason = command.verdict
            self._finish(command, status, f"{reason}; some of its processes could not be ended")
        else:
            # Its last output is still on the way, and then its end.
            self._set_timer(command, STOP_SECONDS, self._finish_unheard)

    def _finish_unheard(self, cell: Cell) -> None:
        assert cell.verdict is not None
        self._finish(cell, *cell.verdict)

    def _finish_by_exit(self, command: Command) -> None:
        assert command.exit is not None
        if command.verdict is not None:
            self._finish(command, *command.verdict)
        else:
            self._finish(command, command.exit.status, command.exit.reason, by_reply=True)

    def _finish(
        self, cell: Cell, status: ExecutionStatus, reason: str | None, *, by_reply: bool = False
    ) -> None:
        if cell.ending:
            return
        if isinstance(cell, Command):
            cell.measure()
            self._running.pop(cell.id, None)
            if self._live is not None and cell.stream is not None:
                self._live.link.forget(cell.stream)
        super()._finish(cell, status, reason, by_reply=by_reply)
        self._on_activity()

    async def close(self) -> None:
        for command in self._running.values():
            command.cancel_timers()
            if command.meter is not None:
                command.meter.close()
        await super().close()
