"""A real SSH server on loopback for one user with a key, and an `ssh` that knows it.

`ssh` reads its configuration from the home of whoever runs it. So that the tests leave that
alone, the gateway's `ssh` is a script that runs the real one with the test's configuration.
"""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

SEPARATED = Path("/run/sshd")
"""A folder that the server insists on; its package makes it only when the system starts it."""


class SshServer:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        for name in ("host", "user"):
            words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name]
            subprocess.run(words, check=True)
        (folder / "authorized").write_bytes((folder / "user.pub").read_bytes())
        known = (folder / "host.pub").read_text()
        (folder / "known").write_text(f"[127.0.0.1]:{self.port} {known}")
        (folder / "sshd_config").write_text(
            f"ListenAddress 127.0.0.1:{self.port}\nHostKey {folder}/host\nPidFile none\n"
            f"AuthorizedKeysFile {folder}/authorized\nStrictModes no\nUsePAM no\n"
            "PasswordAuthentication no\nPermitRootLogin prohibit-password\n"
        )
        (folder / "ssh_config").write_text(
            f"IdentityFile {folder}/user\nIdentitiesOnly yes\nUserKnownHostsFile {folder}/known\n"
            "GlobalKnownHostsFile /dev/null\nStrictHostKeyChecking yes\nIdentityAgent none\n"
        )
        (folder / "bin").mkdir()
        script = folder / "bin" / "ssh"
        script.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {folder}/ssh_config "$@"\n')
        script.chmod(0o755)
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def path(self) -> str:
        """A `PATH` on which `ssh` is the one that knows this server."""
        return f"{self.folder / 'bin'}:{os.environ['PATH']}"

    def address(self, remote: Path) -> str:
        return f"ssh://{getpass.getuser()}@127.0.0.1:{self.port}{remote}"

    def start(self) -> None:
        server = shutil.which("sshd", path=os.environ["PATH"] + ":/usr/sbin:/sbin")
        assert server, "The tests need an SSH server: install one ('apt install openssh-server')."
        self._made = not SEPARATED.exists()
        SEPARATED.mkdir(exist_ok=True)
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [server, "-D", "-e", "-f", self.folder / "sshd_config"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            except OSError:
                time.sleep(0.02)
        raise AssertionError(f"no SSH server: {(self.folder / 'log').read_text()}")

    def drop_connections(self) -> None:
        """Ends the processes that serve a connection, as a network does that fails."""
        assert self.process is not None
        found = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        assert found, "there is no connection to drop"
        for pid in found:
            os.kill(int(pid), 9)

    def stop(self) -> None:
        assert self.process is not None
        self.process.terminate()
        self.process.wait(20)
        if self._made:
            SEPARATED.rmdir()
