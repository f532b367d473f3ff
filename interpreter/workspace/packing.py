"""A workspace as one file: packed, restored and copied by processes of their own.

Compressing, and reading names that a sandbox chose, would hold up everything else the gateway does,
and reading a hostile archive could take all of its memory. The processes have limits, know nothing
but their folder, and wait when nobody takes what they make or sends what they read.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
from msgspec import Struct

from interpreter.errors import FilesUnreachable, InvalidArchive, NoSpaceLeft, SandboxFailed
from interpreter.workspace import pack as packer
from interpreter.workspace import restore as restorer
from interpreter.workspace.turns import turn

PIECE = 256 * 1024
MEGABYTE = 1024 * 1024
FILES_PER_MEGABYTE = 64
"""As many as a file system of this size has room for."""


class _Said(Struct):
    """What a process says: one of these."""

    bytes: int | None = None
    done: bool = False
    failed: str | None = None
    refused: str | None = None
    full: bool = False


class Packed:
    """An archive that is being made."""

    def __init__(self, process: Process, uncompressed: int) -> None:
        self.uncompressed = uncompressed
        """About how many bytes it has when it is unpacked."""
        self._process = process

    async def pieces(self) -> AsyncIterator[bytes]:
        """Raises SandboxFailed when it cannot be made as a whole."""
        assert self._process.stdout is not None
        while piece := await self._process.stdout.read(PIECE):
            yield piece
        await _finished_packing(self._process)


@contextlib.asynccontextmanager
async def packed(folder: Path) -> AsyncIterator[Packed]:
    """Begins to pack a folder. Raises FilesUnreachable for one that cannot be packed."""
    async with turn(), _started(packer.__file__, folder, compress=True) as process:
        yield Packed(process, await _measured(process))


async def restore(folder: Path, archive: AsyncIterator[bytes], megabytes: int) -> None:
    """Fills an empty folder. Raises InvalidArchive, or NoSpaceLeft when so many do not hold it."""
    async with turn(), _restoring(folder, megabytes, PIPE) as process:
        verdict = asyncio.ensure_future(_verdict(process))
        try:
            await _feed(process, archive, verdict)
            await verdict
        finally:
            verdict.cancel()
            await asyncio.gather(verdict, return_exceptions=True)


async def _feed(process: Process, archive: AsyncIterator[bytes], verdict: asyncio.Future[None]) -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the verdict says why
        async for piece in archive:
            process.stdin.write(piece)
            await process.stdin.drain()
            if verdict.done():
                return
        process.stdin.close()
        await process.stdin.wait_closed()


async def copy(source: Path, folder: Path, megabytes: int) -> None:
    """Fills an empty folder with what is in another. Raises the same as packing and restoring."""
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(turn())
        outlet, inlet = os.pipe()
        try:
            packing = await stack.enter_async_context(
                _started(packer.__file__, source, stdout=inlet, compress=False)
            )
            restoring = await stack.enter_async_context(_restoring(folder, megabytes, outlet))
        finally:
            os.close(outlet)
            os.close(inlet)
        await _measured(packing)
        try:
            await _verdict(restoring)
        except InvalidArchive:
            await _finished_packing(packing)  # it may not be the archive's fault
            raise
        await _finished_packing(packing)


# -- the processes


@contextlib.asynccontextmanager
async def _started(
    program: str, folder: Path, *, stdin: int = DEVNULL, stdout: int = PIPE, **told: object
) -> AsyncIterator[Process]:
    """A process that works on a folder, and is gone in the end."""
    root = await asyncio.to_thread(os.open, folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", program),
            msgspec.json.encode({"root": root, **told}).decode(),
            stdin=stdin,
            stdout=stdout,
            stderr=PIPE if program == packer.__file__ else DEVNULL,
            env={"LC_ALL": "C.UTF-8"},
            pass_fds=[root],
        )
    finally:
        os.close(root)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await asyncio.shield(_gone(process))


async def _gone(process: Process) -> None:
    # Only when the last of what it wrote is read does anyone notice that it has ended.
    for stream in (process.stdout, process.stderr):
        while stream is not None and await stream.read(PIECE):
            pass
    await process.wait()


@contextlib.asynccontextmanager
async def _restoring(folder: Path, megabytes: int, stdin: int) -> AsyncIterator[Process]:
    owner = await asyncio.to_thread(os.stat, folder)
    async with _started(
        restorer.__file__,
        folder,
        stdin=stdin,
        uid=owner.st_uid,
        gid=owner.st_gid,
        bytes=megabytes * MEGABYTE,
        entries=megabytes * FILES_PER_MEGABYTE,
    ) as process:
        yield process


async def _measured(process: Process) -> int:
    said = await _line(process.stderr)
    if said.bytes is None:
        raise FilesUnreachable(
            f"The workspace cannot be packed: {said.failed or 'it takes too long'}.",
            "Change that with a cell, and try again.",
        )
    return said.bytes


async def _finished_packing(process: Process) -> None:
    said = await _line(process.stderr)
    if not said.done:
        raise SandboxFailed(f"The workspace could not be packed: {said.failed or 'it was ended'}.")


async def _verdict(process: Process) -> None:
    said = await _line(process.stdout)
    if said.done:
        return
    if said.full:
        raise NoSpaceLeft("What is in the archive does not fit into the workspace.")
    if said.refused is not None:
        raise InvalidArchive(f"The archive is not restored: {said.refused}.")
    raise InvalidArchive("The archive is not restored: it takes too much memory or time.")


async def _line(stream: asyncio.StreamReader | None) -> _Said:
    assert stream is not None
    try:
        return msgspec.json.decode(await stream.readline() or b"{}", type=_Said)
    except (msgspec.DecodeError, ValueError):
        return _Said()
