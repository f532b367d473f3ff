"""How much may be stored in one place, and who has taken how much of it."""

from __future__ import annotations

from interpreter.errors import DatasetsFull

MEGABYTE = 1024 * 1024


class Room:
    """So many bytes, of which some are taken."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.taken = 0


class Claim:
    """What one upload has taken so far. It takes before it writes, so that the limit is never passed."""

    def __init__(self, room: Room) -> None:
        self.bytes = 0
        self._room = room

    def take(self, count: int) -> None:
        """Raises DatasetsFull when there is not that much left."""
        room = self._room
        if room.taken + count > room.limit:
            raise DatasetsFull(
                f"All datasets together may have {room.limit // MEGABYTE:,} MB, "
                f"and {(room.taken - self.bytes) // MEGABYTE:,} MB are taken by others."
            )
        room.taken += count
        self.bytes += count

    def give(self, count: int) -> None:
        self._room.taken -= count
        self.bytes -= count

    def release(self) -> None:
        self.give(self.bytes)
