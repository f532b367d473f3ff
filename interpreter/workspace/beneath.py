"""Opening paths so that nothing can lead out of a directory.

What is in a workspace changes while it is looked at: a directory can become a link to somewhere else
between two calls. So nothing is checked first and opened then. The kernel resolves a path and
guarantees in the same step that it stayed beneath (`openat2`). Where it cannot, the path is walked
name by name, each opened without following links.

Everything is opened with O_PATH: that touches neither pipes nor devices. What is found is looked at,
and what may be read is opened again by its descriptor, which nobody can exchange.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import stat
from typing import Protocol

OPENAT2 = 437
NO_XDEV, NO_MAGICLINKS, NO_SYMLINKS, BENEATH = 0x01, 0x02, 0x04, 0x08
RENAME_NOREPLACE = 1
TRIES = 64
"""The kernel gives up, and can be asked again, when something is moved while it resolves a '..'."""
MOST_LINKS = 40

_libc = ctypes.CDLL(None, use_errno=True)


class _How(ctypes.Structure):
    _fields_ = [("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64)]


class Way(Protocol):
    """How a path is resolved."""

    def __call__(self, root: int, path: str, *, follow_last: bool, links: bool) -> int: ...


def find(
    root: int, path: str, *, follow_last: bool = True, links: bool = True, directory: bool = False
) -> int:
    """A descriptor (O_PATH) of what a path beneath `root` names. Links that stay beneath are followed:
    none without `links`, all but the last without `follow_last`. Raises OSError."""
    found = way()(root, path or ".", follow_last=follow_last, links=links)
    if directory and not stat.S_ISDIR(os.fstat(found).st_mode):
        os.close(found)
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    return found


@functools.cache
def way() -> Way:
    """The best way that this kernel, and whatever filters its calls, has."""
    here = os.open("/", os.O_PATH | os.O_CLOEXEC)
    try:
        os.close(by_kernel(here, ".", follow_last=True, links=True))
    except OSError as e:
        if e.errno not in (errno.ENOSYS, errno.EPERM, errno.EINVAL):
            raise
        return by_walking
    finally:
        os.close(here)
    return by_kernel


def by_kernel(root: int, path: str, *, follow_last: bool, links: bool) -> int:
    flags = os.O_PATH | os.O_CLOEXEC | (0 if follow_last else os.O_NOFOLLOW)
    resolve = BENEATH | NO_MAGICLINKS | NO_XDEV | (0 if links else NO_SYMLINKS)
    how = _How(flags, 0, resolve)
    name = ctypes.c_char_p(os.fsencode(path))
    for _ in range(TRIES):
        found: int = _libc.syscall(
            ctypes.c_long(OPENAT2),
            ctypes.c_int(root),
            name,
            ctypes.byref(how),
            ctypes.c_size_t(ctypes.sizeof(how)),
        )
        if found >= 0:
            return found
        number = ctypes.get_errno()
        if number != errno.EAGAIN:
            break
    raise OSError(number, os.strerror(number))


def by_walking(root: int, path: str, *, follow_last: bool, links: bool) -> int:
    """The same without `openat2`. A link whose text has '..' in it is not followed here."""
    names = path.split("/")[::-1]
    followed = 0
    at = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=root)
    device = os.fstat(at).st_dev
    try:
        while names:
            name = names.pop()
            if name in ("", "."):
                continue
            if name == "..":
                raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
            found = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
            about = os.fstat(found)
            if not stat.S_ISLNK(about.st_mode):
                os.close(at)
                at = found
            elif names or follow_last:
                followed += 1
                names += _target(found, links and followed <= MOST_LINKS).split("/")[::-1]
            else:
                os.close(at)
                at = found
                break
            if about.st_dev != device:
                raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        return os.dup(at)
    finally:
        os.close(at)


def _target(link: int, may_follow: bool) -> str:
    """What a link says; closes it."""
    try:
        if not may_follow:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        target = os.readlink("", dir_fd=link)
    finally:
        os.close(link)
    if target.startswith("/"):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
    return target


def readable(found: int) -> int:
    """A descriptor to read the regular file that was found."""
    # Without O_NONBLOCK a lease that the sandbox holds on the file would make this wait.
    return os.open(f"/proc/self/fd/{found}", os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)


def listable(found: int) -> int:
    """A descriptor to list the directory that was found."""
    return os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=found)


def rename_new(source: int, name: str, target: int, new_name: str) -> None:
    """Renames to a name that is not there yet; raises FileExistsError if it is."""
    done = _libc.renameat2(
        ctypes.c_int(source),
        ctypes.c_char_p(os.fsencode(name)),
        ctypes.c_int(target),
        ctypes.c_char_p(os.fsencode(new_name)),
        ctypes.c_uint(RENAME_NOREPLACE),
    )
    if done == 0:
        return
    number = ctypes.get_errno()
    if number not in (errno.ENOSYS, errno.EINVAL, errno.EPERM):
        raise OSError(number, os.strerror(number))
    # A file system that cannot do it in one step.
    try:
        os.stat(new_name, dir_fd=target, follow_symlinks=False)
    except FileNotFoundError:
        os.rename(name, new_name, src_dir_fd=source, dst_dir_fd=target)
    else:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
