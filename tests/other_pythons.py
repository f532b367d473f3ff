"""Python environments with programs of others, which must not decide what versions the tests have.

They are made once, beside the tests' own environment, from what is pinned here.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

HOME = Path(sys.prefix) / "clients"


def python_with(*requirements: str) -> Path:
    """The interpreter of an environment that has these packages."""
    name = hashlib.sha256(repr((sys.version, requirements)).encode()).hexdigest()[:16]
    place = HOME / name
    HOME.mkdir(exist_ok=True)
    with open(HOME / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "complete").exists():
            shutil.rmtree(place, ignore_errors=True)
            subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
            pip = [str(place / "bin/python"), "-m", "pip", "--disable-pip-version-check", "--quiet"]
            subprocess.run([*pip, "install", *requirements], check=True)
            (place / "complete").touch()
    return place / "bin/python"
