"""A trial: one container with all options of an environment, to see that and how it works."""

from __future__ import annotations

import asyncio
import secrets
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from docker.errors import DockerException

from interpreter.runtimes import bubblewrap
from interpreter.runtimes.container import Blueprint
from interpreter.runtimes.containers import START_SECONDS, Containers
from interpreter.runtimes.engine import explain
from interpreter.runtimes.run_directory import IN_CONTAINER, RunDirectory

UNREACHABLE = 7
KNOCK = ["-P", "-m", "interpreter.sandbox.knock", f"{IN_CONTAINER}/start", str(UNREACHABLE)]
NOTHING = ["-P", "-c", "pass"]

Plan = Callable[[str, Path, Path | None, list[str]], Blueprint]
"""From an id, a workspace, a folder for the hand-over and a Python command to a container."""


class Trial:
    """Runs containers that do nothing but show that they can be run and reached."""

    def __init__(self, containers: Containers, data: Path, uid: int, plan: Plan) -> None:
        self._containers = containers
        self._data = data
        self._uid = uid
        self._plan = plan

    async def run(self, link: str) -> str | None:
        """None if a sandbox can be made and reached this way, else why not."""
        folder = Path(await asyncio.to_thread(tempfile.mkdtemp, dir=self._data, prefix=".trial-"))
        try:
            await asyncio.to_thread(self._make_workspace, folder / "workspace")
            return await self._run(folder, link)
        except (DockerException, OSError, TimeoutError) as e:
            return explain(e) or "it took too long"
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    def _make_workspace(self, path: Path) -> None:
        path.mkdir()
        bubblewrap.give(path, self._uid)

    async def _run(self, folder: Path, link: str) -> str | None:
        id, run = f"trial-{secrets.token_hex(4)}", RunDirectory(folder / "run")
        run.create()
        with run.hand_over() as listener, run.listen() as handed:
            by_socket = link == "socket"
            command = KNOCK if by_socket else NOTHING
            shared = run.shared if by_socket else None
            made = await self._containers.create(self._plan(id, folder / "workspace", shared, command))
            try:
                async with asyncio.timeout(START_SECONDS):
                    code = await self._containers.start_and_hand_over(made, listener, handed)
            finally:
                await self._containers.remove(made)
        if code == UNREACHABLE:
            return "the gateway's socket cannot be reached from a container"
        if code is None or (code == 0 and not by_socket):
            return None
        return f"its Python ended with code {code}"
