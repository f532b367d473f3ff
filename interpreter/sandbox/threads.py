"""Threads print into the cell that started them.

ipykernel knows the cell from a context variable, and a new thread starts with none: what it
prints would land in whichever cell runs by then.
"""

from __future__ import annotations

import contextvars
import threading


def keep_context() -> None:
    """From now on a thread starts with a copy of the context that started it."""
    start = threading.Thread.start

    def start_in_context(self: threading.Thread) -> None:
        context, run = contextvars.copy_context(), self.run

        def run_in_context() -> None:
            self.__dict__.pop("run", None)
            context.run(run)

        self.__dict__["run"] = run_in_context
        start(self)

    threading.Thread.start = start_in_context  # type: ignore[method-assign]
