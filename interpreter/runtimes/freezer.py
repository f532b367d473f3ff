"""Freezing containers and letting them go on, with an engine that may not answer.

Who asks is told in time. An engine that hung, or was killed, may have done what it was asked for, or
do it later: so what was told to have failed is undone, until the container is what its session says.
"""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial

from interpreter.errors import SandboxFailed
from interpreter.runtimes.chores import LATE_SECONDS, Chores
from interpreter.runtimes.containers import Containers
from interpreter.runtimes.engine import explain


class Freezer:
    """Which containers are to be frozen."""

    def __init__(self, containers: Containers, chores: Chores, seconds: float) -> None:
        self._containers = containers
        self._chores = chores
        self._seconds = seconds
        self._wanted: dict[str, bool] = {}

    async def set(self, id: str, frozen: bool) -> None:
        """Freezes a container or lets it go on. Raises SandboxFailed; then it is, or soon will be, as
        it was."""
        self._wanted[id] = frozen
        asked = asyncio.create_task(self._containers.freeze(id, frozen))
        try:
            done, _ = await asyncio.wait({asked}, timeout=self._seconds)
            if not done:
                raise TimeoutError("the engine does not answer")
            asked.result()
        except SandboxFailed:
            self._wanted[id] = not frozen
            raise
        except BaseException as e:
            self._wanted[id] = not frozen
            await self._chores.see_to(f"what {id} is to be", partial(self._settle, asked, id), 0)
            if not isinstance(e, OSError):
                raise
            what = "paused" if frozen else "resumed"
            raise SandboxFailed(
                f"The container could not be {what}: {explain(e)}.", "Try again in a moment."
            ) from e

    def forget(self, id: str) -> None:
        """The container is removed."""
        self._wanted.pop(id, None)

    async def _settle(self, asked: asyncio.Task[None], id: str) -> None:
        """Makes a container what is wanted, when it is known what became of the question."""
        await asyncio.wait({asked})
        await self._apply(id)
        if asked.cancelled() or asked.exception() is not None:
            await asyncio.sleep(LATE_SECONDS)
            await self._apply(id)

    async def _apply(self, id: str) -> None:
        applied: bool | None = None
        while (wanted := self._wanted.get(id)) is not None and wanted is not applied:
            with contextlib.suppress(SandboxFailed):  # it is gone, or the engine knows why not
                await self._containers.freeze(id, wanted)
            applied = wanted
