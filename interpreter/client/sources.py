"""What can be uploaded, as bytes in pieces: a file, a folder, or bytes.

A folder goes as a tar file that is made while it is sent, so that nothing is written anywhere and
memory stays flat. Each source can be read again, for an upload that is sent again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from interpreter.errors import InvalidRequest

PIECE = 256 * 1024
BLOCK = 512

Progress = Callable[[int, int | None], None]
"""Is told how many bytes were sent, and how many there are if that is known."""


@dataclass(frozen=True)
class Source:
    """Bytes to send, read as often as they are sent."""

    pieces: Callable[[], Iterator[bytes]]
    size: int | None
    filename: str | None
    """The name of a file; None for one without, and for a folder."""
    is_archive: bool = False

    def read(self, progress: Progress | None) -> Iterator[bytes]:
        sent = 0
        for piece in self.pieces():
            yield piece
            sent += len(piece)
            if progress is not None:
                progress(sent, self.size)


def source_of(given: str | os.PathLike[str] | bytes) -> Source:
    """Raises InvalidRequest for a path that leads to nothing that can be sent."""
    if isinstance(given, bytes):
        return Source(lambda: _slices(given), len(given), None)
    path = Path(given)
    if path.is_dir():
        files = list(_files_of(path))
        return Source(lambda: _tar(files), None, None, is_archive=True)
    if not path.is_file():
        raise InvalidRequest(f"'{path}' is neither a file nor a folder.", "Check the path.")
    return Source(lambda: _read(path), path.stat().st_size, path.name)


def _slices(content: bytes) -> Iterator[bytes]:
    for start in range(0, len(content), PIECE):
        yield content[start : start + PIECE]


def _read(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            yield piece


def _files_of(folder: Path) -> Iterator[tuple[str, Path]]:
    """The files below a folder and what they are called in it, in order."""
    for here, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted([*names, *(f for f in folders if os.path.islink(os.path.join(here, f)))]):
            path = Path(here, name)
            if not path.is_file():
                raise InvalidRequest(
                    f"'{path}' is neither a file nor a folder.", "Only those can be sent: remove it."
                )
            yield str(path.relative_to(folder)), path


def _tar(files: list[tuple[str, Path]]) -> Iterator[bytes]:
    import tarfile  # takes a while, and most programs do without

    for name, path in files:
        info = tarfile.TarInfo(name)
        with path.open("rb") as file:
            info.size = left = os.fstat(file.fileno()).st_size
            yield info.tobuf(tarfile.PAX_FORMAT)
            while left:
                piece = file.read(min(PIECE, left))
                if not piece:
                    raise InvalidRequest(f"'{path}' became shorter while it was sent.", "Send it again.")
                yield piece
                left -= len(piece)
        yield b"\0" * (-info.size % BLOCK)
    yield b"\0" * (2 * BLOCK)
