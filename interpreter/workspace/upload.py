"""Writing a file as it comes in: in pieces, with flat memory, off the event loop."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

from interpreter.workspace.finishing import finished
from interpreter.workspace.room import Claim, check_disk

PIECE = 1024 * 1024
FILE_MODE = 0o444


class _File:
    """A new file and its checksum. All calls block."""

    def __init__(self, path: Path) -> None:
        self._folder = path.parent
        self._file = path.open("xb", buffering=0)
        self._digest = hashlib.sha256()
        self.size = 0

    def write(self, pieces: list[bytes]) -> None:
        check_disk(self._folder)
        for piece in pieces:
            rest = memoryview(piece)
            while rest:
                rest = rest[self._file.write(rest) :]
            self._digest.update(piece)
            self.size += len(piece)

    def close(self) -> None:
        self._file.close()

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()


async def write_file(path: Path, chunks: AsyncIterator[bytes], claim: Claim) -> tuple[int, str]:
    """Writes a new file; returns its size and its SHA-256. Raises DatasetsFull at the first byte for
    which there is no room; what has been written by then is for the caller to remove."""
    file = await finished(_File, path)
    try:
        pieces: list[bytes] = []
        gathered = 0
        async for chunk in chunks:
            claim.take(len(chunk))
            pieces.append(chunk)
            gathered += len(chunk)
            if gathered >= PIECE:
                await finished(file.write, pieces)
                pieces, gathered = [], 0
        await finished(file.write, pieces)
        await finished(path.chmod, FILE_MODE)
    finally:
        await finished(file.close)
    return file.size, file.sha256
