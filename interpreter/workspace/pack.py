"""Packs a folder into one tar file, in a process of its own.

What is in the folder was written by a sandbox, which may be changing it right now. So every name is
opened relative to the folder it was found in, no link is followed, and a gateway that is root shuts
this process into the folder. It is started with nothing but the standard library:

    python -I -S pack.py '{"root": DESCRIPTOR, "compress": true}'

On stderr it first says how much there is to pack (`{"bytes"}`), at the end `{"done"}`, or `{"failed"}`
and why; the archive is on stdout. Links stay links. Devices, sockets and pipes are left out.
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import json
import os
import resource
import stat
import sys
import tarfile
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

MEMORY_BYTES = 512 * 1024 * 1024
CPU_SECONDS = 3600
"""More than the largest workspace takes. A sandbox can move folders ahead of the walk for ever."""
PIECE = 1024 * 1024
DEEPEST = 1000
MOST_LINKED = 100_000
"""Files of which it is remembered that they have more than one name."""
LEVEL = 1
"""The next ones take more than twice the time and make it a tenth smaller."""
INSIDE = 1000
"""Whose the files are for whoever looks inside of a sandbox."""
FORMAT: dict[str, Any] = {
    "bufsize": PIECE,
    "copybufsize": PIECE,
    "format": tarfile.PAX_FORMAT,
    "encoding": "utf-8",
    "errors": "surrogateescape",
}
GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EINVAL)
"""What is said of something that was removed just now, or is something else by now."""
OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class Failed(Exception):
    """Why a folder cannot be packed."""


class Found(NamedTuple):
    """Something in a folder: which is open, and stays so until the next one is found."""

    folder: int
    name: str
    path: str
    info: os.stat_result


@contextlib.contextmanager
def unless_gone() -> Iterator[None]:
    """Leaves out what is not there any more."""
    try:
        yield
    except OSError as e:
        if e.errno not in GONE:
            raise


def walk(root: int) -> Iterator[Found]:
    """Everything below a folder, a folder before what is in it. Memory does not grow with it."""
    device = os.fstat(root).st_dev
    above: list[tuple[int, Any, str]] = [(root, os.scandir(root), "")]
    try:
        while above:
            folder, entries, prefix = above[-1]
            entry = next(entries, None)
            if entry is None:
                _close(above.pop(), root)
                continue
            found = _look(folder, entry.name, prefix + entry.name)
            if found is None or found.info.st_dev != device:
                continue
            yield found
            if stat.S_ISDIR(found.info.st_mode):
                if len(above) >= DEEPEST:
                    raise Failed(f"{shown(found.path)} is more than {DEEPEST:,} folders deep")
                with unless_gone():
                    inner = os.open(entry.name, OPEN | os.O_DIRECTORY, dir_fd=folder)
                    above.append((inner, os.scandir(inner), found.path + "/"))
    finally:
        while above:
            _close(above.pop(), root)


def _look(folder: int, name: str, path: str) -> Found | None:
    with unless_gone():
        return Found(folder, name, path, os.stat(name, dir_fd=folder, follow_symlinks=False))
    return None


def _close(level: tuple[int, Any, str], root: int) -> None:
    folder, entries, _ = level
    entries.close()
    if folder != root:
        os.close(folder)


def shown(path: str) -> str:
    """A name that somebody else chose, as it can stand in a sentence."""
    return (
        "'" + "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in path[-100:]) + "'"
    )


def measure(root: int) -> int:
    """About how large the archive is uncompressed. Raises Failed for what cannot be packed."""
    linked: set[int] = set()
    total = 2 * tarfile.BLOCKSIZE
    for found in walk(root):
        mode = found.info.st_mode
        if os.geteuid() != 0 and not mode & stat.S_IRUSR and not stat.S_ISLNK(mode):
            raise Failed(f"{shown(found.path)} may not be read by its owner")
        total += tarfile.BLOCKSIZE
        if not found.path.isascii() or len(found.path) > tarfile.LENGTH_NAME:
            total += 2 * tarfile.BLOCKSIZE
        if stat.S_ISREG(mode) and found.info.st_ino not in linked:
            total += -(-found.info.st_size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE
            if found.info.st_nlink > 1 and len(linked) < MOST_LINKED:
                linked.add(found.info.st_ino)
    return total


class Contents:
    """Exactly so many bytes of a file, whatever becomes of it meanwhile."""

    def __init__(self, file: int, size: int) -> None:
        self._file = file
        self._left = size

    def read(self, count: int) -> bytes:
        wanted = min(count, self._left)
        piece = os.read(self._file, wanted) if wanted else b""
        if not piece:
            piece = bytes(wanted)
        self._left -= len(piece)
        # Whoever copies takes a short piece for the end.
        return piece if len(piece) == wanted else piece + self.read(wanted - len(piece))


def pack(root: int, archive: tarfile.TarFile) -> None:
    linked: dict[int, str] = {}
    for found in walk(root):
        info, kind = tarfile.TarInfo(found.path), stat.S_IFMT(found.info.st_mode)
        info.mode = stat.S_IMODE(found.info.st_mode) & 0o1777
        info.mtime = int(found.info.st_mtime)
        info.uid = info.gid = INSIDE
        if kind == stat.S_IFDIR:
            info.type = tarfile.DIRTYPE
            archive.addfile(info)
        elif kind == stat.S_IFLNK:
            info.type = tarfile.SYMTYPE
            with unless_gone():
                info.linkname = os.readlink(found.name, dir_fd=found.folder)
            if info.linkname:
                archive.addfile(info)
        elif kind == stat.S_IFREG:
            _pack_file(archive, info, found, linked)
        # Else it would remember all of them.
        archive.members = []  # type: ignore[attr-defined]


def _pack_file(
    archive: tarfile.TarFile, info: tarfile.TarInfo, found: Found, linked: dict[int, str]
) -> None:
    first = linked.get(found.info.st_ino)
    if first is not None:
        info.type, info.linkname = tarfile.LNKTYPE, first
        archive.addfile(info)
        return
    try:
        file = os.open(found.name, OPEN, dir_fd=found.folder)
    except OSError as e:
        if isinstance(e, PermissionError):
            raise Failed(f"{shown(found.path)} may not be read") from e
        return  # it is a link now, or gone
    try:
        now = os.fstat(file)
        if not stat.S_ISREG(now.st_mode):
            return
        info.size = now.st_size
        archive.addfile(info, Contents(file, now.st_size))  # type: ignore[arg-type]
    finally:
        os.close(file)
    if found.info.st_nlink > 1 and len(linked) < MOST_LINKED:
        linked[found.info.st_ino] = found.path


def say(**values: Any) -> None:
    sys.stderr.write(json.dumps(values) + "\n")
    sys.stderr.flush()


def confine(root: int) -> None:
    """Nothing but the folder can be reached from here on, where that is possible."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with contextlib.suppress(OSError):
        os.nice(5)
    if os.geteuid() == 0:
        with contextlib.suppress(PermissionError):
            os.fchdir(root)
            os.chroot(".")


def main() -> None:
    told = json.loads(sys.argv[1])
    confine(told["root"])
    try:
        say(bytes=measure(told["root"]))
        with contextlib.ExitStack() as stack:
            out: BinaryIO = sys.stdout.buffer
            if told["compress"]:
                out = stack.enter_context(gzip.GzipFile("", "wb", LEVEL, out, mtime=0))  # type: ignore[assignment]
            archive = stack.enter_context(tarfile.open(fileobj=out, mode="w|", **FORMAT))
            pack(told["root"], archive)
        sys.stdout.buffer.flush()
    except Failed as e:
        say(failed=str(e))
    except (OSError, MemoryError) as e:
        say(failed=f"{type(e).__name__}: {e}")
    else:
        say(done=True)


if __name__ == "__main__":
    main()
