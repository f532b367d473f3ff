"""How much disk an owner may have: all named workspaces, and all sessions that name an owner.

What counts is what each may hold at most, not what is in it: so what was promised can be written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from interpreter.errors import OwnerDiskFull


class Quotas:
    """Refuses what would be too much. `held` tells how many megabytes an owner has."""

    def __init__(self, most_mb: int, held: Callable[[str], int]) -> None:
        self._most_mb = most_mb
        self._held = held
        self._coming: Counter[str] = Counter()
        """What is being made, and nobody else knows of yet."""

    @contextmanager
    def room_for(self, owner: str | None, megabytes: int) -> Iterator[None]:
        """Keeps room until what needs it is there, or is given up. Raises OwnerDiskFull."""
        if owner is None or self._most_mb == 0 or megabytes <= 0:
            yield
            return
        has = self._held(owner) + self._coming[owner]
        if has + megabytes > self._most_mb:
            raise OwnerDiskFull(
                f"'{owner}' has {has:,} of {self._most_mb:,} MB, and {megabytes:,} MB more do not fit."
            )
        self._coming[owner] += megabytes
        try:
            yield
        finally:
            self._coming[owner] -= megabytes
            if not self._coming[owner]:
                del self._coming[owner]
