"""A real Docker engine for the tests: the one that runs here, or a private one for as long as they do.

A private engine keeps its data in the user's cache, so that images are built once on a machine.
There is no way around it: a missing engine is a failure, not a skipped test.
"""

from __future__ import annotations

import json
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
import pytest
from docker.errors import DockerException

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
DATA = CACHE / "interpreter-tests" / "docker"
REMAPPED_DATA = Path("/var/cache/interpreter-tests/docker-remapping")
"""Not in anybody's home: the users that it maps to have to get there."""
START_SECONDS = 60
FIRST_REMAPPED = 0x6F000000
"""Of the users that the remapping engine has; nobody else has them."""
GVISOR = ["--platform=systrap", "--network=none", "--host-uds=all"]


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
            _stop(process, folder)


def _answering() -> docker.APIClient | None:
    try:
        return docker.APIClient(os.environ.get("DOCKER_HOST"), version="auto", timeout=600)
    except DockerException:
        return None


def _start(folder: str, socket: str, data: Path = DATA, *more: str) -> subprocess.Popen[bytes]:
    daemon = shutil.which("dockerd")
    assert daemon, "The tests need a Docker engine: install one ('apt install docker.io')."
    command = [daemon, "--data-root", str(data), "--exec-root", f"{folder}/exec", *more]
    command += ["--pidfile", f"{folder}/pid", "--host", socket, "--config-file", f"{folder}/daemon.json"]
    runtimes = {"runsc": {"path": shutil.which("runsc"), "runtimeArgs": GVISOR}}
    Path(folder, "daemon.json").write_text(json.dumps({"runtimes": runtimes}))
    # Sandboxes have no network, and builds use the host's: a bridge would only be in the way.
    command += ["--bridge", "none", "--iptables=false", "--ip-forward=false"]
    with open(f"{folder}/log", "wb") as log:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )


def _stop(process: subprocess.Popen[bytes], folder: str) -> None:
    process.send_signal(signal.SIGTERM)
    process.wait(60)
    # An engine leaves the mount of its own network namespace behind.
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        if (place := line.split()[4]).startswith(folder + "/"):
            subprocess.run(["umount", "--lazy", place], check=False)


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
    before, named = everything(client), _fitted(client)
    yield client
    left = everything(client) - before
    _forget(client, named)
    client.close()
    assert left == set(), "the tests left something in the engine"


def everything(client: docker.APIClient) -> set[str]:
    """What there is in an engine besides images."""
    containers = {f"container {' '.join(c['Names'])}" for c in client.containers(all=True)}
    networks = {f"network {n['Name']}" for n in client.networks()}
    return containers | networks | {f"volume {v['Name']}" for v in client.volumes()["Volumes"] or ()}


def _fitted(client: docker.APIClient) -> dict[str, list[str]]:
    """The images that gateways have fitted, and the names that they gave them."""
    return {image["Id"]: image["RepoTags"] or [] for image in client.images("interpreter/fitted")}


def _forget(client: docker.APIClient, before: dict[str, list[str]]) -> None:
    """Takes back the names that the tests' gateways gave; of a new image one stays, for the next run."""
    for id, names in _fitted(client).items():
        for name in set(names[0 if before.get(id) else 1 :]) - set(before.get(id, ())):
            client.remove_image(name, noprune=True)


@contextmanager
def remapping(image: str) -> Iterator[docker.APIClient]:
    """A private engine that remaps users and has this image of the other engine, as `DOCKER_HOST`."""
    with (
        tempfile.TemporaryDirectory(prefix="engine-") as folder,
        docker.APIClient(os.environ.get("DOCKER_HOST"), version="auto", timeout=600) as other,
        pytest.MonkeyPatch.context() as patch,
    ):
        with _ids_for("daemon"):
            socket = f"unix://{folder}/docker.sock"
            process = _start(folder, socket, REMAPPED_DATA, "--userns-remap", "daemon")
            patch.setenv("DOCKER_HOST", socket)
            client = _wait_for(process, folder)
        try:
            if (
                not client.images(image)
                or client.inspect_image(image)["Id"] != other.inspect_image(image)["Id"]
            ):
                client.load_image(other.get_image(image))
            yield client
            assert everything(client) <= {f"network {name}" for name in ("host", "none")}
        finally:
            client.close()
            _stop(process, folder)
            for left in Path(folder).parent.glob(f"{Path(folder).name}.*"):
                shutil.rmtree(left)  # what such an engine makes beside the folder it was given


@contextmanager
def _ids_for(user: str) -> Iterator[None]:
    """Ids for a user to remap others to; an engine reads them when it starts."""
    files = [Path("/etc/subuid"), Path("/etc/subgid")]
    line = f"{user}:{FIRST_REMAPPED}:65536\n"
    for file in files:
        with file.open("a") as end:
            end.write(line)
    try:
        yield
    finally:
        for file in files:
            file.write_text(file.read_text().replace(line, "", 1))
