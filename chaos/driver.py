"""The order of things: actions one after the other, kills into the middle of them, checks in between,
and at the end everything is deleted and nothing may be left.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from chaos import actions, choice, control, processes, violence
from chaos.gateway import Gateway
from chaos.measures import Measures
from chaos.model import Violation
from chaos.run import Engine, Run
from interpreter.models import SessionState
from interpreter.orchestrator import states

CHECK_EVERY = 25
"""Steps between two checks of everything."""
WARM_UP = 4
"""Steps before everything is killed once, in between others: a short run has all of it, too."""
STEP_SECONDS = 240.0
LAST_LIFE = 0.15
"""The part of a run in which the gateway is left alone, to see whether it grows."""


@dataclass(frozen=True)
class Plan:
    """How long a run is: until all of it is done, or until the steps are."""

    seed: int
    seconds: float
    kills: int
    steps: int | None = None
    sessions: int = 3


class Driver:
    """Drives one run."""

    def __init__(
        self,
        gateway: Gateway,
        plan: Plan,
        progress: Callable[[str], None],
        engine: Engine | None = None,
    ) -> None:
        self.plan = plan
        self.run = Run(gateway, plan.seed, engine)
        self.measures = Measures(at_start=self.run.rss_at_start)
        self._progress = progress
        self._told = 0.0

    async def drive(self) -> None:
        run, plan = self.run, self.plan
        rng = random.Random(plan.seed)
        await run.start_gateway()
        for _ in range(plan.sessions):
            await choice.create(run, rng)
        while not self._over:
            run.step += 1
            await self._step(random.Random(f"{plan.seed}/{run.step}"))
        await self._end(rng)

    @property
    def _over(self) -> bool:
        if self.plan.steps is not None:
            return self.run.step >= self.plan.steps
        return self.run.seconds >= self.plan.seconds and self._enough

    @property
    def _enough(self) -> bool:
        return self.run.kills >= self.plan.kills and not violence.missing(self.run)

    @property
    def _leave_alone(self) -> bool:
        """Whether the gateway is left alone now, as long as there were enough kills."""
        late = self.run.seconds > (1 - LAST_LIFE) * self.plan.seconds
        return self.plan.steps is None and late and self._enough

    async def _step(self, rng: random.Random) -> None:
        run = self.run
        try:
            async with asyncio.timeout(STEP_SECONDS):
                if run.step % CHECK_EVERY == 0:
                    await run.check_all(rng)
                elif run.step > WARM_UP and run.step % 2 and (missing := violence.missing(run)):
                    await self._act(rng, dict.fromkeys(missing, 1))
                    await run.look_again()
                elif self._leave_alone:
                    await self._act(rng, actions.WEIGHTS)
                    rss = run.gateway.rss(), run.gateway.descriptors()
                    self.measures.long_life.append(rss)
                elif rng.random() < self._violence:
                    await self._act(rng, violence.VIOLENCE)
                    await run.look_again()
                elif rng.random() < 0.2:
                    await self._act_under_fire(rng)
                    await run.look_again()
                else:
                    await self._act(rng, actions.WEIGHTS)
        except TimeoutError:
            raise Violation("a step did not come to its end") from None
        run.raise_problems()
        run.gateway.look()
        self._tell()

    @property
    def _violence(self) -> float:
        """More of it when there were fewer kills than there should be by now."""
        if self.plan.steps is not None or not self.plan.kills:
            return 0.2
        due = self.plan.kills * min(1.0, self.run.seconds / ((1 - LAST_LIFE) * self.plan.seconds))
        return 0.1 if self.run.kills > due else 0.45

    async def _act(self, rng: random.Random, choices: dict[choice.Action, int]) -> None:
        (action,) = rng.choices(list(choices), list(choices.values()))
        self.run.counts["actions"] += 1
        await action(self.run, rng)

    async def _act_under_fire(self, rng: random.Random) -> None:
        """The gateway is killed in the middle of something."""

        async def fire() -> None:
            await asyncio.sleep(rng.choice((0.0, 0.005, 0.02, 0.1, 0.4)))
            await self.run.kill_gateway(random.Random(rng.random()))

        shots = asyncio.create_task(fire())
        try:
            await self._act(random.Random(rng.random()), actions.WEIGHTS)
        finally:
            await shots

    def _tell(self) -> None:
        if time.monotonic() - self._told > 5:
            self._told = time.monotonic()
            run = self.run
            self._progress(
                f"{run.seconds:6.0f} s  step {run.step:5}  {run.counts['cells']:6} cells  "
                f"{run.kills:4} kills  {len(run.sessions)} sessions  0 violations"
            )

    # -- the end

    async def _end(self, rng: random.Random) -> None:
        run, gateway = self.run, self.run.gateway
        await run.check_all(rng)
        for session in list(run.sessions):
            await actions.look_at(run, rng, session)
            run.raise_problems()
            await control.remove(run, rng, session, at_once=False)
        await run.settle()
        self._check_audit()
        gateway.look()
        await gateway.stop()
        await self._check_left_over()
        self.measures.check()

    def _check_audit(self) -> None:
        for action, session, detail in self.run.gateway.audit():
            name = action.removeprefix("session.")
            if "from" not in detail or name not in SessionState.__members__:
                continue
            if SessionState(name) not in states.SESSION[SessionState(detail["from"])]:
                raise Violation(f"{session} changed from {detail['from']} to {name}")

    async def _check_left_over(self) -> None:
        """Devices are let go of by the kernel in its own time."""
        gateway = self.run.gateway
        deadline = time.monotonic() + 20
        while left := await asyncio.to_thread(processes.left_over, gateway.data, gateway.sandboxes):
            if time.monotonic() > deadline:
                raise Violation(f"{len(left)} things are left: {left[:20]}")
            await asyncio.sleep(0.2)

    def rows(self) -> list[tuple[str, str]]:
        """What there was, for a table."""
        run = self.run
        counts = [(name, f"{count:,}") for name, count in sorted(run.counts.items())]
        return [
            ("seed", str(self.plan.seed)),
            ("time", f"{run.seconds:.0f} s, {run.step} steps"),
            ("kills", str(run.kills)),
            *counts,
            ("requests made again", f"{run.api.cut_off:,}"),
            ("streams taken up again", f"{run.sender.drops:,}"),
            *self.measures.rows(),
        ]
