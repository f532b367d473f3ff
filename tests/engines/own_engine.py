"""An engine of a test's own, to be hidden, stalled, killed and started again.

It runs in a network namespace of its own, so that it takes nothing away from an engine that runs
here. A folder can be hidden from it, in mount and process namespaces of its own: then it is an engine
elsewhere, as far as files and process numbers are concerned. Its data is kept in the user's cache.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import docker
from docker.errors import DockerException

from tests.engine import CACHE
from tests.mounts import mounts_of

DATA = CACHE / "interpreter-tests" / "docker-own"
IMAGE = "interpreter/python:latest"
START_SECONDS = 60
SCRIPT = """
[ -z "$HIDDEN" ] || mount -t tmpfs hidden "$HIDDEN" || exit 1
unset HIDDEN
[ -z "$LISTEN_FDS" ] || export LISTEN_PID=$$
exec 3<&0 </dev/null "$@"
"""


class OwnEngine:
    """A Docker engine as a process that the test may do anything to."""

    def __init__(
        self, *flags: str, hidden: Path | None = None, tcp: socket.socket | None = None
    ) -> None:
        self.flags = flags
        self._hidden = hidden
        self._tcp = tcp
        self.folder = Path(tempfile.mkdtemp(prefix="own-engine-"))
        self.socket = self.folder / "docker.sock"
        self.host = f"unix://{self.socket}"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> OwnEngine:
        daemon = shutil.which("dockerd", path=os.environ["PATH"] + ":/usr/sbin:/sbin")
        assert daemon, "The tests need a Docker engine: install one ('apt install docker.io')."
        command = [daemon, "--data-root", str(DATA), "--exec-root", str(self.folder / "exec")]
        command += ["--pidfile", str(self.folder / "pid"), "--host", self.host, *self.flags]
        command += ["--bridge", "none", "--iptables=false", "--ip-forward=false"]
        environment = {**os.environ, "HIDDEN": str(self._hidden or ""), "LISTEN_FDS": ""}
        if self._tcp is not None:
            # A listening socket of this network namespace, handed over as systemd does it.
            command += ["--host", "fd://"]
            environment["LISTEN_FDS"] = "1"
        # In a mount namespace of its own it would not see workspaces that are mounted later.
        elsewhere = ["--mount", "--pid", "--fork", "--mount-proc"] if self._hidden else []
        # A killed engine's containerd died with it; where nobody reaps it, it still seems to be there.
        for stale in (self.folder / "pid", self.folder / "exec/containerd/containerd.pid"):
            stale.unlink(missing_ok=True)
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                ["unshare", "--net", *elsewhere, "sh", "-c", SCRIPT, "engine", *command],
                env=environment,
                stdin=self._tcp or subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + START_SECONDS
        while self.process.poll() is None and time.monotonic() < deadline:
            try:
                self.client().close()
                return self
            except DockerException:
                time.sleep(0.05)
        raise AssertionError(f"no engine: {(self.folder / 'log').read_text()[-3000:]}")

    def client(self) -> docker.APIClient:
        return docker.APIClient(self.host, version="auto", timeout=120)

    def have_image_of(self, engine: docker.APIClient) -> None:
        """Copies the image from another engine, unless it is here already."""
        with_image = engine.inspect_image(IMAGE)
        client = self.client()
        try:
            if with_image["Id"] not in {image["Id"] for image in client.images()}:
                for _ in client.load_image(engine.get_image(IMAGE)):
                    pass
            client.tag(with_image["Id"], *IMAGE.split(":"))
        finally:
            client.close()

    @property
    def _pid(self) -> int:
        """Of the engine itself: in a process namespace of its own it is somebody's child."""
        assert self.process is not None
        pid = self.process.pid
        return int(Path(f"/proc/{pid}/task/{pid}/children").read_text()) if self._hidden else pid

    def stall(self) -> None:
        os.kill(self._pid, signal.SIGSTOP)

    def go_on(self) -> None:
        os.kill(self._pid, signal.SIGCONT)

    def kill(self) -> None:
        """As nobody would who means well; its containerd ends with it, its containers do not."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        """Ends it in order. What the tests left in it was their fault, and is removed."""
        assert self.process is not None
        if self.process.poll() is not None:
            self.start()
        self.go_on()
        client = self.client()
        left = [f"container {c['Names']}" for c in client.containers(all=True)]
        left += [f"volume {v['Name']}" for v in client.volumes()["Volumes"] or ()]
        for one in client.containers(all=True):
            client.remove_container(one["Id"], force=True)
        for volume in client.volumes()["Volumes"] or ():
            client.remove_volume(volume["Name"], force=True)
        client.close()
        os.kill(self._pid, signal.SIGTERM)
        self.process.wait(60)
        # An engine leaves the mount of its own network namespace behind, a killed one several.
        for place in reversed(mounts_of(self.folder)):
            subprocess.run(["umount", "--lazy", place], check=False)
        shutil.rmtree(self.folder, ignore_errors=True)
        assert left == [], "the tests left something in their engine"
