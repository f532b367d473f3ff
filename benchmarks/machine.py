"""What the numbers were measured on."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("interpreter", "tornado", "msgspec", "httpx", "jupyter-client", "ipykernel", "pyzmq")


def facts() -> dict[str, Any]:
    return {
        "cores": len(os.sched_getaffinity(0)),
        "processor": _line("/proc/cpuinfo", "model name"),
        "memory": _line("/proc/meminfo", "MemTotal"),
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in PACKAGES},
        "load_before": os.getloadavg()[0],
    }


def _line(file: str, name: str) -> str:
    """The value of a line `name : value`."""
    for line in Path(file).read_text().splitlines():
        if line.startswith(name):
            return line.partition(":")[2].strip()
    return ""


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
