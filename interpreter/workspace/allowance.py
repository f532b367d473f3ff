"""How much may still be written to a workspace.

Where a workspace is a file system of its own the kernel holds everybody to its size. Elsewhere what
is in it is counted once when a file begins to arrive, and then what arrives, by whoever sends it: what
cells write in the meantime is not noticed. The machine's own disk is never filled to the last byte,
because the gateway needs some of it.
"""

from __future__ import annotations

import os
import subprocess
import threading
from dataclasses import dataclass, field
from pathlib import Path

from interpreter.errors import FileTooLarge, NoSpaceLeft

MEGABYTE = 1024 * 1024
RESERVE = 64 * MEGABYTE
"""What is left free of the disk that all workspaces are on."""

COUNTING_SECONDS = 30.0


class Arrivals:
    """What arrives in one workspace, for all who send something at the same time."""

    def __init__(self) -> None:
        self.placing = threading.Lock()
        """So that whoever says which file to replace replaces that one, not what another request put
        there."""
        self._lock = threading.Lock()
        self.bytes = 0
        """That arrived, without those that were given up again."""
        self._unseen = 0
        """Those of them that are in no directory: nobody who counts what is there finds them."""

    def take(self, count: int, *, seen: bool) -> None:
        with self._lock:
            self.bytes += count
            self._unseen += 0 if seen else count

    def give_up(self, count: int, *, seen: bool) -> None:
        self.take(-count, seen=seen)

    def show(self, count: int) -> None:
        """So many have come into a directory."""
        with self._lock:
            self._unseen -= count

    def balance(self) -> int:
        """With a count that is made now, and with `bytes` at any moment, it is what there is then."""
        with self._lock:
            return self._unseen - self.bytes


@dataclass(frozen=True)
class Allowance:
    """The limits of one session's files."""

    workspace: Path
    file_mb: int
    disk_mb: int
    capped: bool
    """Whether the file system holds the session to `disk_mb`."""
    arrivals: Arrivals = field(default_factory=Arrivals)
    """The same for all who send files to this workspace."""

    def begin(self, coming: int) -> int:
        """Called before a file is written: what is with `arrivals.bytes` the bytes that are there, if
        they are counted here. Raises an error if it cannot fit; `coming` is 0 when its size is not
        known."""
        # First: what comes into a directory meanwhile is rather counted twice than never.
        balance = self.arrivals.balance()
        used = 0 if self.capped else balance + self._used()
        self.check(used + self.arrivals.bytes, coming)
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
        self.arrivals = allowance.arrivals
        self._allowance = allowance
        self._used = allowance.begin(coming)

    def check(self, size: int) -> None:
        """Called again and again while a file grows, with what it has by now."""
        self._allowance.check(self._used + self.arrivals.bytes - size, size)
