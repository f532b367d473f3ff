"""Taking turns: of the processes that work on archives only so many run at once, whoever asks for them.

Each may take half a gigabyte of memory and a processor, and lasts as long as a client takes to read what
it packs.
"""

from __future__ import annotations

import asyncio
from weakref import WeakKeyDictionary

MOST = 8
_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()


def turn() -> asyncio.Semaphore:
    """To be held as long as there is one, or two that copy together."""
    loop = asyncio.get_running_loop()
    if loop not in _turns:
        _turns[loop] = asyncio.Semaphore(MOST)
    return _turns[loop]
