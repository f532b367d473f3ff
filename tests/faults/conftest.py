"""A disk of a few megabytes that a test can fill to the last byte."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mounts import mount, mounts_of, unmount

MEGABYTES = 192


class SmallDisk:
    """A file system of its own, in memory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._filler = path / "filler"

    def fill(self) -> None:
        """Until not one more byte fits."""
        with self._filler.open("ab", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(b"\0" * 1024 * 1024)
        with self._filler.open("ab", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(b"\0")
        stat = os.statvfs(self.path)
        assert stat.f_bavail == 0

    def free(self) -> None:
        self._filler.unlink()


@pytest.fixture
def small_disk(data_root: Path) -> Iterator[SmallDisk]:
    path = data_root / "small"
    path.mkdir()
    mount("-t", "tmpfs", "-o", f"size={MEGABYTES}m", "small", path)
    yield SmallDisk(path)
    for place in reversed(mounts_of(path)):
        unmount(place)
    unmount(path)
    path.rmdir()
