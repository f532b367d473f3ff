"""Who listens to the kernels of a session, besides the session itself.

A tap is told every message of a context's kernel as it comes, after the session has taken it in, and
what the kernel cannot say itself: that it is being replaced, or is gone. It must not wait for anything.
It outlives the context's kernels and the session's sandboxes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol

import structlog

from interpreter.kernel.messages import KernelMessage

log = structlog.get_logger()

KernelState = Literal["restarting", "dead"]


class Tap(Protocol):
    """Listens to the kernel of one context."""

    def on_message(self, message: KernelMessage) -> None: ...
    def on_state(self, state: KernelState) -> None: ...


class Taps:
    """All taps of one session."""

    def __init__(self) -> None:
        self._taps: dict[str, list[Tap]] = {}

    def add(self, context: str, tap: Tap) -> None:
        self._taps.setdefault(context, []).append(tap)

    def remove(self, context: str, tap: Tap) -> None:
        self._taps[context].remove(tap)

    def message(self, context: str, message: KernelMessage) -> None:
        for tap in self._taps.get(context, ()):
            self._tell(lambda tap=tap: tap.on_message(message))  # type: ignore[misc]

    def state(self, context: str, state: KernelState) -> None:
        for tap in self._taps.get(context, ()):
            self._tell(lambda tap=tap: tap.on_state(state))  # type: ignore[misc]

    def _tell(self, tell: Callable[[], None]) -> None:
        """What goes wrong with a listener is no reason to end a sandbox."""
        try:
            tell()
        except Exception:
            log.exception("a tap failed")
