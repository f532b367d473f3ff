"""Bubblewrap: a sandbox with namespaces of its own and a view of few files.

Inside there is one user (1000) without any capability, its own processes, a loopback interface
that leads nowhere, system libraries, the kernel environment and the payload read-only, a
temporary /tmp, the session's inputs read-only, and the session's workspace: the only path of the
host that can be written.

A gateway that is root needs two stages. Root inside a user namespace is still root to the host:
it owns /proc/sys and is exempt from limits. So the outer stage, as root, only mounts (root can
reach what others cannot); the inner stage runs as a user id that belongs to this sandbox alone
and makes the namespaces. For any other gateway a single stage does both.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from interpreter.runtimes import payload
from interpreter.runtimes.base import INPUTS
from interpreter.runtimes.kernel_environment import base_python

FIRST_UID, UIDS = 0x70000000, 0x0F000000
"""User ids for sandboxes of a root gateway, from a range that systemd and others leave alone."""

ETC = (
    *("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "fonts", "mime.types"),
    *(
        "localtime",
        "timezone",
        "ssl/certs",
        "ssl/openssl.cnf",
        "pki/tls/certs",
        "pki/ca-trust/extracted",
    ),
)
"""Of the host's /etc only this, as far as it is there."""
NEVER = {
    Path(p) for p in ("/", "/root", "/home", "/var", "/run", "/etc", "/tmp", "/proc", "/sys", "/dev")
}


@dataclass(frozen=True)
class View:
    """What a sandbox sees of the host besides system libraries."""

    payload: Path
    workspace: Path
    read_only: tuple[Path, ...]
    """Seen under the same path inside."""
    hidden: Path
    """Never seen, even if it lies inside something that is: the gateway's data."""
    inputs: Path | None = None
    """Seen at `INPUTS`, and never written."""
    fixed: bool = False
    """Whether the workspace is only read."""


def python_homes() -> tuple[Path, ...]:
    """Where the Python behind the kernel environments lives, if not in /usr."""
    homes = {Path(sys.base_prefix), Path(sys.base_prefix).resolve(), base_python().resolve().parents[1]}
    return tuple(sorted(h for h in homes if not h.is_relative_to("/usr") and h not in NEVER))


def sandbox_uid(id: str, workspace: Path) -> int | None:
    """The user id for a new sandbox, or None when it runs as the gateway's own user.

    A workspace that was used before keeps its owner, so its files stay usable.
    """
    if not has_uids():
        return None
    owner = workspace.stat().st_uid
    if FIRST_UID <= owner < FIRST_UID + UIDS:
        return owner
    return uid_for(id)


def has_uids() -> bool:
    """Whether sandboxes can have user ids of their own."""
    return os.geteuid() == 0 and _mapped(FIRST_UID + UIDS - 1)


def uid_for(id: str) -> int:
    return FIRST_UID + int.from_bytes(hashlib.sha256(id.encode()).digest()[:8]) % UIDS


def give(workspace: Path, uid: int) -> None:
    """Makes a sandbox's user the owner of its workspace and of what is in it."""
    if workspace.stat().st_uid == uid:
        return
    # Not os.fwalk, which a tree of many levels brings down.
    owner = f"{uid}:{uid}"
    subprocess.run(["chown", "--recursive", "--no-dereference", "--", owner, workspace], check=True)


@dataclass(frozen=True)
class Command:
    """A command whose mounts are read from a descriptor: they name places of the host, and a
    sandbox can read the command line of its first process."""

    mounts: list[str]
    program: list[str]

    def with_mounts_on(self, fd: int) -> list[str]:
        return [_find("bwrap"), "--args", str(fd), *self.program]


