"""A workspace put over the one that a running sandbox has, so that it sees this one instead.

A sandbox that stands ready has an empty workspace of its own, mounted on the host as shared and in
the sandbox as its follower: what the host mounts over it appears inside. Two things travel with a
mount and need no help from inside: that it is read-only, and whose its files look. Each sandbox
has a user id of its own, so the files of a workspace that belongs to another are shown as its own
(an id-mapped mount); on the disk nothing changes.

It goes when it is unmounted on the host, which `Image.unmount` does with everything there is.
All calls block; raises OSError where the kernel cannot do it (before Linux 5.12).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

OPEN_TREE, MOVE_MOUNT, MOUNT_SETATTR = 428, 429, 442
"""System calls that the C library of Debian 12 has no functions for."""
HERE, EMPTY_PATH, FROM_EMPTY_PATH = -100, 0x1000, 0x4
CLONE, CLOSE_ON_EXEC = 0x1, os.O_CLOEXEC
READ_ONLY, NO_SUID, NO_DEVICES, MAPPED = 0x1, 0x2, 0x4, 0x100000

_libc = ctypes.CDLL(None, use_errno=True)


def mount_over(workspace: Path, place: Path, *, read_only: bool) -> tuple[int, int]:
    """Mounts a workspace over the one at `place`; returns the device and the number of what a
    sandbox has to see there from now on."""
    source, over = workspace.stat(), place.stat()
    attributes = NO_SUID | NO_DEVICES | (READ_ONLY if read_only else 0)
    with contextlib.ExitStack() as stack:
        namespace = 0
        if (source.st_uid, source.st_gid) != (over.st_uid, over.st_gid):
            namespace = stack.enter_context(_showing(source, over))
            attributes |= MAPPED
        tree = _call(OPEN_TREE, HERE, os.fsencode(workspace), CLONE | CLOSE_ON_EXEC)
        stack.callback(os.close, tree)
        wanted = struct.pack("=QQQQ", attributes, 0, 0, namespace)
        _call(MOUNT_SETATTR, tree, b"", EMPTY_PATH, wanted, len(wanted))
        _call(MOVE_MOUNT, tree, b"", HERE, os.fsencode(place), FROM_EMPTY_PATH)
    return source.st_dev, source.st_ino


@contextlib.contextmanager
def _showing(source: os.stat_result, over: os.stat_result) -> Iterator[int]:
    """A user namespace that shows one user's files as another's: what the kernel takes as a map."""
    pipe = subprocess.PIPE
    command = ["unshare", "--user", "cat"]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=quiet, bufsize=0) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"?")
        if process.stdout.read(1) != b"?":  # it answers once it is in a namespace of its own
            raise OSError("no user namespace could be made")
        for kind, on_disk, shown in (
            ("uid", source.st_uid, over.st_uid),
            ("gid", source.st_gid, over.st_gid),
        ):
            Path(f"/proc/{process.pid}/{kind}_map").write_text(f"{on_disk} {shown} 1\n")
        namespace = os.open(f"/proc/{process.pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield namespace
    finally:
        os.close(namespace)


def _call(number: int, *arguments: int | bytes) -> int:
    words = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    result = int(_libc.syscall(ctypes.c_long(number), *words))
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result
