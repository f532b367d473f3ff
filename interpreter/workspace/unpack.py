"""Unpacks an archive that somebody sent, in a process of its own.

Python's readers of archives keep whole headers and directories in memory, however long an archive
says they are. Here such an archive ends this process and nothing else: its memory and its time
are limited. It has nothing but the standard library and `whole_tar`:

    python -I -S unpack.py ARCHIVE FOLDER ENTRIES

It writes JSON lines. `{"more": n}` asks whether n bytes more may be written, and is answered with a
line on stdin; `{"path", "size", "sha256"}` is a file that is complete; the last line is `{"done"}`,
or `{"refused"}` with the reason. Only plain files and folders are ever made, each only once and
below FOLDER, which is new.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import json
import os
import resource
import stat
import sys
import zipfile
from collections.abc import Callable, Iterator
from typing import IO, Any, NamedTuple

if __name__ == "__main__":
    sys.path.append(os.path.dirname(__file__))
    from whole_tar import Refused, entries  # type: ignore[import-not-found]
else:
    from interpreter.workspace.whole_tar import Refused, entries

MEMORY_BYTES = 512 * 1024 * 1024
CPU_SECONDS = 3600
GRANT = 16 * 1024 * 1024
PIECE = 1024 * 1024
LONGEST_NAME, LONGEST_PATH, DEEPEST = 255, 1024, 64
FOLDER_MODE, FILE_MODE = 0o755, 0o444


class Entry(NamedTuple):
    """A file of an archive, or a folder, which has no contents."""

    name: str
    contents: IO[bytes] | None


# -- reading archives


def entries_of(path: str, passed: Callable[[int], None]) -> Iterator[Entry]:
    with open(path, "rb") as file:
        if file.peek(2)[:2] == b"PK":
            yield from _zip_entries(path)
        else:
            yield from _tar_entries(file, passed)


def _zip_entries(path: str) -> Iterator[Entry]:
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            kind = stat.S_IFMT(info.external_attr >> 16)
            if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise Refused(f"{shown(info.filename)} is neither a file nor a folder")
            if info.flag_bits & 1:
                raise Refused(f"{shown(info.filename)} is encrypted")
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise Refused(f"{shown(info.filename)} is compressed in an unusual way")
            if info.is_dir():
                yield Entry(info.filename, None)
                continue
            with archive.open(info) as contents:
                yield Entry(info.filename, contents)


def _tar_entries(file: io.BufferedReader, passed: Callable[[int], None]) -> Iterator[Entry]:
    for info, contents in entries(file, passed):
        if contents is not None and not info.issparse():
            yield Entry(info.name, contents)
        elif info.isdir():
            yield Entry(info.name, None)
        else:
            raise Refused(f"{shown(info.name)} is neither a plain file nor a folder")


def shown(name: str) -> str:
    """A name that somebody else chose, as it can stand in a sentence."""
    return "'" + "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in name[:100]) + "'"


def parts_of(name: str) -> list[str]:
    """The folders and the file that a name leads through. Raises Refused for one that leads out."""
    try:
        encoded = name.encode()
    except UnicodeEncodeError:
        raise Refused(f"the name {shown(name)} is not UTF-8") from None
    if name.startswith("/"):
        raise Refused(f"{shown(name)} is an absolute path")
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise Refused(f"{shown(name)} leads out of the archive")
    if len(encoded) > LONGEST_PATH or any(len(part.encode()) > LONGEST_NAME for part in parts):
        raise Refused(f"the name {shown(name)} is too long")
    if len(parts) > DEEPEST or "\0" in name:
        raise Refused(f"the name {shown(name)} cannot be used")
    return parts


# -- writing files


class Tree:
    """The folder that is filled, with so many files and folders at most."""

    def __init__(self, root: str, most: int) -> None:
        self._root = root
        self._most = most
        self._folders: set[tuple[str, ...]] = {()}
        self._files: set[tuple[str, ...]] = set()
        self._granted = 0

    def add(self, entry: Entry) -> None:
        parts = tuple(parts_of(entry.name))
        if entry.contents is None:
            self._need_folder(parts)
            return
        if not parts:
            raise Refused(f"{shown(entry.name)} is not the name of a file")
        self._need_folder(parts[:-1])
        if parts in self._files or parts in self._folders:
            raise Refused(f"{shown(entry.name)} is in it twice")
        self._files.add(parts)
        self._count()
        self._write(parts, entry.contents)

    def _need_folder(self, parts: tuple[str, ...]) -> None:
        for depth in range(1, len(parts) + 1):
            above = parts[:depth]
            if above in self._files:
                raise Refused(f"{shown('/'.join(above))} is a file and a folder")
            if above not in self._folders:
                self._folders.add(above)
                self._count()
                path = os.path.join(self._root, *above)
                os.mkdir(path)
                os.chmod(path, FOLDER_MODE)

    def _count(self) -> None:
        if len(self._files) + len(self._folders) - 1 > self._most:
            raise Refused(f"it has more than {self._most:,} files and folders")

    def _write(self, parts: tuple[str, ...], contents: IO[bytes]) -> None:
        path = os.path.join(self._root, *parts)
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        size, digest = 0, hashlib.sha256()
        try:
            while piece := contents.read(PIECE):
                self.need_room(len(piece))
                digest.update(piece)
                size += len(piece)
                rest = memoryview(piece)
                while rest:
                    rest = rest[os.write(file, rest) :]
            os.fchmod(file, FILE_MODE)
        finally:
            os.close(file)
        say(path="/".join(parts), size=size, sha256=digest.hexdigest())

    def need_room(self, count: int) -> None:
        if self._granted < count:
            more = max(GRANT, count)
            say(more=more)
            if not sys.stdin.readline().strip():
                raise SystemExit(1)  # nobody is there to answer
            self._granted += more
        self._granted -= count

    @property
    def empty(self) -> bool:
        return not self._files


def say(**values: Any) -> None:
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()


def unpack(archive: str, folder: str, most: int) -> None:
    tree = Tree(folder, most)
    for entry in entries_of(archive, tree.need_room):
        tree.add(entry)
    if tree.empty:
        raise Refused("there is no file in it")


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError):
        os.nice(5)
    try:
        unpack(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    except Refused as e:
        say(refused=str(e))
    except OSError as e:
        if e.errno in (errno.ENOSPC, errno.EDQUOT):
            say(full=True)
        else:
            say(refused=f"it is damaged ({e})")
    except (Exception, MemoryError) as e:  # whatever a reader of archives does with a hostile one
        say(refused=f"it is damaged ({type(e).__name__}: {e})"[:300])
    else:
        say(done=True)


if __name__ == "__main__":
    main()
