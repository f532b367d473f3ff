"""Having an archive unpacked by a process of its own, which asks for the room it needs."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from pathlib import Path

import msgspec
from msgspec import Struct

from interpreter.errors import InvalidArchive
from interpreter.workspace import unpack as program
from interpreter.workspace.finishing import finished
from interpreter.workspace.room import Claim, check_disk, no_space
from interpreter.workspace.turns import turn

MOST_ENTRIES = 10_000


class PackedFile(Struct, frozen=True):
    """A file of a dataset, as it is written down."""

    path: str
    size: int
    sha256: str


class _Line(Struct):
    """What the process says: one of these."""

    path: str | None = None
    size: int = 0
    sha256: str = ""
    more: int = 0
    refused: str | None = None
    full: bool = False
    done: bool = False


async def unpack(archive: Path, folder: Path, claim: Claim) -> list[PackedFile]:
    """Fills the empty folder with what is in the archive.

    Raises InvalidArchive, and DatasetsFull as soon as it takes more room than there is; what has been
    written by then is for the caller to remove.
    """
    async with turn():
        files = await _unpack(archive, folder, claim)
    return sorted(files, key=lambda file: file.path)


async def _unpack(archive: Path, folder: Path, claim: Claim) -> list[PackedFile]:
    words = [program.__file__, str(archive), str(folder), str(MOST_ENTRIES)]
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", *words),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={"LC_ALL": "C.UTF-8"},
    )
    try:
        return await _listen(child, folder, claim)
    finally:
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        await asyncio.shield(child.wait())


async def _listen(child: asyncio.subprocess.Process, folder: Path, claim: Claim) -> list[PackedFile]:
    assert child.stdin is not None
    assert child.stdout is not None
    files: list[PackedFile] = []
    granted = 0
    async for line in child.stdout:
        said = msgspec.json.decode(line, type=_Line)
        if said.path is not None:
            files.append(PackedFile(said.path, said.size, said.sha256))
        elif said.more:
            claim.take(said.more)
            await finished(check_disk, folder)
            granted += said.more
            child.stdin.write(b"ok\n")
        elif said.full:
            raise no_space()
        elif said.refused is not None:
            raise InvalidArchive(f"The archive is not unpacked: {said.refused}.")
        elif said.done:
            claim.give(granted - sum(file.size for file in files))
            return files
    raise InvalidArchive(
        "The archive is not unpacked: it takes too much memory or time.",
        "Send an archive with plain headers, or its files one by one.",
    )
