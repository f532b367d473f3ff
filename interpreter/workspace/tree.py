"""The files of one workspace, for somebody outside of it.

Nothing that is in the workspace can lead out of it, whatever a cell does at the same moment: see
`beneath`. Links that stay in it are followed on reading. On writing, deleting and moving the last
name of a path is taken as it is, link or not.

All calls block. Whatever goes wrong is an error of the API.
"""

from __future__ import annotations

import bisect
import errno
import heapq
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from interpreter.errors import FileConflict, InvalidPath
from interpreter.models.files import Directory, FileEntry
from interpreter.workspace import about, archive, beneath, paths
from interpreter.workspace.allowance import Allowance, Budget
from interpreter.workspace.archive import Archive, Format
from interpreter.workspace.copying import copy_tree
from interpreter.workspace.incoming import Condition, Incoming, Owner, there
from interpreter.workspace.reasons import explained
from interpreter.workspace.removal import remove_tree
from interpreter.workspace.walk import check_size

MOST_LISTED = 10_000


class OpenFile:
    """A regular file that is open for reading, and what it was when it was opened."""

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self.descriptor = descriptor
        self.about = os.fstat(descriptor)

    @property
    def size(self) -> int:
        return self.about.st_size

    @property
    def etag(self) -> str:
        return about.etag(self.about)

    def entry(self) -> FileEntry:
        return about.entry(self.path, self.about)

    def close(self) -> None:
        os.close(self.descriptor)


