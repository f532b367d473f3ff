"""Reading a tar file that somebody sent, as a whole or not at all.

Python's reader takes a damaged entry, or a file that is cut off between two, for the end. Here only the
block of zeros is the end that every tar file has, and what is behind it is read, too: the checksum of
a compressed one is at its very end.

It is read in processes of their own, which have nothing but the standard library and this file.
"""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Callable, Iterator
from typing import IO, Any, BinaryIO

PIECE = 1024 * 1024


class Refused(Exception):
    """What is wrong with an archive, for whoever sent it."""


class Entry(tarfile.TarInfo):
    """An entry that has to be whole."""

    @classmethod
    def frombuf(cls, buf: Any, encoding: Any, errors: Any) -> Any:
        try:
            return super().frombuf(buf, encoding, errors)
        except tarfile.EOFHeaderError:  # type: ignore[attr-defined]
            raise
        except tarfile.HeaderError:
            raise Refused("it is damaged, or not a tar file") from None


def entries(
    source: io.BufferedReader, passed: Callable[[int], None]
) -> Iterator[tuple[tarfile.TarInfo, IO[bytes] | None]]:
    """Each entry, with the contents of one that is a file, to be read before the next. `passed` is told
    how many bytes were read behind the end, and may raise an error."""
    zipped = source.peek(2)[:2] == b"\x1f\x8b"
    stream: BinaryIO = gzip.GzipFile(fileobj=source) if zipped else source  # type: ignore[assignment]
    with tarfile.open(
        fileobj=stream, mode="r|", bufsize=PIECE, tarinfo=Entry,
        encoding="utf-8", errors="surrogateescape",
    ) as archive:  # fmt: skip
        while (entry := archive.next()) is not None:
            yield entry, archive.extractfile(entry) if entry.isreg() else None
            # Else it would remember all of them.
            archive.members = []  # type: ignore[attr-defined]
    while rest := stream.read(PIECE):
        passed(len(rest))
