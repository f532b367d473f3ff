"""The base image of a kernel image: a small system with Python.

'auto' takes `python:3.11-slim` if the engine has it or gets it from a registry. Without a
registry an engine may try for minutes, so it has a limited time to begin, and what was found out
is not tried again as long as the base made instead is there.
"""

from __future__ import annotations

import queue
import threading
import time
from typing import Any

from docker.errors import ImageNotFound

from interpreter.runtimes import debian_base
from interpreter.runtimes.base import Progress

AUTO, DEBIAN = "auto", "debian"
REPOSITORY, TAG = "python", "3.11-slim"
PYTHON = f"{REPOSITORY}:{TAG}"

ANSWER_SECONDS = 10.0
"""How long a registry may be silent before it is given up."""
PULL_SECONDS = 300.0


def choose(client: Any, wanted: str, progress: Progress) -> str:
    """The name of the image to build on. Makes or fetches it where that is left to us."""
    if wanted == DEBIAN:
        return debian_base.ensure(client, progress)
    if wanted != AUTO:
        return wanted
    if _is_there(client, PYTHON):
        return PYTHON
    if debian_base.is_there(client):
        return debian_base.IMAGE
    progress(f"fetching {PYTHON}")
    if pull(client, REPOSITORY, TAG, progress):
        return PYTHON
    progress(f"no registry has {PYTHON}; making one from Debian's packages")
    return debian_base.ensure(client, progress)


def pull(
    client: Any, repository: str, tag: str, progress: Progress, silence: float = ANSWER_SECONDS
) -> bool:
    """Fetches an image; False when it cannot be had, or not soon."""
    answers: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()

    def read() -> None:
        try:
            for answer in client.pull(repository, tag=tag, stream=True, decode=True):
                answers.put(answer)
        except Exception as e:
            answers.put({"error": str(e)})
        answers.put(None)

    # The request cannot be called off from here; one that is given up ends with this process.
    threading.Thread(target=read, daemon=True).start()
    end = time.monotonic() + PULL_SECONDS
    while time.monotonic() < end:
        try:
            answer = answers.get(timeout=silence)
        except queue.Empty:
            return False
        if answer is None:
            return _is_there(client, f"{repository}:{tag}")
        if "error" in answer:
            return False
        if answer.get("progress"):
            progress(f"fetching {repository}:{tag}: {answer['progress'].rpartition(']')[2].strip()}")
    return False


def _is_there(client: Any, image: str) -> bool:
    try:
        client.inspect_image(image)
    except ImageNotFound:
        return False
    return True
