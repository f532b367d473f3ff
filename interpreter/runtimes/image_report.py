"""What there is in an image, as `interpreter.sandbox.fit` found it from inside."""

from __future__ import annotations

from msgspec import Struct


class KernelSpec(Struct, frozen=True):
    """A kernel that the image has, and how it is started."""

    argv: list[str]
    env: dict[str, str] = {}


class Report(Struct, frozen=True):
    """What an image has; with problems it cannot be used."""

    problems: list[str]
    python: str
    python_version: str
    ipykernel: str | None
    kernelspecs: dict[str, KernelSpec]
    matplotlib_cache: str | None
