"""Where sandboxes run: one contract (`base`), and the places that keep it."""

from __future__ import annotations

from interpreter.config import Config
from interpreter.runtimes.base import Runtime
from interpreter.runtimes.embedded import EmbeddedRuntime

__all__ = ["EmbeddedRuntime", "Runtime", "choose"]


def choose(config: Config) -> Runtime:
    """The runtime that the settings ask for; 'auto' is the best one this machine has."""
    return EmbeddedRuntime(config)
