"""A real Docker engine for the tests: the one that runs here, or a private one for as long as they do.

A private engine keeps its data in the user's cache, so that images are built once on a machine.
There is no way around it: a missing engine is a failure, not a skipped test.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import docker
from docker.errors import DockerException

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
DATA = CACHE / "interpreter-tests" / "docker"
START_SECONDS = 60


@contextmanager
def running() -> Iterator[docker.APIClient]:
    """An engine that has the image; `DOCKER_HOST` leads to it meanwhile."""
    client = _answering()
    if client is not None:
        with _with_image(client):
            yield client
        return
    with tempfile.TemporaryDirectory(prefix="engine-") as folder:
        socket = f"unix://{folder}/docker.sock"
        before = os.environ.get("DOCKER_HOST")
        process = _start(folder, socket)
        try:
            os.environ["DOCKER_HOST"] = socket
            with _with_image(_wait_for(process, folder)) as client:
                yield client
        finally:
            if before is None:
                os.environ.pop("DOCKER_HOST", None)
            else:
                os.environ["DOCKER_HOST"] = before
            process.send_signal(signal.SIGTERM)
            process.wait(60)
            # An engine leaves the mount of its own network namespace behind.
            for line in Path("/proc/self/mountinfo").read_text().splitlines():
                if (place := line.split()[4]).startswith(folder + "/"):
                    subprocess.run(["umount", "--lazy", place], check=False)


def _answering() -> docker.APIClient | None:
    try:
        return docker.APIClient(os.environ.get("DOCKER_HOST"), version="auto", timeout=600)
    except DockerException:
        return None


def _start(folder: str, socket: str) -> subprocess.Popen[bytes]:
    daemon = shutil.which("dockerd")
    assert daemon, "The tests need a Docker engine: install one ('apt install docker.io')."
    command = [daemon, "--data-root", str(DATA), "--exec-root", f"{folder}/exec"]
    command += ["--pidfile", f"{folder}/pid", "--host", socket]
    # Sandboxes have no network, and builds use the host's: a bridge would only be in the way.
    command += ["--bridge", "none", "--iptables=false", "--ip-forward=false"]
    with open(f"{folder}/log", "wb") as log:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )


def _wait_for(process: subprocess.Popen[bytes], folder: str) -> docker.APIClient:
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        if client := _answering():
            return client
        time.sleep(0.1)
    raise AssertionError(f"no Docker engine: {Path(folder, 'log').read_text()[-3000:]}")


@contextmanager
def _with_image(client: docker.APIClient) -> Iterator[docker.APIClient]:
    # Always, for the recipe may have changed; what has not is in the engine's cache.
    subprocess.run([sys.executable, "-m", "interpreter.cli", "images", "build", "python"], check=True)
    before = everything(client)
    yield client
    left = everything(client) - before
    client.close()
    assert left == set(), "the tests left something in the engine"


def everything(client: docker.APIClient) -> set[str]:
    """What there is in an engine besides images."""
    containers = {f"container {' '.join(c['Names'])}" for c in client.containers(all=True)}
    networks = {f"network {n['Name']}" for n in client.networks()}
    return containers | networks | {f"volume {v['Name']}" for v in client.volumes()["Volumes"] or ()}
