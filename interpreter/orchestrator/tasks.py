"""Tasks that belong to something: they end with it, and what goes wrong in one is told."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import structlog

log = structlog.get_logger()


class Tasks:
    """The tasks of one owner."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._tasks: set[asyncio.Task[Any]] = set()

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        problem = task.exception()
        # Without a sandbox there is nothing to do, and its end is told by itself.
        if problem is not None and not isinstance(problem, ConnectionError):
            log.error("a task failed", of=self._owner, exc_info=problem)

    def cancel(self) -> None:
        """Cancels them all, except the one that asks for it."""
        for task in list(self._tasks):
            if task is not asyncio.current_task():
                task.cancel()

    async def done(self) -> None:
        """Returns when none is left but the one that asks."""
        while left := self._tasks - {asyncio.current_task()}:
            await asyncio.wait(left)
