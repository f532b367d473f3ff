"""A kernel environment: the Python and the packages that a session's code runs with.

Each is a virtual environment of its own, so what a session imports never depends on what the
gateway needs. It is made once, on first use, and kept: a marker file written last holds a hash
of everything that was asked for, so a half-made or outdated environment is made again and a
finished one costs reading one file. A lock lets several gateways share the directory.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

from interpreter.config import Environment
from interpreter.errors import ConfigurationError
from interpreter.runtimes.base import Progress

KERNEL_REQUIREMENTS = [
    "ipykernel==7.4.0",
    "ipython==9.18.1",
    "jupyter-client==8.10.0",
    "pyzmq==27.3.0",
    "tornado==6.6.1",
    "traitlets==5.16.1",
    "matplotlib-inline==0.2.2",
    "comm==0.2.3",
]
"""What the kernel host is written against; pinned, because it reaches into their inner parts."""

# The font cache takes seconds to make; a sandbox could only make it anew every time.
WARM_MATPLOTLIB = """
import importlib.util
if importlib.util.find_spec("matplotlib"):
    import matplotlib.font_manager, matplotlib.pyplot
"""


@dataclass(frozen=True)
class KernelEnvironment:
    """A finished environment on disk."""

    name: str
    path: Path

    @property
    def python(self) -> Path:
        return self.path / "bin" / "python"

    @property
    def matplotlib_cache(self) -> Path | None:
        path = self.path / "matplotlib-cache"
        return path if path.is_dir() and any(path.iterdir()) else None


def base_python() -> Path:
    """The interpreter behind the gateway's own virtual environment."""
    return Path(getattr(sys, "_base_executable", None) or sys.executable)


async def ensure(
    kernels: Path, name: str, environment: Environment, progress: Progress
) -> KernelEnvironment:
    """The environment `kernels/name`, made first if it is not there as asked for.

    Raises ConfigurationError with the end of the installer's output when it cannot be made.
    """
    result = KernelEnvironment(name, kernels / name)
    wanted = _fingerprint(environment)
    marker = result.path / ".complete"
    if _read(marker) == wanted:
        return result
    kernels.mkdir(parents=True, exist_ok=True)
    async with _lock(
        kernels / f".{name}.lock", lambda: progress(f"{_title(name)}: another gateway is at it")
    ):
        if _read(marker) != wanted:
            await _make(result, environment, progress)
            marker.write_text(wanted)
    return result


async def _make(target: KernelEnvironment, environment: Environment, progress: Progress) -> None:
    started = time.monotonic()
    requirements = [*KERNEL_REQUIREMENTS, *environment.packages]
    shown = ", ".join(environment.packages) or "ipykernel"

    def say(what: str) -> None:
        progress(f"{_title(target.name)}: {what} ({time.monotonic() - started:.0f} s)")

    def pip_says(line: str) -> None:
        if match := re.match(r"\s*(Collecting|Downloading|Building) (\S+)", line):
            say(f"{match[1].lower()} {match[2].rpartition('/')[2]}")
        elif line.startswith("Installing collected packages"):
            say(f"unpacking {shown}")

    await asyncio.to_thread(_put_aside, target.path)
    say("making a virtual environment")
    await _run([str(base_python()), "-m", "venv", str(target.path)], {})
    say(f"installing {shown} …")
    pip = [str(target.python), "-m", "pip", "--disable-pip-version-check", "--no-input"]
    install = ["install", "--compile", "--progress-bar", "off", "--", *requirements]
    await _run([*pip, *install], {}, pip_says)
    say("preparing fonts")
    cache = target.path / "matplotlib-cache"
    cache.mkdir()
    settings = {"MPLCONFIGDIR": str(cache), "MPLBACKEND": "agg"}
    await _run([str(target.python), "-c", WARM_MATPLOTLIB], settings)
    say("done")


async def _run(command: list[str], settings: dict[str, str], line_read: Progress | None = None) -> None:
    """Runs a step to its end, or stops it when cancelled."""
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV"))}
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**environ, **settings},
        # A sandbox has another user id and must be able to read what is installed here.
        umask=0o022,
        limit=1024 * 1024,
    )
    assert process.stdout is not None
    tail: deque[str] = deque(maxlen=12)
    try:
        async for raw in process.stdout:
            line = raw.decode(errors="replace").rstrip()
            tail.append(line)
            if line_read is not None:
                line_read(line)
        code = await process.wait()
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        raise
    if code != 0:
        said = "\n".join(tail)
        raise ConfigurationError(
            f"The kernel environment could not be made: {' '.join(command[:4])} … failed:\n{said}",
            "Check the environment's packages in interpreter.toml and the connection to PyPI.",
        )


def _put_aside(path: Path) -> None:
    """Makes room for a new environment.

    Sandboxes that still run hold on to the old one, so it is renamed now and removed next time.
    """
    aside = path.with_name(f".{path.name}.replaced")
    shutil.rmtree(aside, ignore_errors=True)
    if (path / ".complete").exists():
        path.rename(aside)
        (aside / ".complete").unlink()
    else:
        shutil.rmtree(path, ignore_errors=True)


@contextlib.asynccontextmanager
async def _lock(path: Path, waiting: Callable[[], None]) -> AsyncIterator[None]:
    with path.open("w") as file:
        told = False
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not told:
                    waiting()
                    told = True
                # A thread that blocks in flock could not be cancelled, so ask again now and then.
                await asyncio.sleep(0.2)
        yield


def _fingerprint(environment: Environment) -> str:
    asked = [sys.version, str(base_python()), KERNEL_REQUIREMENTS, environment.packages]
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()


def _read(path: Path) -> str | None:
    try:
        return path.read_text()
    except OSError:
        return None


def _title(name: str) -> str:
    return f"making the kernel environment {name}"
