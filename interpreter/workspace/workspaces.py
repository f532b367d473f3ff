"""Workspaces in a local directory: each a folder with the files of one session, or of a name.

Where the gateway may mount, each is a file system of its own with a size that the kernel holds the
session to; elsewhere it is a plain directory, and `disk_enforced_by` says 'nothing'.

What is in them was written by the sandbox and is untrusted: nothing here follows a link.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import subprocess
import threading
from collections.abc import Callable, Set
from pathlib import Path
from weakref import WeakValueDictionary

import structlog

from interpreter.errors import FilesUnreachable, SandboxFailed
from interpreter.models import Limits
from interpreter.runtimes.base import FilesElsewhere
from interpreter.workspace.allowance import Allowance, Arrivals
from interpreter.workspace.image import CommandFailed, Image, usable
from interpreter.workspace.removal import tidy
from interpreter.workspace.storage import EnforcedBy, Storage, Workspace
from interpreter.workspace.tree import Tree
from interpreter.workspace.watching.watch import Watched, Watcher

log = structlog.get_logger()

SUFFIX = ".img"
TIDYING_SECONDS = 5.0
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


class Workspaces(Storage):
    """Makes, measures and removes workspaces. `prepare` finds out whether they can be capped."""

    def __init__(self, root: Path, elsewhere: FilesElsewhere | None = None) -> None:
        self._root = root.absolute()
        self._elsewhere = elsewhere
        self.here = elsewhere is None
        self._watcher = Watcher()
        self.disk_enforced_by: EnforcedBy = "nothing"
        self.not_enforced_because: str | None = "it was not tried"
        self._locks: WeakValueDictionary[str, threading.Lock] = WeakValueDictionary()
        self._locking = threading.Lock()
        self._arrivals: WeakValueDictionary[str, Arrivals] = WeakValueDictionary()
        self._tidy: set[str] = set()
        """Those in which an earlier gateway has left nothing."""

    async def prepare(self) -> None:
        if self._elsewhere is not None:
            self.not_enforced_because = self._elsewhere.why
            return
        trial = self._root.with_name(".trial-workspace")
        self.not_enforced_because = await asyncio.to_thread(
            usable, Image(trial.with_name(trial.name + SUFFIX), trial)
        )
        self.disk_enforced_by = "nothing" if self.not_enforced_because else "filesystem"

    def describe(self) -> str:
        if self.disk_enforced_by == "nothing":
            return f"NOT LIMITED: {self._what()} ({self.not_enforced_because})"
        return "limited: each workspace is a file system of its own"

    def _what(self) -> str:
        return "workspaces are not here" if self._elsewhere else "workspaces are plain directories"

    def path(self, id: str) -> Path:
        return self._root / id

    async def create(self, id: str, megabytes: int) -> Workspace:
        making = asyncio.ensure_future(asyncio.to_thread(self._create, id, megabytes))
        try:
            return await asyncio.shield(making)
        except asyncio.CancelledError:
            # The thread cannot be stopped half-way; what it makes must not be left behind.
            with contextlib.suppress(SandboxFailed, OSError):
                await making
                await self.remove(id)
            raise

    def _create(self, id: str, megabytes: int) -> Workspace:
        try:
            if self.disk_enforced_by == "nothing":
                self.path(id).mkdir(mode=0o700, parents=True)
            else:
                self._image(id).make(megabytes)
        except CommandFailed as e:
            raise SandboxFailed(f"The session got no disk: {e}.") from e
        except OSError as e:
            if e.errno not in NO_ROOM:
                raise
            raise SandboxFailed(f"The session got no disk: {e.strerror}.") from e
        self._tidy.add(id)
        return Workspace(self.path(id), self.disk_enforced_by)

    async def open(self, id: str) -> Workspace:
        # After a reboot, and after a gateway's orderly end, those of ended sessions are not mounted.
        image = self._image(id)

        def mount() -> None:
            # A session can be started while somebody looks at its files: it is mounted once.
            with self._alone(id):
                if image.file.exists() and not image.mounted:
                    image.mount()
                self._tidy_up(id)

        try:
            await asyncio.to_thread(mount)
        except OSError as e:
            raise SandboxFailed(f"The session's disk cannot be used: {e}.") from e
        return Workspace(image.at, "filesystem" if image.exists else "nothing")

    def _tidy_up(self, id: str) -> None:
        if id in self._tidy or not self.here:
            return
        self._tidy.add(id)
        try:
            tidy(self.path(id), TIDYING_SECONDS)
        except FileNotFoundError:
            pass  # nobody has it any more
        except OSError as e:
            log.warning("a workspace is not tidy", workspace=id, reason=str(e))

    async def tree(self, id: str, limits: Limits) -> Tree:
        """The files of a workspace, whether a sandbox uses it or not; to be closed."""
        if self._elsewhere is not None:
            raise FilesUnreachable(f"The files of sessions are not here: {self._elsewhere.why}.")
        opened = await self.open(id)
        capped = opened.disk_enforced_by == "filesystem"
        arrivals = self._arrivals.get(id)
        if arrivals is None:
            arrivals = self._arrivals[id] = Arrivals()
        allowance = Allowance(opened.path, limits.file_mb, limits.disk_mb, capped, arrivals)
        return await asyncio.to_thread(Tree, opened.path, allowance)

    async def watch(self, id: str) -> Watched | None:
        """Begins to watch what changes in a workspace that is open; None when that cannot be."""
        return None if self._elsewhere is not None else await self._watcher.watch(self.path(id))

    async def rest(self, id: str) -> int | None:
        used = await self.used(id)
        await asyncio.to_thread(self._unmount, id)
        return used

    def _unmount(self, id: str) -> None:
        try:
            self._image(id).unmount()
        except OSError as e:
            log.error("a workspace could not be unmounted", workspace=id, reason=str(e))

    async def used(self, id: str) -> int | None:
        if not self.here:
            return None
        image = self._image(id)

        def measure() -> int | None:
            if image.mounted:
                return image.used()
            return None if image.exists else _size(image.at)

        try:
            return await asyncio.to_thread(measure)
        except OSError:  # it is removed just now
            return None

    async def grow(self, id: str, megabytes: int) -> bool:
        return await asyncio.to_thread(self._grow, id, megabytes)

    def _grow(self, id: str, megabytes: int) -> bool:
        image = self._image(id)
        try:
            with self._alone(id):
                return not image.exists or image.grow(megabytes)
        except OSError as e:
            log.error("a workspace could not grow", workspace=image.at.name, reason=str(e))
            return False

    async def remove(self, id: str) -> int:
        # Of files elsewhere it is not known how many bytes they had.
        if self._elsewhere is not None:
            await self._elsewhere.remove(id)
        return await asyncio.to_thread(self._remove, id)

    def _remove(self, id: str) -> int:
        image = self._image(id)
        self._tidy.discard(id)
        try:
            if not image.exists:
                return _remove_directory(image.at)
            with self._alone(id):
                size = image.used()
                image.remove()
        except OSError as e:
            log.error("a workspace could not be removed", workspace=id, reason=str(e))
            return 0
        return size

    async def sweep(self, known: Callable[[str], bool]) -> None:
        def remove(id: str) -> None:
            # Asked only now: it may have been made since the sweep began.
            if not known(id):
                self._remove(id)

        await self._each(remove, besides=frozenset())
        if self._elsewhere is not None:
            for id in await self._elsewhere.ids():
                if not known(id):
                    await self._elsewhere.remove(id)

    async def close(self, in_use: Set[str]) -> None:
        await self._each(self._unmount, besides=in_use)
        self._watcher.close()

    async def _each(self, do: Callable[[str], object], besides: Set[str]) -> None:
        def do_each() -> None:
            names = [path.name for path in self._root.iterdir()] if self._root.is_dir() else []
            for id in {name.removesuffix(SUFFIX) for name in names} - besides:
                do(id)

        await asyncio.to_thread(do_each)

    def _alone(self, id: str) -> threading.Lock:
        """To be held by whoever mounts a workspace, changes its size or removes it."""
        with self._locking:
            lock = self._locks.get(id)
            if lock is None:
                lock = self._locks[id] = threading.Lock()
            return lock

    def _image(self, id: str) -> Image:
        return Image(self._root / (id + SUFFIX), self.path(id))


def _size(path: Path) -> int:
    # Python's own tree walks recurse; a sandbox can make a tree too deep for them.
    measured = subprocess.run(
        ["du", "--summarize", "--bytes", "--", path], capture_output=True, text=True
    )
    size = int(measured.stdout.split("\t")[0]) if measured.returncode == 0 else 0
    return max(0, size - path.stat().st_size) if size else 0


def _remove_directory(path: Path) -> int:
    if not path.exists():
        return 0
    size = _size(path)
    subprocess.run(["rm", "--recursive", "--force", "--one-file-system", "--", path], check=False)
    return size
