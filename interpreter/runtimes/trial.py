"""A trial: one container with all options of an environment, to see that and how it works."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from docker.errors import DockerException

from interpreter.runtimes import bubblewrap
from interpreter.runtimes.base import FilesElsewhere
from interpreter.runtimes.container import Blueprint
from interpreter.runtimes.containers import START_SECONDS, Containers
from interpreter.runtimes.engine import explain
from interpreter.runtimes.run_directory import IN_CONTAINER, RunDirectory

UNREACHABLE, NOT_SHARED, NOT_WRITABLE = 7, 8, 9
PROBLEMS = {
    UNREACHABLE: "the gateway's socket cannot be reached from a container",
    NOT_SHARED: "the engine does not see the gateway's files",
    NOT_WRITABLE: "nothing can be written to its workspace",
}
WORKSPACE = "workspace"
MARKER = "written-by-the-gateway"


@dataclass(frozen=True)
class Way:
    """How a sandbox is reached, and where its workspace is."""

    link: str
    """'socket' or 'attach'."""
    in_volume: bool
    follows: bool = False
    """Whether what is mounted over its workspace later is seen inside."""


WAYS = (
    Way("socket", False, follows=True),
    Way("socket", False),
    Way("attach", False, follows=True),
    Way("attach", False),
    Way("attach", True),
)
"""The best first: with a folder, files need not go through the engine, and have a size."""

Plan = Callable[[str, Path, Path | None, list[str], Way], Blueprint]
"""From an id, a workspace, a folder for the hand-over, a Python command and the way that is tried, to
a container."""


class Trial:
    """Runs containers that do nothing but show that they can be run, reached and written to."""

    def __init__(
        self, containers: Containers, volumes: FilesElsewhere, data: Path, uid: int, plan: Plan
    ) -> None:
        self._containers = containers
        self._volumes = volumes
        self._data = data
        self._uid = uid
        self._plan = plan

    async def run(self, way: Way) -> str | None:
        """None if a sandbox can be made and used this way, else why not."""
        folder = Path(await asyncio.to_thread(tempfile.mkdtemp, dir=self._data, prefix=".trial-"))
        try:
            await asyncio.to_thread(self._make_workspace, folder / WORKSPACE)
            if way.follows and not os.path.ismount(folder / WORKSPACE):
                return "workspaces cannot be mounted"
            return await self._run(folder, way)
        except (DockerException, OSError, TimeoutError) as e:
            return explain(e) or "it took too long"
        finally:
            await asyncio.to_thread(remove, folder)

    def _make_workspace(self, path: Path) -> None:
        path.mkdir()
        # Workspaces are mounted where that is possible. An engine may see folders, but not that.
        with contextlib.suppress(OSError):
            subprocess.run(["mount", "--make-shared", "-t", "tmpfs", "trial", path], capture_output=True)
        (path / MARKER).touch()
        bubblewrap.give(path, self._uid)

    async def _run(self, folder: Path, way: Way) -> str | None:
        id, run = f"trial-{secrets.token_hex(4)}", RunDirectory(folder / "run")
        run.create()
        by_socket = way.link == "socket"
        with run.hand_over() as listener, run.listen() as handed:
            plan = self._plan(
                id, folder / WORKSPACE, run.shared if by_socket else None, _knock(way), way
            )
            made = await self._containers.create(plan)
            try:
                async with asyncio.timeout(START_SECONDS):
                    code = await self._containers.start_and_hand_over(made, listener, handed)
                    if code is None:
                        with run.connect() as visitor:
                            visitor.send(b"?")
                            code = await self._containers.exit_code(made)
            finally:
                await self._containers.remove(made)
                if way.in_volume:
                    await self._volumes.remove(WORKSPACE)
        if code == 0:
            return None
        return PROBLEMS.get(code, f"its Python ended with code {code}")


def remove(folder: Path) -> None:
    """What there is of a trial, also of one whose gateway was killed meanwhile."""
    with contextlib.suppress(OSError):
        subprocess.run(["umount", "--lazy", folder / WORKSPACE], capture_output=True)
    shutil.rmtree(folder, ignore_errors=True)


def _knock(way: Way) -> list[str]:
    """The Python command that tries it from inside."""
    marker = "" if way.in_volume else f"/workspace/{MARKER}"
    socket = f"{IN_CONTAINER}/start" if way.link == "socket" else ""
    told = [marker, str(NOT_SHARED), "/workspace", str(NOT_WRITABLE), socket, str(UNREACHABLE)]
    return ["-P", "-m", "interpreter.sandbox.knock", *told]
