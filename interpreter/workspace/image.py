"""A file system of fixed size: an ext4 image in a sparse file, mounted with a loop device.

The kernel holds a session to it: when it is full, writing fails with "no space left on device",
and so does making one file too many. Nothing outside of it notices. It has no journal and keeps no
room for root. It takes of the host's disk what is in it, as what is deleted inside is given back.

What is inside was written by the sandbox. It is never walked: an image goes by unmounting it and
deleting the file.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import struct
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

MEGABYTE = 1024 * 1024
BLOCK = 4096
EMPTY_BYTES = 2 * BLOCK
"""Taken in an empty image: its root directory, and what is kept ready for growing."""
FORMAT = (
    *("-q", "-F", "-b", str(BLOCK), "-i", "16384", "-m", "0"),
    *("-O", "^has_journal", "-E", "lazy_itable_init=1"),
)
# The tables of a sparse file are zeros already, and a damaged image is not written any further.
OPTIONS = "loop,nosuid,nodev,noatime,discard,noinit_itable,errors=remount-ro"
TOOLS = {
    "mkfs.ext4": "e2fsprogs",
    "resize2fs": "e2fsprogs",
    "e2fsck": "e2fsprogs",
    "losetup": "util-linux",
    "mount": "util-linux",
    "umount": "util-linux",
}
DETACH_SECONDS, DETACH_POLL = 10.0, 0.01
"""The kernel tells nobody when it lets go of a device."""
SHUT_DOWN, WITHOUT_WRITING = 0x8004587D, struct.pack("I", 2)
"""FS_IOC_SHUTDOWN: a file system that is thrown away need not be written to the disk first."""


class CommandFailed(OSError):
    """A command that works on images did not do its work; says why."""


@dataclass(frozen=True)
class Image:
    """An image file and the place where it is mounted. All calls block."""

    file: Path
    at: Path

    @property
    def exists(self) -> bool:
        return self.mounted or self.file.exists()

    @property
    def mounted(self) -> bool:
        return os.path.ismount(self.at)

    @property
    def megabytes(self) -> int:
        return self.file.stat().st_size // MEGABYTE

    def make(self, megabytes: int) -> None:
        """Makes and mounts an empty one; leaves nothing when it cannot."""
        self.at.mkdir(mode=0o700, parents=True)
        try:
            with open(os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.truncate(megabytes * MEGABYTE)
            _run("mkfs.ext4", *FORMAT, self.file)
            self.mount()
            (self.at / "lost+found").rmdir()
            self.at.chmod(0o700)
        except BaseException:
            self.remove()
            raise

    def mount(self) -> None:
        """Mounts it. If it is mounted elsewhere, in a sandbox, it is the same file system.

        It is shared: a sandbox that has it sees what is mounted over it later (`mount_over`).
        """
        self.at.mkdir(mode=0o700, exist_ok=True)
        how = ("--no-mtab", "--make-shared", "--types", "ext4", "--options", OPTIONS)
        _run("mount", *how, self.file, self.at)

    def unmount(self) -> None:
        """Unmounts it, which frees the loop device; when it is in use, as soon as it is not."""
        while self.mounted:
            try:
                _run("umount", "--no-mtab", self.at)
            except CommandFailed:
                _run("umount", "--no-mtab", "--lazy", self.at)

    def remove(self) -> None:
        """Throws it away with everything in it."""
        if self._device() is not None:
            with contextlib.suppress(OSError):
                self._shut_down()
        self.unmount()
        self.file.unlink(missing_ok=True)
        with contextlib.suppress(FileNotFoundError):
            self.at.rmdir()

    def used(self) -> int:
        """The bytes that files take in it; of one that is not mounted, what it takes of the disk."""
        if not self.mounted:
            return self.file.stat().st_blocks * 512
        stat = os.statvfs(self.at)
        return max(0, (stat.f_blocks - stat.f_bfree) * stat.f_frsize - EMPTY_BYTES)

    def grow(self, megabytes: int) -> bool:
        """Makes it larger. False, and as it was, when that cannot be: of one that is mounted the
        kernel asks for CAP_SYS_RESOURCE, which not every root has."""
        before, device = self.megabytes, self._device()
        if megabytes <= before:
            return megabytes == before
        if not self.mounted:
            return self._grow_at_rest(before, megabytes)
        if device is None:
            return False
        try:
            self._resize(device, megabytes)
            _run("resize2fs", device)
        except OSError:
            self._resize(device, before)
            return False
        return True

    def _grow_at_rest(self, before: int, megabytes: int) -> bool:
        # A sandbox that has just ended may hold it a moment longer, unseen from here. The kernel
        # would write its own idea of it over what is changed behind its back.
        deadline = time.monotonic() + DETACH_SECONDS
        while self._attached():
            if time.monotonic() > deadline:
                return False
            time.sleep(DETACH_POLL)
        try:
            # resize2fs insists on it; a file system without a journal has no other way to be sure.
            _run("e2fsck", "-f", "-p", self.file, fine=(0, 1))
            os.truncate(self.file, megabytes * MEGABYTE)
            _run("resize2fs", self.file)
        except OSError:
            os.truncate(self.file, before * MEGABYTE)
            return False
        return True

    def _attached(self) -> bool:
        """Whether a loop device has it, wherever that is mounted."""
        for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
            with contextlib.suppress(OSError):  # it was detached just now
                if backing.read_text().removesuffix("\n") == str(self.file.resolve()):
                    return True
        return False

    def _resize(self, device: Path, megabytes: int) -> None:
        os.truncate(self.file, megabytes * MEGABYTE)
        _run("losetup", "--set-capacity", device)

    def _device(self) -> Path | None:
        """The loop device, if what is mounted here is this image and nothing else."""
        if not self.mounted:
            return None
        number = self.at.stat().st_dev
        block = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
        try:
            backing = (block / "loop/backing_file").read_text().removesuffix("\n")
        except OSError:
            return None
        return Path("/dev", block.resolve().name) if backing == str(self.file.resolve()) else None

    def _shut_down(self) -> None:
        place = os.open(self.at, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            fcntl.ioctl(place, SHUT_DOWN, WITHOUT_WRITING)
        finally:
            os.close(place)


def usable(trial: Image) -> str | None:
    """None when images can be used here, found out by making one; else the reason."""
    if os.geteuid() != 0:
        return "the gateway does not run as root"
    for tool, package in TOOLS.items():
        if _find(tool) is None:
            return f"{tool} ({package}) is not installed"
    try:
        trial.remove()  # what a gateway left that was killed at this point
        trial.make(16)
        capped = _size(trial.at) <= 16 * MEGABYTE
        trial.remove()
    except OSError as e:
        return str(e)
    return None if capped else "a mounted image is not as large as it was made"


def _size(mounted: Path) -> int:
    stat = os.statvfs(mounted)
    return stat.f_blocks * stat.f_frsize


def _find(tool: str) -> str | None:
    # Not everyone who is root has the administrator's commands in the path.
    return shutil.which(tool, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")


def _run(tool: str, *words: str | Path, fine: Sequence[int] = (0,)) -> None:
    done = subprocess.run(
        [_find(tool) or tool, *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env={"LC_ALL": "C", "PATH": f"{os.defpath}:/usr/sbin:/sbin"},
    )
    if done.returncode not in fine:
        said = " ".join(done.stderr.decode(errors="replace").split())
        raise CommandFailed(f"{tool} failed: {said or f'exit code {done.returncode}'}")