def command(view: View, uid: int | None, scratch_bytes: int, program: Sequence[str]) -> Command:
    """The command that runs a program in a sandbox."""
    shm = ["--size", str(scratch_bytes), "--tmpfs", "/dev/shm"]
    namespaces = [
        *("--proc", "/proc", "--dev", "/dev", *shm, "--remount-ro", "/dev"),
        *("--dir", "/tmp/home", "--remount-ro", "/"),
        *("--unshare-user", "--unshare-all", "--disable-userns", "--uid", "1000", "--gid", "1000"),
        *(
            "--hostname",
            "sandbox",
            "--die-with-parent",
            "--as-pid-1",
            "--chdir",
            "/workspace",
            "--",
            *program,
        ),
    ]
    mounts = _mounts(view, scratch_bytes)
    if uid is None:
        return Command(mounts, namespaces)
    setpriv = [_find("setpriv"), f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]
    # The kernel lets the inner stage mount its own /proc only if it sees a whole one.
    whole = ["--dev-bind", "/proc", "/proc", "--dev", "/dev", "--die-with-parent", "--"]
    nothing = ["--inh-caps=-all", "--bounding-set=-all", "--no-new-privs", "--"]
    return Command(mounts, [*whole, *setpriv, *nothing, _find("bwrap"), "--bind", "/", "/", *namespaces])


@contextlib.contextmanager
def mounts_descriptor(command: Command) -> Iterator[int]:
    """A descriptor to pass on, from which bwrap reads the mounts."""
    fd = os.memfd_create("mounts")
    try:
        os.write(fd, b"".join(os.fsencode(word) + b"\0" for word in command.mounts))
        os.lseek(fd, 0, os.SEEK_SET)
        yield fd
    finally:
        os.close(fd)


def usable(view: View) -> str | None:
    """None when a sandbox can be made here, found out by making one; else the reason."""
    if shutil.which("bwrap") is None:
        return "bubblewrap is not installed"
    uid = sandbox_uid("trial", view.workspace)
    if uid is not None and shutil.which("setpriv") is None:
        return "setpriv (util-linux) is not installed, which a gateway run by root needs"
    if uid is not None:
        give(view.workspace, uid)
    trial = command(view, uid, 1 << 20, [str(base_python()), "-I", "-S", "-c", "pass"])
    try:
        with mounts_descriptor(trial) as fd:
            words = trial.with_mounts_on(fd)
            done = subprocess.run(words, capture_output=True, cwd="/", env={}, pass_fds=[fd], timeout=20)
    except (OSError, subprocess.TimeoutExpired) as e:
        return f"bubblewrap does not work here: {e}"
    said = done.stderr.decode(errors="replace").strip() or f"it exited with code {done.returncode}"
    return None if done.returncode == 0 else f"bubblewrap does not work here: {said}"


def _mounts(view: View, scratch_bytes: int) -> list[str]:
    mounts = ["--ro-bind", "/usr", "/usr"]
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        path = Path("/", name)
        if path.is_symlink():
            mounts += ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir():
            mounts += ["--ro-bind", str(path), str(path)]
    mounts += ["--dir", "/etc"]
    for name in ETC:
        mounts += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    for name in payload.ETC:
        mounts += ["--ro-bind", str(view.payload / "etc" / name), f"/etc/{name}"]
    mounts += ["--perms", "1777", "--size", str(scratch_bytes), "--tmpfs", "/tmp"]
    seen = [Path("/usr"), *python_homes()]
    for path in python_homes():
        mounts += _read_only(path, path)
    if any(view.hidden.is_relative_to(path) for path in seen):
        mounts += ["--tmpfs", str(view.hidden)]
    for path in view.read_only:
        mounts += _read_only(path, path)
    mounts += _read_only(view.payload, Path(payload.IN_SANDBOX))
    if view.inputs is not None:
        mounts += _read_only(view.inputs, Path(INPUTS))
    return [*mounts, "--ro-bind" if view.fixed else "--bind", str(view.workspace), "/workspace"]


def _read_only(folder: Path, seen_as: Path) -> list[str]:
    # Left to itself bwrap would close the folders above to others, as they may be on the host.
    return ["--dir", str(seen_as), "--ro-bind", str(folder), str(seen_as)]


def _find(program: str) -> str:
    return shutil.which(program) or program


def _mapped(uid: int) -> bool:
    """Whether a user id exists here at all; in a container's user namespace few do."""
    for line in Path("/proc/self/uid_map").read_text().splitlines():
        first, _, count = map(int, line.split())
        if first <= uid < first + count:
            return True
    return False
