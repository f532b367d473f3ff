"""How long a cell may run: it can be extended while the cell runs, and stands still with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

WARN_SECONDS = 10.0
"""A cell that may run for longer than twice this is warned so long before its end."""


class TimeLimit:
    """Calls `warn` a while before the end, if there is time for that, and `end` at the end."""

    def __init__(self, seconds: float, warn: Callable[[], None], end: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._warn, self._end = warn, end
        self._deadline = self._loop.time() + seconds
        self._left: float | None = None
        self._warned = seconds < 2 * WARN_SECONDS
        self._timer: asyncio.TimerHandle | None = None
        self._set()

    @property
    def left(self) -> float:
        """Seconds until the end."""
        return max(0.0, self._deadline - self._loop.time() if self._left is None else self._left)

    def _set(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._warned:
            self._timer = self._loop.call_at(self._deadline, self._end)
        else:
            self._timer = self._loop.call_at(self._deadline - WARN_SECONDS, self._on_warn)

    def _on_warn(self) -> None:
        self._warned = True
        self._set()
        self._warn()

    def extend(self, seconds: float) -> None:
        """By a negative number it becomes shorter."""
        self._deadline += seconds
        if self._left is not None:
            self._left += seconds
            return
        self._warned = self._deadline - self._loop.time() < WARN_SECONDS
        self._set()

    def hold(self) -> None:
        """The cell is frozen: its time stands still."""
        if self._left is None:
            self._left = self._deadline - self._loop.time()
            self.cancel()

    def go_on(self) -> None:
        if self._left is not None:
            self._deadline, self._left = self._loop.time() + self._left, None
            self._set()

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
