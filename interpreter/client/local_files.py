"""Files on this side: what they are called there, and that none is half here."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import BinaryIO

PIECE = 1024 * 1024
Progress = Callable[[int, int | None], object]
"""Is told how many bytes are there, and of how many; None when nobody knows."""


def name_there(local: str | Path, to: str | None) -> str:
    """Where a local file goes in the workspace."""
    if to is None or to == "" or to.endswith("/"):
        return (to or "") + Path(local).name
    return to


def name_here(path: str, to: str | Path | None) -> Path:
    """Where a file of the workspace goes on this machine."""
    target = Path() if to is None else Path(to)
    return target / PurePosixPath(path).name if target.is_dir() else target


@contextmanager
def replacing(target: Path) -> Iterator[BinaryIO]:
    """A file to write to, which takes the place of `target` when all went well."""
    beside = target.with_name(f".{target.name[:50]}-{secrets.token_hex(6)}")
    try:
        with open(beside, "xb") as file:
            yield file
        os.replace(beside, target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def empty(file: BinaryIO) -> None:
    """Throws away what was written: it begins anew."""
    file.seek(0)
    file.truncate()


def pieces(file: BinaryIO, size: int, progress: Progress | None) -> Iterator[bytes]:
    """The first `size` bytes of a file, from its beginning."""
    file.seek(0)
    done = 0
    while done < size:
        piece = file.read(min(PIECE, size - done))
        if not piece:
            raise OSError("The file was cut short while it was uploaded.")
        done += len(piece)
        yield piece
        if progress is not None:
            progress(done, size)
