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
import signal
import sys
import tempfile
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
    "orjson==3.13.0",
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
    title = f"making the kernel environment {name}"
    async with _lock(
        kernels / f".{name}.lock", lambda: progress(f"{title}: another gateway is at it")
    ) as fd:
        if _read(marker) != wanted:
            with tempfile.TemporaryDirectory(dir=kernels, prefix=f".{name}.tmp-") as temporary:
                await _Build(result, environment, progress, fd, temporary).make()
            marker.write_text(wanted)
    return result


class _Build:
    """The making of one environment."""

    def __init__(
        self,
        target: KernelEnvironment,
        environment: Environment,
        progress: Progress,
        lock: int,
        temporary: str,
    ) -> None:
        self._target = target
        self._packages = environment.packages
        self._progress = progress
        self._lock = lock
        self._temporary = temporary
        self._started = time.monotonic()

    async def make(self) -> None:
        shown = ", ".join(self._packages) or "ipykernel"
        python = str(self._target.python)
        await asyncio.to_thread(_put_aside, self._target.path)
        self._say("making a virtual environment")
        await self._run([str(base_python()), "-m", "venv", str(self._target.path)])
        self._say(f"installing {shown} …")
        pip = [python, "-m", "pip", "--disable-pip-version-check", "--no-input", "install"]
        options = ["--compile", "--progress-bar", "off", "--"]
        await self._run([*pip, *options, *KERNEL_REQUIREMENTS, *self._packages])
        self._say("preparing fonts")
        cache = self._target.path / "matplotlib-cache"
        cache.mkdir()
        await self._run([python, "-c", WARM_MATPLOTLIB], MPLCONFIGDIR=str(cache), MPLBACKEND="agg")
        self._say("done")

    def _say(self, what: str) -> None:
        elapsed = time.monotonic() - self._started
        self._progress(f"making the kernel environment {self._target.name}: {what} ({elapsed:.0f} s)")

    def _read_line(self, line: str) -> None:
        if match := re.match(r"\s*(Collecting|Downloading|Building) (\S+)", line):
            self._say(f"{match[1].lower()} {match[2].rpartition('/')[2]}")
        elif line.startswith("Installing collected packages"):
            self._say("unpacking")

    async def _run(self, command: list[str], **settings: str) -> None:
        """Runs a step to its end, or ends it with all it started when cancelled."""
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV"))}
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={**inherited, "TMPDIR": self._temporary, **settings},
            # A sandbox has another user id and must be able to read what is installed here.
            umask=0o022,
            # Should this gateway be killed, the step keeps the lock until it has ended too.
            pass_fds=[self._lock],
            start_new_session=True,
            limit=1024 * 1024,
        )
        assert process.stdout is not None
        tail: deque[str] = deque(maxlen=12)
        try:
            async for raw in process.stdout:
                line = raw.decode(errors="replace").rstrip()
                tail.append(line)
                self._read_line(line)
            code = await process.wait()
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
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
async def _lock(path: Path, waiting: Callable[[], None]) -> AsyncIterator[int]:
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
        yield file.fileno()


def _fingerprint(environment: Environment) -> str:
    asked = [sys.version, str(base_python()), KERNEL_REQUIREMENTS, environment.packages]
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()


def _read(path: Path) -> str | None:
    try:
        return path.read_text()
    except OSError:
        return None
