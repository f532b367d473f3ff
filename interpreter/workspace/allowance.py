"""How much may still be written to a workspace.

Where a workspace is a file system of its own the kernel holds everybody to its size. Elsewhere what
is in it is counted once when a file begins to arrive, and then what arrives: other writers in the
meantime are not noticed. The machine's own disk is never filled to the last byte, because the
gateway needs some of it.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from interpreter.errors import FileTooLarge, NoSpaceLeft

MEGABYTE = 1024 * 1024
RESERVE = 64 * MEGABYTE
"""What is left free of the disk that all workspaces are on."""

COUNTING_SECONDS = 30.0


@dataclass(frozen=True)
class Allowance:
    """The limits of one session's files."""

    workspace: Path
    file_mb: int
    disk_mb: int
    capped: bool
    """Whether the file system holds the session to `disk_mb`."""

    def begin(self, coming: int) -> int:
        """Called before a file is written: the bytes that are there already, if they are counted here.
        Raises an error if it cannot fit; `coming` is 0 when its size is not known."""
        used = 0 if self.capped else self._used()
        self.check(used, coming)
        if self.capped:
            inside = os.statvfs(self.workspace)
            if coming > inside.f_bavail * inside.f_frsize:
                raise self._full()
        return used

    def check(self, used: int, size: int) -> None:
        """Called again and again while a file grows."""
        if size > self.file_mb * MEGABYTE:
            raise FileTooLarge(f"A file of this session may have {self.file_mb:,} MB.")
        if not self.capped and used + size > self.disk_mb * MEGABYTE:
            raise self._full()
        host = os.statvfs(self.workspace.parent)
        if host.f_bavail * host.f_frsize < RESERVE:
            raise NoSpaceLeft(
                "The disk of the machine is full.", "Have the operator free some space on it."
            )

    def _full(self) -> NoSpaceLeft:
        return NoSpaceLeft(f"The workspace holds {self.disk_mb:,} MB, and that is not enough for this.")

    def _used(self) -> int:
        # Counted by a program that needs no memory to speak of for a tree of any size and depth.
        try:
            counted = subprocess.run(
                ["du", "--summarize", "--one-file-system", "--block-size=1", "--", self.workspace],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=COUNTING_SECONDS,
            )
        except subprocess.TimeoutExpired:
            raise NoSpaceLeft(
                "There are too many files in the workspace to be counted.", "Delete some of them first."
            ) from None
        size = counted.stdout.split(b"\t")[0]
        return int(size) if size.isdigit() else 0


class Budget:
    """What one request writes, in one file or in many: all of it counts."""

    def __init__(self, allowance: Allowance, coming: int = 0) -> None:
        """`coming` is how much it will be, 0 if that is not known. Raises an error if it cannot fit."""
        self._allowance = allowance
        self._used = allowance.begin(coming)

    def take(self, count: int) -> None:
        self._used += count

    def check(self, size: int) -> None:
        """Called again and again while a file grows, with what it has by now."""
        self._allowance.check(self._used - size, size)
