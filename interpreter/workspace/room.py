"""How much may be stored in one place, and who has taken how much of it."""

from __future__ import annotations

import os
from pathlib import Path

from interpreter.errors import DatasetsFull
from interpreter.workspace import allowance

MEGABYTE = 1024 * 1024


def check_disk(folder: Path, coming: int = 0) -> None:
    """Blocks. Raises DatasetsFull when the disk has no more, or will have, than what is left for the
    gateway."""
    disk = os.statvfs(folder)
    if disk.f_bavail * disk.f_frsize - coming < allowance.RESERVE:
        raise no_space()


def no_space() -> DatasetsFull:
    return DatasetsFull("There is no space left on the disk.", "Free some space and try again.")


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
