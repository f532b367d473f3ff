"""What the embedded runtime remembers of a sandbox, as the store keeps it: plain JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from interpreter.runtimes.process import Identity
from interpreter.runtimes.run_directory import RunDirectory


class GroupHandle(Struct, frozen=True, kw_only=True):
    """The control group: which version of the interface, and where."""

    version: int
    directories: dict[str, str]


class Handle(Struct, frozen=True, kw_only=True):
    """All it takes to reach a sandbox and to end it."""

    run: str
    group: GroupHandle | None = None
    scratch: str | None = None
    """Scratch space outside of the run directory, to be removed with it."""
    process: Identity | None = None
    """The keeper; None when it had ended before it could be identified."""

    @property
    def marker(self) -> str:
        """The variable in the environment of all that the keeper starts."""
        return f"INTERPRETER_SANDBOX={Path(self.run).name}"

    @property
    def directory(self) -> RunDirectory:
        return RunDirectory(Path(self.run))

    def to_json(self) -> dict[str, Any]:
        value: dict[str, Any] = msgspec.to_builtins(self)
        return value

    @classmethod
    def of(cls, value: dict[str, Any]) -> Handle:
        return msgspec.convert(value, cls)
