"""Work in a thread that is not left behind half-done."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def finished(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Does it in a thread. A caller that is cancelled meanwhile leaves when the thread is done: what
    comes next may undo what the thread does."""
    working = asyncio.ensure_future(asyncio.to_thread(work, *args, **kwargs))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        with contextlib.suppress(Exception):
            await working
        raise
