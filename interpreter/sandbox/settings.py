"""What the runtime tells the kernel host when it starts it: one JSON argument."""

from __future__ import annotations

import json
import resource
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Settings:
    scratch: str
    workspace: str
    listen_fd: int | None = None
    """A listening unix socket that this process inherited: the link is what connects to it. The
    gateway made it, so the sandbox has no say in where it is."""
    start_socket: str | None = None
    """Where the gateway hands over that socket to a process that could not inherit it."""
    key_variable: str | None = None
    """The variable with the key of a link on stdin and stdout. Cells can read this process's command
    line, but not its environment."""
    preload: list[str] = field(default_factory=list)
    argv: list[str] | None = None
    env: dict[str, str] = field(default_factory=dict)
    """Variables for kernels besides those of this process."""
    transport: str = "ipc"
    matplotlib_cache: str | None = None
    rlimits: dict[str, int | None] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> Settings:
        known: dict[str, Any] = json.loads(text)
        return cls(**known)


RLIMITS = {
    "as_bytes": resource.RLIMIT_AS,
    "processes": resource.RLIMIT_NPROC,
    "file_bytes": resource.RLIMIT_FSIZE,
    "open_files": resource.RLIMIT_NOFILE,
}


def apply_rlimits(rlimits: dict[str, int | None]) -> None:
    """Lowers this process's limits, and so those of everything it starts."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for name, value in rlimits.items():
        if value is not None:
            _, hard = resource.getrlimit(RLIMITS[name])
            value = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(RLIMITS[name], (value, value))
