"""Tries what a sandbox needs, and says by its exit code what it has not got.

The runtime runs this in a trial container before it relies on it. It is told a file that is to be
there, where something can be written, and a socket to take over; and a code for each. A socket that
can be taken over is not enough: under gVisor that works, and still nobody comes in by it.
"""

from __future__ import annotations

import os
import sys

from interpreter.sandbox.doors import take_over

ANSWER_SECONDS = 10


def answer(path: str) -> None:
    """Takes over the socket at `path` and answers the first that comes in by it."""
    with take_over(path) as listener:
        listener.settimeout(ANSWER_SECONDS)
        visitor, _ = listener.accept()
        with visitor:
            visitor.settimeout(ANSWER_SECONDS)
            visitor.sendall(visitor.recv(1))


if __name__ == "__main__":
    marker, not_shared, folder, not_writable, socket, unreachable = sys.argv[1:]
    if marker and not os.path.exists(marker):
        sys.exit(int(not_shared))
    try:
        trial = os.path.join(folder, ".trial")
        os.mkdir(trial)
        os.rmdir(trial)
    except OSError:
        sys.exit(int(not_writable))
    try:
        if socket:
            answer(socket)
    except OSError:
        sys.exit(int(unreachable))
