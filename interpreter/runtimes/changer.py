"""Changing containers (freezing them, giving them other limits), with an engine that may not answer.

Who asks is told in time. An engine that hung, or was killed, may have done what it was asked for, or
do it later: so what was told to have failed is undone, until the container is what its session says.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Generic, TypeVar

from interpreter.errors import SandboxFailed
from interpreter.runtimes.chores import LATE_SECONDS, Chores
from interpreter.runtimes.containers import Refused
from interpreter.runtimes.engine import explain

T = TypeVar("T")


class Changer(Generic[T]):
    """What containers are to be, in one respect."""

    def __init__(
        self, change: Callable[[str, T], Awaitable[None]], chores: Chores, seconds: float
    ) -> None:
        """`change` raises Refused when the engine refuses, OSError when it does not answer."""
        self._change = change
        self._chores = chores
        self._seconds = seconds
        self._wanted: dict[str, T] = {}

    async def set(self, id: str, wanted: T, before: T, failure: str) -> None:
        """Makes a container what is wanted. Raises Refused, or SandboxFailed with the sentence that
        says what did not work; then it is, or soon will be, as it was before."""
        self._wanted[id] = wanted
        asked = asyncio.ensure_future(self._change(id, wanted))
        try:
            done, _ = await asyncio.wait({asked}, timeout=self._seconds)
            if not done:
                raise TimeoutError("the engine does not answer")
            asked.result()
        except Refused:
            self._wanted[id] = before
            raise
        except BaseException as e:
            self._wanted[id] = before
            await self._chores.see_to(f"what {id} is to be", partial(self._settle, asked, id), 0)
            if not isinstance(e, OSError):
                raise
            raise SandboxFailed(f"{failure}: {explain(e)}.", "Try again in a moment.") from e

    def forget(self, id: str) -> None:
        """The container is removed."""
        self._wanted.pop(id, None)

    async def _settle(self, asked: asyncio.Future[None], id: str) -> None:
        """Makes a container what is wanted, when it is known what became of the question."""
        await asyncio.wait({asked})
        await self._apply(id)
        if asked.cancelled() or asked.exception() is not None:
            await asyncio.sleep(LATE_SECONDS)
            await self._apply(id)

    async def _apply(self, id: str) -> None:
        applied: T | None = None
        while (wanted := self._wanted.get(id)) is not None and wanted is not applied:
            with contextlib.suppress(Refused):  # it is gone, or the engine knows why not
                await self._change(id, wanted)
            applied = wanted
