"""One data directory has one gateway, and nobody else who changes it."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from interpreter.errors import ConfigurationError


@contextlib.contextmanager
def owned(data: Path) -> Iterator[None]:
    """Holds the data directory; raises ConfigurationError if somebody else does."""
    try:
        data.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(data / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as e:
        raise ConfigurationError(f"The data directory {data} cannot be used: {e.strerror}.") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise ConfigurationError(
            f"Another gateway already uses the data directory {data}.",
            "Stop it first, or choose another directory with --data-dir.",
        ) from None
    try:
        yield
    finally:
        os.close(lock)
