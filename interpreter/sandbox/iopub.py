"""The thread that sends what a kernel shows, and what becomes of it when something goes wrong there.

Everything that is shown goes through one queue of one thread. ipykernel works the queue off until
something in it raises: the rest stays where it is, the socket that announces more is not listened to
any more, and whatever prints from then on waits for ever. Here what raises is reported, and the rest
is sent.
"""

from __future__ import annotations

import os
import traceback
from typing import Any

from ipykernel.iostream import IOPubThread


def outlive_errors(thread: IOPubThread, stderr: int) -> None:
    """From now on nothing that is scheduled keeps what comes after it from being sent."""

    def work_off(message: Any) -> None:
        for _ in range(len(thread._events)):
            event = thread._events.popleft()
            try:
                event()
            except Exception:
                os.write(stderr, traceback.format_exc().encode(errors="replace"))

    thread._event_puller.on_recv(work_off)
