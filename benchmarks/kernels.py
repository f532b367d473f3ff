"""The kernel environment that all sides of a comparison share."""

from __future__ import annotations

import asyncio
import os
import sys
from functools import cache
from pathlib import Path

from interpreter.config import DEFAULT_ENVIRONMENTS
from interpreter.runtimes.kernel_environment import KernelEnvironment, ensure

NAME, CONFIGURED = next(iter(DEFAULT_ENVIRONMENTS.items()))


def folder() -> Path:
    return Path(os.environ.get("INTERPRETER_KERNELS_DIR") or Path(sys.prefix) / "kernels").absolute()


@cache
def environment() -> KernelEnvironment:
    """Made first where it is missing, as a gateway would make it."""
    return asyncio.run(ensure(folder(), NAME, CONFIGURED, print))
