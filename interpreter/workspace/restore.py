"""Restores a tar file into an empty folder, in a process of its own.

The archive comes from anywhere. Python's reader keeps whole headers in memory, however long they say
they are: here that ends this process and nothing else. A gateway that is root shuts it into the
folder, as the user whose files they become. It has nothing but the standard library and `whole_tar`:

    python -I -S restore.py '{"root": DESCRIPTOR, "uid": 1, "gid": 1, "bytes": 1, "entries": 1}'

The archive is read from stdin, gzipped or not. The last line on stdout is `{"done"}`, or `{"refused"}`
or `{"full"}` with the reason; what is in the folder by then is for others to remove.

Files, folders and links are restored. A link that stays a link can name anything: nothing here, nor in
the gateway, follows it. A second name for a file has to be one for a file of the archive.
"""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import resource
import stat
import sys
import tarfile
from collections.abc import Sequence
from typing import IO, Any

if __name__ == "__main__":
    sys.path.append(os.path.dirname(__file__))
    from whole_tar import Refused, entries  # type: ignore[import-not-found]
else:
    from interpreter.workspace.whole_tar import Refused, entries

MEMORY_BYTES = 512 * 1024 * 1024
CPU_SECONDS = 6 * 3600
PIECE = 1024 * 1024
BLOCK = 64 * 1024
HOLLOW = 16
"""How many times what fits may be there as zeros, which take no room."""
DEEPEST, LONGEST_NAME, LONGEST_LINK = 1000, 255, 4095
LATEST = 2**33
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Full(Exception):
    """It does not fit."""


def shown(path: str) -> str:
    """A name that somebody else chose, as it can stand in a sentence."""
    return (
        "'" + "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in path[-100:]) + "'"
    )


