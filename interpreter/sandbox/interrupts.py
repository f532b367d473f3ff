"""Interrupts that hit the cell and nothing else.

ipykernel lets SIGINT raise KeyboardInterrupt anywhere while it handles a request. Where that is
between its own lines the request gets no reply, and where the request has not quite begun the
interrupt is lost. Here the signal raises only inside the cell's code; one that comes a moment too
early waits for the cell to begin, and one that comes too late is forgotten: the next cell has done
nothing. To tell late from early, the kernel host leaves the id of the cell that is meant in a file
before it sends the signal. A signal without that is from someone else, and meant for whatever runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Iterator
from typing import Any

from ipykernel.ipkernel import IPythonKernel
from ipykernel.zmqshell import ZMQInteractiveShell

EARLY_SECONDS = 2.0
"""How long an interrupt that names no cell waits for one; one that does waits for that cell."""

target_file = ""
"""Where the id of the cell that is to be interrupted is left; beside the connection file."""
_cell = ""
"""The id of the cell that was begun last."""
_in_cell = False
_early: tuple[float, str | None] | None = None
"""When an interrupt came too early, and for which cell."""
_over = False
"""Whether the cell that is being handled has ended, and only its reply is still to be sent."""


def _came_early() -> bool:
    """Whether an interrupt was sent for the cell that begins now."""
    global _early
    early, _early = _early, None
    if early is None:
        return False
    at, meant = early
    return meant == _cell or (meant is None and time.monotonic() - at < EARLY_SECONDS)


def _take_target() -> str | None:
    """The cell that the kernel host means; None when it was not the kernel host."""
    try:
        with open(target_file) as file:
            meant = file.read()
        os.unlink(target_file)
    except OSError:
        return None
    return meant


def on_sigint(number: int, frame: Any) -> None:
    global _early
    meant = _take_target()
    if meant not in (None, _cell):
        _early = time.monotonic(), meant  # for one that is still to begin, or will not come again
    elif _in_cell:
        raise KeyboardInterrupt
    elif not _over:
        _early = time.monotonic(), meant


def _end_of_cell() -> None:
    global _early, _over
    _over = True
    if _early is not None and _early[1] in (None, _cell):
        _early = None


def _end_of_request() -> None:
    global _over
    _over = False


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    global _in_cell
    _in_cell = True
    try:
        if _came_early():
            raise KeyboardInterrupt
        yield
    finally:
        _in_cell = False


class InterruptibleShell(ZMQInteractiveShell):
    """The shell whose cells are what an interrupt interrupts."""

    async def run_code(self, code_obj: Any, result: Any = None, *, async_: bool = False) -> Any:
        if async_:
            # An asynchronous cell is cancelled instead, see below.
            return await super().run_code(code_obj, result, async_=True)
        with _interruptible():
            return await super().run_code(code_obj, result)

    def init_events(self) -> None:
        super().init_events()
        trigger = self.events.trigger

        def trigger_interruptibly(event: str, *args: Any, **kwargs: Any) -> None:
            # Figures are drawn after the cell's code: that can take long, too.
            if event == "post_execute":
                with contextlib.suppress(KeyboardInterrupt), _interruptible():
                    trigger(event, *args, **kwargs)
            else:
                trigger(event, *args, **kwargs)
            if event == "post_run_cell":
                _end_of_cell()

        self.events.trigger = trigger_interruptibly  # type: ignore[method-assign]


class InterruptibleKernel(IPythonKernel):
    """The kernel that leaves SIGINT to this module."""

    shell_class = InterruptibleShell

    async def execute_request(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        global _cell
        _cell = parent["header"]["msg_id"]
        if not parent["content"].get("rehearsal"):
            await super().execute_request(stream, ident, parent)
            return
        # Everything is as with any other cell, but its result is not to be found in `_` or `Out`.
        hook: Any = self.shell.displayhook  # type: ignore[union-attr]
        kept, hook.cache_size = hook.cache_size, 0
        try:
            await super().execute_request(stream, ident, parent)
        finally:
            hook.cache_size = kept
            hook.shell.history_manager.outputs.clear()

    def pre_handler_hook(self) -> None:
        signal.signal(signal.SIGINT, on_sigint)

    def post_handler_hook(self) -> None:
        _end_of_request()

    @contextlib.contextmanager
    def _cancel_on_sigint(self, future: asyncio.Future[Any]) -> Iterator[None]:
        """Cancels an asynchronous cell at once; ipykernel's own way waits for the loop's next turn."""
        loop = asyncio.get_running_loop()
        before = signal.signal(signal.SIGINT, lambda *_: loop.call_soon_threadsafe(future.cancel))
        try:
            if _came_early():
                loop.call_soon(future.cancel)
            yield
        finally:
            signal.signal(signal.SIGINT, before)
