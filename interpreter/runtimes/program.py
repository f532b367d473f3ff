"""The program that is run in a sandbox: the kernel host, its environment and what it is told."""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass
from pathlib import Path

from interpreter.config import Environment
from interpreter.errors import ConfigurationError
from interpreter.models import Limits
from interpreter.runtimes import payload
from interpreter.runtimes.cgroup import MEGABYTE
from interpreter.runtimes.image_report import Report
from interpreter.runtimes.kernel_environment import KernelEnvironment
from interpreter.runtimes.run_directory import IN_CONTAINER


@dataclass(frozen=True)
class Places:
    """Where the program finds things; a sandbox with a view of its own has its own places."""

    code: str
    scratch: str
    workspace: str


KEY_VARIABLE = "INTERPRETER_LINK_KEY"
STOCK_KERNEL = ["-m", "ipykernel_launcher", "-f", "{connection_file}"]
ISOLATED = Places(code=payload.IN_SANDBOX, scratch="/tmp", workspace="/workspace")


def command(
    kernel: KernelEnvironment,
    configured: Environment,
    places: Places,
    rlimits: dict[str, int | None],
    listen_fd: int,
) -> list[str]:
    cache = kernel.matplotlib_cache
    told = {
        "listen_fd": listen_fd,
        "scratch": places.scratch,
        "workspace": places.workspace,
        "preload": configured.preload,
        "argv": configured.argv,
        "transport": configured.transport,
        "matplotlib_cache": str(cache) if cache else None,
        "rlimits": rlimits,
    }
    return [str(kernel.python), "-P", "-m", "interpreter.sandbox", json.dumps(told)]


def environ(kernel: KernelEnvironment, places: Places, limits: Limits, marker: str) -> dict[str, str]:
    """Nothing of the gateway's own environment but the time zone."""
    # More threads than cores only wait for each other, and each counts as a process.
    threads = str(math.ceil(limits.cpus))
    zone = os.environ.get("TZ")
    marker_name, _, marker_value = marker.partition("=")
    return {
        marker_name: marker_value,
        "PATH": f"{kernel.path / 'bin'}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(Path(places.scratch, "home")),
        "TMPDIR": places.scratch,
        "LANG": "C.UTF-8",
        "TERM": "xterm-256color",
        "PYTHONPATH": places.code,
        "OMP_NUM_THREADS": threads,
        "OPENBLAS_NUM_THREADS": threads,
        **({"TZ": zone} if zone else {}),
    }


def in_container(
    name: str,
    configured: Environment,
    report: Report,
    preload: list[str],
    limits: Limits,
    link: str,
) -> list[str]:
    """The same for a container. Raises ConfigurationError if its image has no such kernel."""
    argv, env = configured.argv, {}
    if configured.kernel is not None:
        spec = report.kernelspecs.get(configured.kernel)
        if spec is None:
            known = ", ".join(sorted(report.kernelspecs)) or "none"
            raise ConfigurationError(
                f"The image of the environment '{name}' has no kernel '{configured.kernel}'.",
                f"It has: {known}.",
            )
        argv, env = spec.argv, spec.env
    elif argv is None and not (report.ipykernel or "").startswith("7."):
        # Our own way of starting ipykernel reaches into its parts, and those of 7 only.
        argv = [report.python, *STOCK_KERNEL]
    told = {
        "start_socket": f"{IN_CONTAINER}/start" if link == "socket" else None,
        "key_variable": KEY_VARIABLE if link == "attach" else None,
        "scratch": ISOLATED.scratch,
        "workspace": ISOLATED.workspace,
        "preload": preload,
        "argv": argv,
        "env": env,
        "transport": configured.transport,
        "matplotlib_cache": report.matplotlib_cache,
        "rlimits": {"file_bytes": limits.file_mb * MEGABYTE},
    }
    return [report.python, "-P", "-m", "interpreter.sandbox", json.dumps(told)]
