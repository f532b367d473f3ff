"""Datasets: files that are uploaded once and that many sessions can see.

    datasets/versions/V/        the files of one upload, as they are: nobody changes them any more
    datasets/versions/V.json    what it is: its name, its files, their sizes and checksums
    datasets/names/NAME         which version the name stands for

A version is complete before a name stands for it, so nobody ever sees half an upload. Uploading anew
makes another version. The old one stays as long as a session has it, and is counted as long.

Everyone may read the files, and nobody may write them: sandboxes run as users of their own.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import os
import re
import secrets
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import structlog
from msgspec import Struct

from interpreter.errors import DatasetNotFound, DatasetsFull, InvalidPath
from interpreter.workspace import archives
from interpreter.workspace.archives import PackedFile
from interpreter.workspace.finishing import finished
from interpreter.workspace.room import MEGABYTE, Claim, Room, no_space
from interpreter.workspace.upload import write_file

log = structlog.get_logger()

MOST_DATASETS = 10_000
LONGEST_NAME = 255
FOLDER_MODE = 0o755
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
ID = re.compile("v-[0-9a-f]{16}")


class Version(Struct, frozen=True, kw_only=True):
    """One upload, without the list of its files."""

    name: str
    version: str
    created_at: datetime
    bytes: int
    file_count: int


class _Manifest(Version, frozen=True, kw_only=True):
    files: list[PackedFile]


Fill = Callable[[Path, Claim], Awaitable[list[PackedFile]]]
"""Puts files into a new folder, and takes the room for them."""


class Datasets:
    """All datasets of a gateway."""

    def __init__(self, root: Path, megabytes: int) -> None:
        self.room = Room(megabytes * MEGABYTE)
        self.in_use: Callable[[], set[str]] = set
        """Tells which versions sessions have."""
        self._names_folder = root / "names"
        self._folder = root / "versions"
        self._versions: dict[str, Version] = {}
        self._current: dict[str, str] = {}
        self._pinned: Counter[str] = Counter()
        """Versions that are about to be attached, or are being uploaded."""
        self._naming = asyncio.Lock()

    async def prepare(self) -> None:
        """Called once at start: finds what there is."""
        versions, self._current = await asyncio.to_thread(self._load)
        self._versions = {version.version: version for version in versions}
        self.room.taken = sum(version.bytes for version in versions)

    def _load(self) -> tuple[list[Version], dict[str, str]]:
        for folder in (self._names_folder, self._folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        decode = msgspec.json.Decoder(Version).decode
        versions = []
        for path in self._folder.glob("*.json"):
            try:
                versions.append(decode(path.read_bytes()))
            except (OSError, msgspec.DecodeError) as e:
                log.error("a dataset cannot be read", file=str(path), reason=str(e))
        there = {version.version for version in versions}
        names = [path for path in self._names_folder.iterdir() if not path.name.startswith(".")]
        current = {path.name: path.read_text().strip() for path in names}
        return versions, {name: version for name, version in current.items() if version in there}

    # -- looking

    def all(self) -> list[Version]:
        return [self._versions[self._current[name]] for name in sorted(self._current)]

    def has(self, name: str) -> bool:
        return name in self._current

    def get(self, name: str) -> Version:
        """The version that a name stands for now."""
        if name not in self._current:
            raise DatasetNotFound(f"There is no dataset '{name[:100]}'.")
        return self._versions[self._current[name]]

    async def files(self, version: str) -> list[PackedFile]:
        read = self._manifest(version).read_bytes
        try:
            return msgspec.json.decode(await asyncio.to_thread(read), type=_Manifest).files
        except FileNotFoundError:
            raise DatasetNotFound("This dataset was just deleted.") from None

    def path(self, version: str) -> Path:
        """Where the files of a version are, to be linked to."""
        return self._folder / version

    @contextlib.contextmanager
    def pinned(self, *versions: str) -> Iterator[None]:
        """They stay as long as this lasts, whatever happens to their names."""
        self._pinned.update(versions)
        try:
            yield
        finally:
            self._pinned.subtract(versions)

    # -- changing

    async def upload_file(self, name: str, filename: str, chunks: AsyncIterator[bytes]) -> Version:
        """A dataset of one file."""
        check_file_name(filename)

        async def fill(folder: Path, claim: Claim) -> list[PackedFile]:
            size, sha256 = await write_file(folder / filename, chunks, claim)
            return [PackedFile(filename, size, sha256)]

        return await self._upload(name, fill)

    async def upload_archive(self, name: str, chunks: AsyncIterator[bytes]) -> Version:
        """A dataset of what is in an archive."""

        async def fill(folder: Path, claim: Claim) -> list[PackedFile]:
            archive = folder.with_suffix(".archive")
            try:
                size, _ = await write_file(archive, chunks, claim)
                files = await archives.unpack(archive, folder, claim)
            finally:
                await finished(archive.unlink, missing_ok=True)
            claim.give(size)
            return files

        return await self._upload(name, fill)

    async def _upload(self, name: str, fill: Fill) -> Version:
        if name not in self._current and len(self._current) >= MOST_DATASETS:
            raise DatasetsFull(f"There are {MOST_DATASETS:,} datasets, and no more may be.")
        id, claim = f"v-{secrets.token_hex(8)}", Claim(self.room)
        with self.pinned(id):
            try:
                await finished(_make, self.path(id))
                files = await fill(self.path(id), claim)
                now = datetime.now(UTC)
                made = Version(
                    name=name, version=id, created_at=now, bytes=claim.bytes, file_count=len(files)
                )
                publishing = asyncio.create_task(self._publish(made, files))
                try:
                    await asyncio.shield(publishing)
                except asyncio.CancelledError:
                    await asyncio.wait({publishing})
                    raise
            except BaseException as e:
                if id in self._versions:
                    raise  # the caller has left, and it is there all the same
                await finished(self._remove, id)
                claim.release()
                if isinstance(e, OSError) and e.errno in NO_ROOM:
                    raise no_space() from e
                raise
        await self.collect()
        return made

    async def _publish(self, made: Version, files: list[PackedFile]) -> None:
        manifest = _Manifest(**msgspec.structs.asdict(made), files=files)
        await finished(self._complete, manifest)
        async with self._naming:
            await finished(_write, self._names_folder / made.name, made.version.encode())
            self._versions[made.version] = made
            self._current[made.name] = made.version

    def _complete(self, manifest: _Manifest) -> None:
        # On the disk before anyone is told of it.
        _sync(self.path(manifest.version))
        _write(self._manifest(manifest.version), msgspec.json.encode(manifest))

    async def delete(self, name: str) -> Version:
        """Sessions that have it keep it."""
        async with self._naming:
            version = self.get(name)
            await finished((self._names_folder / name).unlink, missing_ok=True)
            del self._current[name]
        await self.collect()
        return version

    async def collect(self) -> None:
        """Removes versions that no name stands for and no session has.

        Called whenever that may have become so, and every few minutes.
        """
        kept = {*self._current.values(), *self.in_use(), *+self._pinned}
        # All at once, so that nobody else who collects meanwhile takes them for theirs.
        gone = [self._versions.pop(version) for version in list(self._versions) if version not in kept]
        if not gone:
            return
        try:
            await finished(self._remove, *(version.version for version in gone))
        finally:
            self.room.taken -= sum(version.bytes for version in gone)

    async def sweep(self) -> None:
        """Removes what uploads left that were ended with their gateway, and what nobody has."""
        await self.collect()
        names = await asyncio.to_thread(os.listdir, self._folder)
        for version in {name.lstrip(".").partition(".")[0] for name in names}:
            # Asked only now: it may have been made since the sweep began.
            if ID.fullmatch(version) and version not in self._versions and not self._pinned[version]:
                await finished(self._remove, version)

    def _remove(self, *versions: str) -> None:
        for version in versions:
            # The manifest first: what is left of a removal that is cut short is nobody's.
            self._manifest(version).unlink(missing_ok=True)
            for leftover in self._folder.glob(f".{version}.*"):
                leftover.unlink(missing_ok=True)
            self.path(version).with_suffix(".archive").unlink(missing_ok=True)
            shutil.rmtree(self.path(version), ignore_errors=True)

    def _manifest(self, version: str) -> Path:
        return self._folder / f"{version}.json"


def check_file_name(name: str) -> None:
    hint = "A name has at most 255 bytes of UTF-8, and neither '/' nor NUL in it."
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise InvalidPath("The name of the file is not UTF-8.", hint) from None
    if name in ("", ".", "..") or "/" in name or "\0" in name or size > LONGEST_NAME:
        raise InvalidPath("This cannot be the name of a file.", hint)


def _make(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(FOLDER_MODE)


def _write(path: Path, content: bytes) -> None:
    """All of it or nothing, also when the machine stops in the middle."""
    made = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    with made.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    made.replace(path)


def _sync(folder: Path) -> None:
    """Everything of the folder's file system is on the disk: one call instead of one for each file."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(fd) != 0:
            raise OSError(ctypes.get_errno(), "the files could not be written to the disk")
    finally:
        os.close(fd)
