"""What the Docker runtime remembers of a sandbox, as the store keeps it: plain JSON."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from interpreter.runtimes.process import Identity
from interpreter.runtimes.run_directory import RunDirectory


@dataclass(frozen=True)
class ContainerHandle:
    """All it takes to reach a container and to end it."""

    container: str
    """Its id, or its name as long as that is not known."""
    run: str
    link: str
    key: str = ""
    """What opens a connection on its stdin and stdout."""
    process: Identity | None = None
    """Its first process, if it is on this machine."""

    @property
    def directory(self) -> RunDirectory:
        return RunDirectory(Path(self.run))

    def to_json(self) -> dict[str, Any]:
        value: dict[str, Any] = msgspec.to_builtins(self)
        return value

    @classmethod
    def of(cls, value: dict[str, Any]) -> ContainerHandle:
        return msgspec.convert(value, cls)
