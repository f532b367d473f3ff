"""The input folders of sandboxes: what each sees, read-only, at `/data/input`.

Every sandbox has an empty one mounted when it is started, also a spare. A dataset is attached by
making links in it to the dataset's files: at once, without mounting anything, and nothing is
stored twice. The sandbox sees its folder through a read-only mount and cannot change, replace or
link what is in it.

    inputs/S/        the folder of the sandbox S
    inputs/S.json    which version of which dataset is in it

A folder goes with its sandbox. A session that is started again has its inputs made anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import secrets
import shutil
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from weakref import WeakValueDictionary

import msgspec

from interpreter.errors import DatasetNotFound, DatasetsFull, InputsUnavailable
from interpreter.workspace.datasets import FOLDER_MODE, NO_ROOM, Datasets
from interpreter.workspace.finishing import finished
from interpreter.workspace.room import MEGABYTE, check_disk
from interpreter.workspace.upload import FILE_MODE

NOT_LINKED = (errno.EXDEV, errno.EMLINK, errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS)
"""Another file system, too many links of one file, or a file system without them: it is copied."""


class InputFolders:
    """Makes, fills and removes them."""

    def __init__(self, root: Path, datasets: Datasets, unavailable: str | None) -> None:
        self.unavailable = unavailable
        """Why sandboxes cannot have any, for people; None where they can."""
        self._root = root.absolute()
        self._datasets = datasets
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._copying = threading.Lock()
        self._copied: int | None = None
        """The bytes of all copies; None when they have to be counted."""

    def check(self) -> None:
        if self.unavailable is not None:
            raise InputsUnavailable(f"Sessions cannot be given inputs here: {self.unavailable}.")

    def path(self, id: str) -> Path:
        return self._root / id

    async def create(self, id: str) -> Path | None:
        """An empty one, to be mounted into a sandbox; None where that cannot be."""
        if self.unavailable is not None:
            return None
        await finished(self._create, id)
        return self.path(id)

    def _create(self, id: str) -> None:
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._remove(id)  # what is left of a start that was cut short
        self.path(id).mkdir()
        self.path(id).chmod(FOLDER_MODE)

    async def settle(self, id: str, wanted: Mapping[str, str]) -> None:
        """Has the folder of a sandbox hold these versions and nothing else.

        Raises FileNotFoundError if there is no such folder.
        """
        if not wanted and self.unavailable is not None:
            return
        self.check()
        lock = self._locks.setdefault(id, asyncio.Lock())
        async with lock:
            try:
                await finished(self._settle, id, dict(wanted))
            except OSError as e:
                if e.errno not in NO_ROOM:
                    raise
                raise DatasetsFull("There is no space left on the disk for the inputs.") from e

    def _settle(self, id: str, wanted: dict[str, str]) -> None:
        folder = self.path(id)
        if not folder.is_dir():
            raise FileNotFoundError(f"{id} has no folder for inputs")
        there = {path.name for path in folder.iterdir()}
        has = self._read_note(id)
        self._copied = None  # some may have been removed
        for name in there - wanted.keys():
            self._take_out(folder / name)
        changed = [n for n, v in wanted.items() if n not in there or has.get(n) != v]
        for name in changed:
            staged = self._root / f".{id}.{secrets.token_hex(4)}"
            try:
                try:
                    _link(self._datasets.path(wanted[name]), staged, self._copy)
                except FileNotFoundError:
                    raise DatasetNotFound(f"The files of the dataset '{name}' are gone.") from None
                if name in there:
                    self._take_out(folder / name)
                staged.rename(folder / name)
            finally:
                shutil.rmtree(staged, ignore_errors=True)
        if changed or there - wanted.keys() or has != wanted:
            self._write_note(id, wanted)

    def _copy(self, source: str, target: Path) -> None:
        """A file that cannot be linked to takes room of its own, which counts as that of datasets."""
        size = os.stat(source).st_size
        with self._copying:  # by one after another: what one has taken the next one finds
            room = self._datasets.room
            copied = _copied(self._root) if self._copied is None else self._copied
            if room.taken + copied + size > room.limit:
                raise DatasetsFull(
                    f"All datasets together may have {room.limit // MEGABYTE:,} MB, with copies of them."
                )
            check_disk(self._root, size)
            shutil.copyfile(source, target, follow_symlinks=False)
            self._copied = copied + size
        target.chmod(FILE_MODE)

    def _take_out(self, path: Path) -> None:
        """At once, though removing it may take a while."""
        aside = self._root / f".{path.parent.name}.{secrets.token_hex(4)}"
        path.rename(aside)
        shutil.rmtree(aside, ignore_errors=True)

    def _read_note(self, id: str) -> dict[str, str]:
        try:
            return msgspec.json.decode(self._note(id).read_bytes(), type=dict[str, str])
        except (OSError, msgspec.DecodeError):
            return {}

    def _write_note(self, id: str, has: dict[str, str]) -> None:
        made = self._root / f".{id}.note"
        made.write_bytes(msgspec.json.encode(has))
        made.replace(self._note(id))

    def _note(self, id: str) -> Path:
        return self._root / f"{id}.json"

    async def remove(self, id: str) -> None:
        """Called when a sandbox has ended; one that is not there is fine."""
        lock = self._locks.setdefault(id, asyncio.Lock())
        async with lock:
            await finished(self._remove, id)

    def _remove(self, id: str) -> None:
        self._note(id).unlink(missing_ok=True)
        shutil.rmtree(self.path(id), ignore_errors=True)

    async def sweep(self, known: Callable[[str], bool]) -> None:
        """Called at start and every few minutes: removes what belongs to no sandbox any more."""

        def leftovers() -> set[str]:
            names = [path.name for path in self._root.iterdir()] if self._root.is_dir() else []
            return {name.lstrip(".").partition(".")[0] for name in names}

        for id in await asyncio.to_thread(leftovers):
            # Asked only now: it may have been made since the sweep began.
            if not known(id):
                await self.remove(id)
                await finished(self._remove_staged, id)

    def _remove_staged(self, id: str) -> None:
        for path in self._root.glob(f".{id}.*"):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def _link(source: Path, target: Path, copy: Callable[[str, Path], None]) -> None:
    """Makes a tree of links to the files of another, which nobody else changes."""
    waiting = [(source, target)]
    while waiting:
        here, there = waiting.pop()
        there.mkdir()
        there.chmod(FOLDER_MODE)
        with os.scandir(here) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append((Path(entry.path), there / entry.name))
                else:
                    try:
                        os.link(entry.path, there / entry.name, follow_symlinks=False)
                    except OSError as e:
                        if e.errno not in NOT_LINKED:
                            raise
                        copy(entry.path, there / entry.name)


def _copied(root: Path) -> int:
    """The bytes of those files in all folders that are not links to anything."""
    size, waiting = 0, [os.fspath(root)]
    while waiting:
        with contextlib.suppress(FileNotFoundError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                    continue
                about = entry.stat(follow_symlinks=False)
                size += about.st_size if about.st_nlink == 1 else 0
    return size
