"""An SSH tunnel to a remote engine's socket: `ssh://` addresses become a local unix socket.

One `ssh` process serves every connection, uses the user's own SSH configuration and keys, and
is started again when the connection is lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

from interpreter.errors import ConfigurationError

REMOTE_SOCKET = "/var/run/docker.sock"
START_SECONDS = 30
RETRY_SECONDS = 1.0


class Tunnel:
    """A local socket that leads to a remote engine's."""

    def __init__(self, host: str, folder: str) -> None:
        self._host = host
        self._folder = folder
        self._process: asyncio.subprocess.Process | None = None
        self._keeper: asyncio.Task[None] | None = None

    @property
    def address(self) -> str:
        return f"unix://{self._folder}/docker.sock"

    @classmethod
    async def open(cls, host: str) -> Tunnel:
        """Returns when the tunnel is there. Raises ConfigurationError."""
        if shutil.which("ssh") is None:
            raise ConfigurationError(f"{host} needs the program ssh, which is not installed.")
        tunnel = cls(host, tempfile.mkdtemp(prefix="interpreter-ssh-"))
        try:
            await tunnel._start()
        except BaseException as e:
            await tunnel.close()
            if not isinstance(e, OSError):
                raise
            raise ConfigurationError(
                f"The Docker engine's machine cannot be reached by SSH at {host}: {e}",
                "'ssh' must get there by itself: with a key that needs no password, and a known host.",
            ) from None
        tunnel._keeper = asyncio.create_task(tunnel._keep())
        return tunnel

    async def _start(self) -> None:
        """Starts ssh, which says on its own stdout when the forwarding is set up."""
        Path(self._folder, "docker.sock").unlink(missing_ok=True)
        parts = urlsplit(self._host)
        remote = parts.path if parts.path not in ("", "/") else REMOTE_SOCKET
        user = ["-l", parts.username] if parts.username else []
        port = ["-p", str(parts.port)] if parts.port else []
        options = ["BatchMode=yes", "ExitOnForwardFailure=yes", "ServerAliveInterval=15"]
        self._process = await asyncio.create_subprocess_exec(
            "ssh",
            *(word for option in options for word in ("-o", option)),
            *user,
            *port,
            "-L",
            f"{self._folder}/docker.sock:{remote}",
            "--",
            parts.hostname or "",
            # Says that it is there, and ends when this end of its stdin is closed.
            "echo ready && exec cat >/dev/null",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        try:
            async with asyncio.timeout(START_SECONDS):
                if await self._process.stdout.readline() == b"ready\n":
                    return
                said = (await self._process.stderr.read(2000)).decode(errors="replace").split("\n")
        except TimeoutError:
            said = ["it takes too long"]
        await self._end()
        raise OSError(" ".join(line.strip() for line in said if line.strip())[-500:] or "ssh ended")

    async def _keep(self) -> None:
        while True:
            assert self._process is not None
            assert self._process.stderr is not None
            # It complains there of every connection while the engine is down, and must not block.
            while await self._process.stderr.read(4096):
                pass
            await self._process.wait()
            while True:
                try:
                    await self._start()
                    break
                except OSError:
                    await asyncio.sleep(RETRY_SECONDS)  # the network is not back yet

    async def _end(self) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()

    async def close(self) -> None:
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
        await self._end()
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)
