"""What must happen, removals above all, however long the engine does not answer.

Whoever asks for one waits for a while; what is not done by then goes on without them, again and again.
What is left when the gateway ends is found by the labels it carries when the next one starts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog
from docker.errors import DockerException

from interpreter.runtimes.engine import explain

log = structlog.get_logger()

FIRST_PAUSE = 0.2
LONGEST_PAUSE = 10.0
LATE_SECONDS = 10.0
"""When an engine has surely done what it was asked for by someone who did not wait any longer."""


class Chores:
    """What is being seen to."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    async def see_to(self, what: str, do: Callable[[], Awaitable[None]], seconds: float) -> bool:
        """Does it until it is done; returns then or after so many seconds, and whether it is done."""
        task = asyncio.create_task(self._until_done(what, do))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        await asyncio.wait({task}, timeout=seconds)
        return task.done()

    async def _until_done(self, what: str, do: Callable[[], Awaitable[None]]) -> None:
        pause = FIRST_PAUSE
        while True:
            try:
                return await do()
            except (DockerException, OSError) as e:
                log.warning(
                    "the engine did not see to something, trying again", what=what, why=explain(e)
                )
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def close(self, seconds: float) -> None:
        """Waits a while for what is under way, and gives up the rest."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)
        for task in self._tasks:
            task.cancel()