class Tree:
    """A workspace. Paths are what `paths.checked` returns."""

    def __init__(self, root: Path, allowance: Allowance) -> None:
        with explained(""):
            self._root = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        self._allowance = allowance

    def close(self) -> None:
        os.close(self._root)

    def __enter__(self) -> Tree:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- reading

    def read(self, path: str) -> OpenFile | Directory:
        """A file to read, or what is in a directory."""
        with explained(path), self._found(path) as found:
            mode = os.fstat(found).st_mode
            if stat.S_ISDIR(mode):
                return self._list(path, found)
            return OpenFile(path, self._readable(path, found))

    def list(self, path: str) -> Directory:
        with explained(path), self._found(path, directory=True) as found:
            return self._list(path, found)

    def has(self, path: str) -> bool:
        """Whether anything has this name in its directory, which is there."""
        directory, name = paths.split(path)
        with explained(path), self._found(directory, directory=True) as parent:
            return there(parent, name) is not None

    def archive(self, path: str, format: Format) -> Archive:
        """A directory or a file as an archive, to be closed."""
        name = paths.split(path)[1]
        with explained(path), self._found(path) as found:
            if not stat.S_ISDIR(os.fstat(found).st_mode):
                return Archive(self._readable(path, found), name, format)
            archive.check(found, name, format)
            return Archive(os.dup(found), name, format)

    @contextmanager
    def _found(self, path: str, *, directory: bool = False) -> Iterator[int]:
        found = beneath.find(self._root, path, directory=directory)
        try:
            yield found
        finally:
            os.close(found)

    def _readable(self, path: str, found: int) -> int:
        if not stat.S_ISREG(os.fstat(found).st_mode):
            raise FileConflict(
                f"'{paths.shown(path)}' is neither a file nor a directory.",
                "Devices, pipes and sockets are not opened.",
            )
        return beneath.readable(found)

    def _list(self, path: str, found: int) -> Directory:
        directory = beneath.listable(found)
        try:
            with os.scandir(directory) as entries:
                names = (e.name for e in entries if not paths.is_temporary(e.name))
                first = heapq.nsmallest(MOST_LISTED + 1, names, key=os.fsencode)
            listed = []
            for name in first[:MOST_LISTED]:
                try:
                    now = os.stat(name, dir_fd=directory, follow_symlinks=False)
                except OSError:
                    continue  # it is gone by now
                listed.append(about.entry(paths.joined(path, name), now))
        finally:
            os.close(directory)
        return Directory(path=path, entries=listed, more=len(first) > MOST_LISTED)

    # -- writing

    def budget(self, coming: int = 0) -> Budget:
        """For all files of a request, whose size together is `coming` if that is known."""
        return Budget(self._allowance, coming)

    def receive(self, path: str, budget: Budget) -> Incoming:
        """The beginning of a file that is to be stored at this path."""
        self._check_not_top(path)
        self._check_place(path)
        return Incoming(self._root, budget, path)

    def store(
        self, incoming: Incoming, condition: Condition | None = None, *, new: bool = False
    ) -> tuple[FileEntry, str, bool]:
        """Puts a file that is complete in its place: its entry, its ETag, whether it is new there."""
        directory, name = paths.split(incoming.path)
        with explained(incoming.path), self._directory(directory) as parent:
            created = incoming.place(parent, name, condition, new=new)
            return *incoming.entry(), created

    def make_directory(self, path: str) -> tuple[FileEntry, bool]:
        """Makes a directory, and those that it is in; whether it was not there."""
        with explained(path):
            try:
                os.close(beneath.find(self._root, path, directory=True))
                created = False
            except FileNotFoundError:
                created = True
            with self._directory(path) as made:
                return about.entry(path, os.fstat(made)), created

    def delete(self, path: str, *, recursive: bool) -> None:
        self._check_not_top(path)
        directory, name = paths.split(path)
        with explained(path), self._found(directory, directory=True) as parent:
            now = os.stat(name, dir_fd=parent, follow_symlinks=False)
            if not stat.S_ISDIR(now.st_mode):
                os.unlink(name, dir_fd=parent)
            elif recursive:
                remove_tree(parent, name)
            else:
                os.rmdir(name, dir_fd=parent)

    def move(self, path: str, to: str, *, overwrite: bool) -> FileEntry:
        self._check_not_top(path)
        self._check_not_top(to)
        directory, name = paths.split(path)
        new_directory, new_name = paths.split(to)
        with explained(path), self._found(directory, directory=True) as source:
            os.stat(name, dir_fd=source, follow_symlinks=False)
            with explained(to), self._directory(new_directory) as target:
                if overwrite:
                    os.rename(name, new_name, src_dir_fd=source, dst_dir_fd=target)
                else:
                    beneath.rename_new(source, name, target, new_name)
                return about.entry(to, os.stat(new_name, dir_fd=target, follow_symlinks=False))

    def copy(self, path: str, to: str, *, overwrite: bool) -> FileEntry:
        """A file, with what a link to it leads to; or a directory, with links as they are."""
        self._check_not_top(path)
        self._check_not_top(to)
        with explained(path), self._found(path) as found:
            now = os.fstat(found)
            if stat.S_ISDIR(now.st_mode):
                return self._copy_directory(found, to)
            source = self._readable(path, found)
            try:
                incoming = self.receive(to, self.budget(now.st_size))
                try:
                    incoming.copy(source)
                    return self.store(incoming, new=not overwrite)[0]
                finally:
                    incoming.close()
            finally:
                os.close(source)

    def _copy_directory(self, source: int, to: str) -> FileEntry:
        """It appears when it is complete. A directory that is there already is not replaced."""
        check_size(source)
        hidden = paths.temporary()
        directory, name = paths.split(to)
        owner = Owner(self._root)
        with explained(to), self._directory(directory) as target:
            owner.make_directory(self._root, hidden)
            try:
                copy_tree(source, self._root, hidden, owner, self.budget())
                beneath.rename_new(self._root, hidden, target, name)
            except BaseException:
                remove_tree(self._root, hidden)
                raise
            return about.entry(to, os.stat(name, dir_fd=target, follow_symlinks=False))

    @contextmanager
    def _directory(self, path: str) -> Iterator[int]:
        """A directory to put something in, made if it is not there."""
        try:
            found = beneath.find(self._root, path, directory=True)
        except FileNotFoundError:
            found = self._make_directories(path)
        try:
            yield found
        finally:
            os.close(found)

    def _make_directories(self, path: str) -> int:
        names = path.split("/")
        first = bisect.bisect_left(range(1, len(names)), True, key=lambda n: self._misses(names[:n]))
        at = beneath.find(self._root, "/".join(names[:first]), directory=True)
        owner = Owner(self._root)
        for name in names[first:]:
            try:
                owner.make_directory(at, name)
                made = beneath.find(at, name, follow_last=False, directory=True)
            finally:
                os.close(at)
            at = made
        return at

    def _misses(self, names: Sequence[str]) -> bool:
        try:
            os.close(beneath.find(self._root, "/".join(names)))
        except FileNotFoundError:
            return True
        return False

    def _check_place(self, path: str) -> None:
        """Whether a file can be put there, as far as that can be told before it is complete."""
        directory, name = paths.split(path)
        with explained(path):
            try:
                with self._found(directory, directory=True) as parent:
                    now = os.stat(name, dir_fd=parent, follow_symlinks=False)
            except FileNotFoundError:
                return
            if stat.S_ISDIR(now.st_mode):
                raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))

    def _check_not_top(self, path: str) -> None:
        if not path:
            raise InvalidPath("This is the workspace itself.", "Name something in it.")
