"""Memory that large outputs took is given back to the system.

glibc takes large pieces from the system and gives them back, but each time one is freed it raises
what it calls large, up to 32 MB: from then on a cell's output stays with the process that once
held it. With a fixed threshold it goes back whenever it is let go of.
"""

from __future__ import annotations

import contextlib
import ctypes

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
LARGE = 4 * 1024 * 1024
"""Smaller pieces are taken and freed too often to ask the system each time."""


def give_back() -> None:
    """Called once, before there is much memory to speak of; other C libraries have their own ways."""
    with contextlib.suppress(AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(M_MMAP_THRESHOLD, LARGE)
        mallopt(M_TRIM_THRESHOLD, LARGE)
