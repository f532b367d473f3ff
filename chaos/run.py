"""One run: sessions, cells on their way, a gateway that comes and goes, and the checks in between."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter, deque
from collections.abc import Coroutine
from typing import Any, Protocol

from chaos import processes, scripts
from chaos.api import Api
from chaos.follower import Follower
from chaos.gateway import Gateway
from chaos.model import Cell, Session, Violation
from chaos.scripts import Script
from chaos.sender import MODES, Sender

FRESH = 12
"""Answered cells that are looked at again after each restart."""
SETTLE_SECONDS = 60.0


class Engine(Protocol):
    """A Docker engine that may be killed, and keeps its containers."""

    def kill(self) -> None: ...
    def start(self) -> object: ...


class Run:
    """What the actions act on."""

    def __init__(self, gateway: Gateway, seed: int, engine: Engine | None = None) -> None:
        self.gateway = gateway
        self.engine = engine
        self.seed = seed
        self.api = Api(gateway)
        self.sender = Sender(self.api)
        self.sessions: list[Session] = []
        self.followers: dict[str, Follower] = {}
        self.counts: Counter[str] = Counter()
        self.step = 0
        self.recent: deque[str] = deque(maxlen=40)
        self.rss_at_start: list[int] = []
        self._started = time.monotonic()
        self._keys = 0
        self._tasks: set[asyncio.Task[Any]] = set()
        self._fresh: deque[Cell] = deque(maxlen=FRESH)
        self._killing = asyncio.Lock()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._started

    @property
    def kills(self) -> int:
        return sum(count for name, count in self.counts.items() if name.startswith("kill of"))

    def say(self, what: str) -> None:
        self.recent.append(f"{self.seconds:8.3f} s  step {self.step}: {what}")

    # -- the gateway

    async def kill_gateway(self, rng: random.Random) -> None:
        """kill -9, some lives that end while they begin, and one that may go on."""
        async with self._killing:
            self._kill()
            for _ in range(rng.choice((0, 0, 0, 0, 1, 3))):
                self.gateway.launch()
                await asyncio.sleep(rng.uniform(0.0, 0.7))
                self._kill()
            await asyncio.sleep(rng.choice((0.0, 0.0, 0.0, 0.3, 1.5)))
            await self.start_gateway()

    def _kill(self) -> None:
        self.say("kill -9 of the gateway")
        self.gateway.kill()
        self.counts["kill of the gateway"] += 1

    async def restart_gateway(self) -> None:
        """As an operator does."""
        async with self._killing:
            self.say("SIGTERM to the gateway")
            await self.gateway.stop()
            self.counts["orderly restart"] += 1
            await self.start_gateway()

    async def start_gateway(self) -> None:
        await self.gateway.start()
        self.say(f"life {self.gateway.lives} of the gateway")
        self.rss_at_start.append(self.gateway.rss())

    async def look_again(self) -> None:
        """What was answered before the gateway was killed is still so."""
        for cell in list(self._fresh):
            if not cell.session.deleting and not cell.session.paused:
                await self._read(cell)

    async def _read(self, cell: Cell) -> dict[str, Any]:
        path = f"/v1/sessions/{cell.session.id}/executions/{cell.id}"
        status, answer = await self.api.ask("GET", f"{path}?wait=true")
        if status != 200:
            if cell.session.deleting:
                return {}
            raise Violation(f"{cell} was answered, and is not there: {status} {answer}")
        cell.ended(answer)
        return dict(answer)

    # -- cells

    def new_key(self) -> str:
        self._keys += 1
        return f"k{self.seed}-{self._keys}"

    def send(
        self,
        session: Session,
        rng: random.Random,
        script: Script | None = None,
        *,
        context: str | None = None,
        mode: str | None = None,
        key: str | None = None,
    ) -> tuple[Cell, asyncio.Task[Any]]:
        """Sends a cell and goes on; its task ends with it."""
        key = key or self.new_key()
        script = script or scripts.make(key, rng)
        context = rng.choice(session.contexts) if context is None else context
        cell = session.add(key, context, script, mode or rng.choice(MODES))
        self.counts["commands" if script.kind == "command" else "cells"] += 1
        self.say(f"{cell}, context {context}, is sent")
        return cell, self.spawn(self._run(cell, random.Random(rng.random())))

    async def _run(self, cell: Cell, rng: random.Random) -> None:
        if cell.script.kind == "stubborn":
            # Its kernel is killed, and what waits behind it does not run.
            cell.session.births.pop(cell.context, None)
            with cell.session.disturbed({"cancelled", "lost"}, cell.context):
                await self.sender.run(cell, rng)
        else:
            await self.sender.run(cell, rng)
        if cell.final is not None:
            self.counts[f"cells that were {cell.final['status']}"] += 1
            self._fresh.append(cell)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        return task

    def raise_problems(self) -> None:
        """What went wrong in a task is a problem of the run."""
        for task in [task for task in self._tasks if task.done()]:
            self._tasks.discard(task)
            task.result()
        for follower in self.followers.values():
            if follower.task.done():
                follower.task.result()

    # -- sessions

    def follow(self, session: Session) -> None:
        self.sessions.append(session)
        seed = f"{self.seed} {session.name}"
        self.followers[session.id] = Follower(self.api, session.id, seed)

    async def forget(self, session: Session) -> None:
        """It was deleted: whoever follows it is told so."""
        self.sessions.remove(session)
        follower = self.followers.pop(session.id)
        follower.deleted = True
        try:
            await asyncio.wait_for(follower.task, 30)
        except TimeoutError:
            raise Violation(f"{session.id} was deleted, and who followed it was not told") from None

    # -- checks

    async def settle(self) -> None:
        """Waits until nothing is on its way any more."""
        for session in self.sessions:
            if session.paused and not session.stopped:
                status, answer = await self.api.ask("POST", f"/v1/sessions/{session.id}/resume")
                if status != 200:
                    raise Violation(f"{session.id} cannot be resumed: {answer}")
                session.paused = False
        deadline = time.monotonic() + SETTLE_SECONDS
        while self._tasks:
            await asyncio.wait(self._tasks, timeout=1, return_when="FIRST_COMPLETED")
            self.raise_problems()
            if time.monotonic() > deadline:
                stuck = [str(cell) for s in self.sessions for cell in s.open_cells]
                raise Violation(f"these do not end: {stuck}")

    async def check_all(self, rng: random.Random) -> None:
        """Everything that is known of every session, while nothing happens in any of them."""
        await self.settle()
        for session in self.sessions:
            await self.check_session(session)
            self.raise_problems()
        if self.sessions:
            await self.followers[rng.choice(self.sessions).id].read_again()
        self.gateway.look()

    async def check_session(self, session: Session) -> None:
        follower = self.followers[session.id]
        await follower.caught_up()
        self.raise_problems()
        for cell in session.cells.values():
            if cell.refused or (cell.verified and not cell.script.has_display):
                continue
            if cell.became is not None:
                cell.shows, cell.became = {cell.became}, None
            execution = await self._read(cell)
            await self._agree(follower, cell, execution)
            self.sender.compare(cell, follower)
            cell.verified = True
            if not cell.script.has_display:
                follower.shown[cell.id].fold = None
        await self._check_state(session)
        await self._check_list(session)

    async def _agree(self, follower: Follower, cell: Cell, execution: dict[str, Any]) -> None:
        """Late changes are stored first as events, and a moment later in the history."""
        deadline = time.monotonic() + 5
        while True:
            try:
                follower.check(execution)
                return
            except Violation:
                if time.monotonic() > deadline:
                    raise
            await asyncio.sleep(0.1)
            await follower.caught_up()
            execution = await self._read(cell)

    async def _check_state(self, session: Session) -> None:
        """It is ready, and has as many kernels as contexts."""
        deadline = time.monotonic() + 20
        while True:
            status, answer = await self.api.ask("GET", f"/v1/sessions/{session.id}")
            if status != 200:
                raise Violation(f"{session.id} is gone: {answer}")
            if session.stopped:
                return
            sandbox = self.gateway.sandbox_of(session.id)
            kernels = await asyncio.to_thread(processes.kernels_of, sandbox) if sandbox else []
            problem = None
            if answer["state"] != "ready":
                problem = f"is {answer['state']}: {answer['reason']}"
            elif sorted(answer["contexts"]) != sorted(session.contexts):
                problem = f"has the contexts {answer['contexts']}, not {session.contexts}"
            elif len(kernels) != len(session.contexts):
                problem = f"has {len(kernels)} kernels for {len(session.contexts)} contexts"
            if problem is None:
                return
            if time.monotonic() > deadline:
                raise Violation(f"{session.id} {problem}")
            await asyncio.sleep(0.1)

    async def _check_list(self, session: Session) -> None:
        """Its history has every cell that was not refused, and no other."""
        listed: list[str] = []
        while True:
            after = f"&after={listed[-1]}" if listed else ""
            path = f"/v1/sessions/{session.id}/executions?limit=20{after}"
            _, answer = await self.api.ask("GET", path)
            listed += [execution["id"] for execution in answer["executions"]]
            if len(answer["executions"]) < 20:
                break
        sent = {cell.id for cell in session.cells.values() if not cell.refused}
        if len(listed) != len(set(listed)) or set(listed) != sent:
            raise Violation(
                f"{session.id}: its history has {sorted(set(listed) - sent)} that nobody sent, "
                f"and not {sorted(sent - set(listed))} of {len(sent)}; {len(listed)} in all"
            )

    async def close(self) -> None:
        for task in [*self._tasks, *(follower.task for follower in self.followers.values())]:
            task.cancel()
        tasks = [*self._tasks, *(follower.task for follower in self.followers.values())]
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.api.close()