def parts_of(name: str) -> list[str]:
    """The folders that a name leads through, and its last part. Raises Refused if it leads out."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/"):
        raise Refused(f"{shown(name)} is an absolute path")
    if ".." in parts:
        raise Refused(f"{shown(name)} leads out of the workspace")
    if "\0" in name or any(len(os.fsencode(part)) > LONGEST_NAME for part in parts):
        raise Refused(f"the name {shown(name)} cannot be used")
    if len(parts) > DEEPEST:
        raise Refused(f"{shown(name)} is more than {DEEPEST:,} folders deep")
    return parts


class Tree:
    """The folder that is filled. Folders on the way to the last entry stay open."""

    def __init__(self, root: int, most_bytes: int, most_entries: int) -> None:
        self._root = root
        self._most_bytes, self._most_entries = most_bytes, most_entries
        self._written = self._passed = self._entries = 0
        self._names: list[str] = []
        self._folders: list[int] = []

    def add(self, entry: tarfile.TarInfo, contents: IO[bytes] | None) -> None:
        parts = parts_of(entry.name)
        self._count()
        if entry.isdir():
            folder = self._enter(parts)
            if parts:
                os.fchmod(folder, entry.mode & 0o1777 | 0o700)
            return
        if not parts:
            raise Refused("it has a file without a name")
        folder, name = self._enter(parts[:-1]), parts[-1]
        if entry.issym():
            self._link(entry.linkname, folder, name)
        elif entry.islnk():
            self._name_again(parts_of(entry.linkname), folder, name)
        elif entry.isreg() and contents is not None:
            self._make_room(folder, name)
            self._write(entry, contents, folder, name)
        else:
            raise Refused(f"{shown(entry.name)} is neither a file, a folder nor a link")

    def pass_over(self, count: int) -> None:
        """So many bytes were read. What never ends is refused, also if it takes no room."""
        self._passed += count
        if self._passed > HOLLOW * self._most_bytes + PIECE:
            raise Full

    def _count(self) -> None:
        self._entries += 1
        if self._entries > self._most_entries:
            raise Full

    # -- folders

    def _enter(self, parts: Sequence[str]) -> int:
        """A folder that there is, or is made. Raises Refused for a way through anything else."""
        same = 0
        while same < min(len(parts), len(self._names)) and parts[same] == self._names[same]:
            same += 1
        while len(self._folders) > same:
            os.close(self._folders.pop())
        self._names = list(parts[:same])
        for name in parts[same:]:
            above = self._folders[-1] if self._folders else self._root
            try:
                os.mkdir(name, 0o755, dir_fd=above)
                self._count()
            except FileExistsError:
                pass
            self._folders.append(self._open(name, above))
            self._names.append(name)
        return self._folders[-1] if self._folders else self._root

    def _open(self, name: str, above: int) -> int:
        try:
            return os.open(name, FOLDER, dir_fd=above)
        except OSError as e:
            if e.errno in (errno.ENOTDIR, errno.ELOOP, errno.ENOENT):
                raise Refused(f"{shown(name)} is not a folder, and is used as one") from None
            raise

    # -- what is in them

    def _make_room(self, folder: int, name: str) -> None:
        """An archive that was added to has the same file twice: the last one counts."""
        try:
            os.unlink(name, dir_fd=folder)
        except FileNotFoundError:
            pass
        except (IsADirectoryError, PermissionError):
            raise Refused(f"{shown(name)} is a folder and something else") from None

    def _link(self, target: str, folder: int, name: str) -> None:
        if not target or "\0" in target or len(os.fsencode(target)) > LONGEST_LINK:
            raise Refused(f"the link {shown(name)} leads nowhere")
        self._make_room(folder, name)
        os.symlink(target, name, dir_fd=folder)

    def _name_again(self, first: list[str], folder: int, name: str) -> None:
        """Another name for a file that was restored before."""
        above = os.dup(self._root)
        try:
            for part in first[:-1]:
                inner = self._open(part, above)
                os.close(above)
                above = inner
            found = os.stat(first[-1], dir_fd=above, follow_symlinks=False) if first else None
            if found is None or not stat.S_ISREG(found.st_mode):
                raise Refused(f"{shown(name)} is a name for something that is not a file")
            here = os.stat(name, dir_fd=folder, follow_symlinks=False) if _there(folder, name) else None
            if here is not None and here.st_ino == found.st_ino:
                return
            self._make_room(folder, name)
            os.link(first[-1], name, src_dir_fd=above, dst_dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            raise Refused(f"{shown(name)} is a name for something that is not in the archive") from None
        finally:
            os.close(above)

    def _write(self, entry: tarfile.TarInfo, contents: IO[bytes], folder: int, name: str) -> None:
        file = os.open(name, NEW, 0o600, dir_fd=folder)
        try:
            at = 0
            while piece := contents.read(PIECE):
                self.pass_over(len(piece))
                for start in range(0, len(piece), BLOCK):
                    block = piece[start : start + BLOCK]
                    if block.count(0) != len(block):  # zeros are left out, and take no room
                        self._put(file, block, at + start)
                at += len(piece)
            os.ftruncate(file, at)
            os.fchmod(file, entry.mode & 0o777)
            when = int(entry.mtime) if 0 <= entry.mtime < LATEST else 0
            os.utime(file, (when, when))
        finally:
            os.close(file)

    def _put(self, file: int, block: bytes, at: int) -> None:
        self._written += len(block)
        if self._written > self._most_bytes:
            raise Full
        done = 0
        while done < len(block):
            done += os.pwrite(file, block[done:], at + done)


def _there(folder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def restore(source: io.BufferedReader, tree: Tree) -> None:
    for entry, contents in entries(source, tree.pass_over):
        tree.add(entry, contents)


def confine(root: int, uid: int, gid: int) -> None:
    """Nothing but the folder can be reached from here on, where that is possible."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    os.umask(0)
    with contextlib.suppress(OSError):
        os.nice(5)
    if os.geteuid() == 0:
        with contextlib.suppress(PermissionError):
            os.fchdir(root)
            os.chroot(".")
        if uid != 0:
            os.setgroups([])
            os.setresgid(gid, gid, gid)
            os.setresuid(uid, uid, uid)


def outcome(told: dict[str, Any]) -> dict[str, Any]:
    try:
        restore(sys.stdin.buffer, Tree(told["root"], told["bytes"], told["entries"]))  # type: ignore[arg-type]
    except Refused as e:
        return {"refused": str(e)}
    except Full:
        return {"full": True}
    except OSError as e:
        if e.errno in (errno.ENOSPC, errno.EDQUOT):
            return {"full": True}
        return {"refused": f"it is damaged ({e.strerror or e})"}
    except (Exception, MemoryError) as e:  # whatever a reader of archives does with a hostile one
        return {"refused": f"it is damaged ({type(e).__name__}: {e})"[:300]}
    return {"done": True}


def main() -> None:
    told = json.loads(sys.argv[1])
    confine(told["root"], told["uid"], told["gid"])
    print(json.dumps(outcome(told)), flush=True)


if __name__ == "__main__":
    main()
