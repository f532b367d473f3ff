"""What the Docker runtime remembers of a sandbox, as the store keeps it: plain JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec

from interpreter.runtimes.run_directory import RunDirectory


@dataclass(frozen=True)
class ContainerHandle:
    """All it takes to reach a container and to end it."""

    name: str
    run: str
    link: str
    container: str = ""
    """Its id; the name does until that is known."""
    key: str = ""
    """What opens a connection on its stdin and stdout."""
    pid: int | None = None
    """Its first process, if it is on this machine."""

    @property
    def directory(self) -> RunDirectory:
        return RunDirectory(Path(self.run))

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of(cls, value: dict[str, Any]) -> ContainerHandle:
        return msgspec.convert(value, cls)
