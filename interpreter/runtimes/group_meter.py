"""What a sandbox uses while a cell runs, as its control group counts it.

The files are opened once and read in place, which takes microseconds: no look-up, no thread. They
are the host's own, out of reach of what runs in the group.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from interpreter.models import ExecutionUsage
from interpreter.runtimes.base import Meter
from interpreter.runtimes.cgroup import Gauges, Transferred

NUMBER = 128
"""Bytes in which a number is found, at the start of a file."""
LINES = 64 * 1024
"""Bytes for a file with a few lines for each block device."""


class GroupMeter(Meter):
    """Measures one cell at a time. Raises OSError when the group is gone."""

    def __init__(self, gauges: Gauges) -> None:
        self._gauges = gauges
        self._began: tuple[int, Transferred] | None = None
        with contextlib.ExitStack() as files:
            self._cpu = _open(gauges.cpu, files)
            self._io = None if gauges.io is None else _open(gauges.io, files)
            self._peak = _Peak(gauges.peak, gauges.peak_may_be_reset, files)
            self._files = files.pop_all()

    def begin(self) -> None:
        try:
            self._peak.begin()
            self._began = self._counted()
        except OSError:
            self._began = None

    def end(self) -> ExecutionUsage | None:
        began, self._began = self._began, None
        if began is None:
            return None
        try:
            microseconds, io = self._counted()
            peak = self._peak.end()
        except OSError:
            return None
        return ExecutionUsage(
            cpu_seconds=(microseconds - began[0]) / 1e6,
            memory_peak_bytes=peak,
            read_bytes=_more(began[1].read, io.read),
            written_bytes=_more(began[1].written, io.written),
        )

    def close(self) -> None:
        # Nothing is read after this: the numbers of the files may be those of others by then.
        self._began = None
        self._cpu = self._peak.fd = -1
        self._io = None
        self._files.close()

    def _counted(self) -> tuple[int, Transferred]:
        microseconds = self._gauges.cpu_microseconds(os.pread(self._cpu, NUMBER, 0))
        if self._io is None:
            return microseconds, Transferred()
        return microseconds, self._gauges.transferred(os.pread(self._io, LINES, 0))


class _Peak:
    """The highest use of memory since `begin`.

    Where the kernel does not let its mark be reset it is known only if it has risen since.
    """

    def __init__(self, path: Path | None, may_be_reset: bool, files: contextlib.ExitStack) -> None:
        self.fd = -1
        self._known = path is not None
        self._resets = False
        self._before = 0
        if path is not None and may_be_reset:
            with contextlib.suppress(OSError):
                self.fd = _open(path, files, os.O_RDWR)
                self._reset()
                self._resets = True
        if path is not None and self.fd < 0:
            self.fd = _open(path, files)

    def begin(self) -> None:
        if self._resets:
            self._reset()
        elif self._known:
            self._before = self._read()

    def end(self) -> int | None:
        peak = self._read() if self._known else 0
        return peak if self._resets or peak > self._before else None

    def _reset(self) -> None:
        os.pwrite(self.fd, b"0", 0)

    def _read(self) -> int:
        return int(os.pread(self.fd, NUMBER, 0))


def _open(path: Path, files: contextlib.ExitStack, how: int = os.O_RDONLY) -> int:
    fd = os.open(path, how | os.O_CLOEXEC)
    files.callback(os.close, fd)
    return fd


def _more(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else after - before
