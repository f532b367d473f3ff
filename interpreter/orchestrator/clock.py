"""The clock for everything that is a span of time.

It goes on while the machine sleeps, and nobody can set it; only a reboot starts it over, and no
sandbox outlives that. What people read is told by the other clock, which may jump.
"""

from __future__ import annotations

import time


def tick() -> float:
    """Seconds since the machine was booted."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
