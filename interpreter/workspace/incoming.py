"""A file on its way into a workspace.

It has no name until it is complete: it is written to a file that is in no directory, and then put in
its place in one step. Nobody sees half a file, nothing is written through a link, and what breaks off
leaves nothing, also when the gateway is killed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from collections.abc import Callable, Sequence

from interpreter.models.files import FileEntry
from interpreter.workspace import about, beneath, paths
from interpreter.workspace.allowance import MEGABYTE, Budget
from interpreter.workspace.reasons import explained

Condition = Callable[[str | None], None]
"""Is given the ETag of what is there, None if there is nothing, and may raise an error."""
COPY = 8 * MEGABYTE
IOV_MAX = 1024


class Owner:
    """Whose files are in a workspace: new ones become theirs, so that cells can change them."""

    def __init__(self, root: int) -> None:
        top = os.fstat(root)
        self._ids = top.st_uid, top.st_gid
        self._may_give = os.geteuid() == 0

    def take(self, descriptor: int, mode: int) -> None:
        if self._may_give:
            os.fchown(descriptor, *self._ids)
        os.fchmod(descriptor, mode)

    def take_named(self, name: str, directory: int) -> None:
        """The same of a link."""
        if self._may_give:
            os.chown(name, *self._ids, dir_fd=directory, follow_symlinks=False)

    def make_directory(self, directory: int, name: str) -> None:
        """Makes it if it is not there."""
        try:
            os.mkdir(name, 0o755, dir_fd=directory)
        except FileExistsError:
            return
        # Opened without following: it may be something else by now.
        made = os.open(
            name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory
        )
        try:
            self.take(made, 0o755)
        finally:
            os.close(made)


class Incoming:
    """One file that arrives. Calls block; `close` may be called at any time and more than once."""

    def __init__(self, root: int, budget: Budget, path: str) -> None:
        """`root` has to stay open until this is closed."""
        self.path = path
        self.size = 0
        self._budget = budget
        self._arrivals = budget.arrivals
        self._checked = 0
        self._lock = threading.Lock()
        self._root = root
        self._file = -1
        self._hidden: str | None = None
        """Its name meanwhile, where the file system has no files without one."""
        self._placed = False
        try:
            with explained(path):
                self._file = self._open()
                Owner(root).take(self._file, 0o644)
        except BaseException:
            self.close()
            raise

    def _open(self) -> int:
        flags = os.O_RDWR | os.O_CLOEXEC
        try:
            return os.open(".", flags | os.O_TMPFILE, 0o600, dir_fd=self._root)
        except OSError as e:
            if e.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT):
                raise
        hidden = paths.temporary()
        opened = os.open(
            hidden, flags | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=self._root
        )
        self._hidden = hidden
        return opened

    def write(self, *pieces: bytes) -> None:
        with self._lock, explained(self.path):
            self._check_open()
            self._grow(sum(map(len, pieces)))
            for start in range(0, len(pieces), IOV_MAX):
                self._write_all(pieces[start : start + IOV_MAX])

    def _write_all(self, pieces: Sequence[bytes]) -> None:
        written = os.writev(self._file, pieces)
        if written < sum(map(len, pieces)):
            rest = memoryview(b"".join(pieces))[written:]
            while rest:
                rest = rest[os.write(self._file, rest) :]

    def copy(self, source: int) -> None:
        """Takes the contents of a file that is open for reading."""
        with self._lock, explained(self.path):
            self._check_open()
            while copied := copy_some(source, self._file, self.size):
                self._grow(copied)

    def _grow(self, more: int) -> None:
        self.size += more
        self._arrivals.take(more, seen=self._hidden is not None)
        if self.size - self._checked >= MEGABYTE:
            self._budget.check(self.size)
            self._checked = self.size

    def _check_open(self) -> None:
        if self._file < 0:
            raise OSError(errno.EIO, "it was broken off")

    def place(self, directory: int, name: str, condition: Condition | None, *, new: bool) -> bool:
        """Gives it its name in a directory; returns whether there was none before. Raises
        FileExistsError if it has to be `new` and is not."""
        with self._lock, self._arrivals.placing:
            self._check_open()
            self._budget.check(self.size)
            before = there(directory, name)
            if condition is not None:
                # A link, a pipe or a socket has one as well: it is there, and would be replaced.
                condition(None if before is None else about.etag(before))
            if self._hidden is None:
                hidden = paths.temporary()
                os.link(f"/proc/self/fd/{self._file}", hidden, dst_dir_fd=self._root)
                self._hidden = hidden
                self._arrivals.show(self.size)
            if before is None or new:
                try:
                    beneath.rename_new(self._root, self._hidden, directory, name)
                except FileExistsError:
                    # A cell made one in this moment.
                    if new or condition is not None:
                        raise
                    os.rename(self._hidden, name, src_dir_fd=self._root, dst_dir_fd=directory)
            else:
                os.rename(self._hidden, name, src_dir_fd=self._root, dst_dir_fd=directory)
            self._hidden = None
            self._placed = True
            return before is None

    def entry(self) -> tuple[FileEntry, str]:
        """What it is now, and its ETag."""
        now = os.fstat(self._file)
        return about.entry(self.path, now), about.etag(now)

    def close(self) -> None:
        """Ends it. If it was not placed, nothing of it is left."""
        with self._lock:
            hidden, self._hidden = self._hidden, None
            if hidden is not None:
                with contextlib.suppress(OSError):  # a cell can be quicker
                    os.unlink(hidden, dir_fd=self._root)
            file, self._file = self._file, -1
            if file >= 0:
                os.close(file)
                if not self._placed:
                    self._arrivals.give_up(self.size, seen=hidden is not None)


def there(directory: int, name: str) -> os.stat_result | None:
    """What has this name in a directory, a link for one; None if nothing has."""
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None


def copy_some(source: int, target: int, offset: int) -> int:
    try:
        return os.copy_file_range(source, target, COPY, offset, offset)
    except OSError as e:
        if e.errno not in (errno.EXDEV, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL):
            raise
    return os.pwrite(target, os.pread(source, COPY // 8, offset), offset)
