"""A tree as one archive, piece by piece.

The pieces are made when they are asked for: nobody waits in a thread for a slow reader, and no more
than a piece is in memory. Links are never followed. A tar has those that stay in the tree, a zip has
none: few programs unpack them, and some unpack them carelessly. For these no name in a zip is a path
that Windows would take for one elsewhere.
"""

from __future__ import annotations

import os
import re
import stat
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Generator, Iterator
from datetime import datetime
from typing import Literal

from interpreter.errors import TooManyFiles
from interpreter.models.files import FileType
from interpreter.workspace import about, beneath, paths
from interpreter.workspace.allowance import MEGABYTE
from interpreter.workspace.walk import Found, open_file, refused, walk

Format = Literal["zip", "tar.gz"]
MIME_TYPES: dict[Format, str] = {"zip": "application/zip", "tar.gz": "application/gzip"}
PIECE = MEGABYTE
LEVEL = 1
"""Of compression: what is sent is to be small, but not to be waited for."""
MOST_NAMES = 20_000_000
"""Bytes of names in a zip: its directory is at its end, and until then they are in memory."""
_ELSEWHERE = re.compile(r"\\|(?<=^[A-Za-z]):")
"""What is a separator, or a drive, to Windows only."""
_GZIP = 16 + zlib.MAX_WBITS
_BLOCK = tarfile.BLOCKSIZE


class Archive:
    """An archive that is being made. Close it, whether it was read to its end or not."""

    def __init__(self, top: int, name: str, format: Format) -> None:
        """Of a directory, or of a single file that is open for reading; takes the descriptor over. It
        is in the archive beneath this name, on top if that is empty."""
        self._source = _Source(top)
        about = os.fstat(top)
        entries = walk(top) if stat.S_ISDIR(about.st_mode) else iter([Found("", about)])
        if format == "zip":
            self._pieces = _zip(_remembered(entries, name), self._source, name)
        else:
            self._pieces = _tar(entries, self._source, name)

    def next(self) -> bytes:
        """The next piece; empty at the end."""
        pieces, size = [], 0
        for piece in self._pieces:
            pieces.append(piece)
            size += len(piece)
            if size >= PIECE // 4:
                break
        return b"".join(pieces)

    def close(self) -> None:
        self._pieces.close()
        self._source.close()


def check(top: int, name: str, format: Format) -> None:
    """Raises TooManyFiles, or FileRefused for what the gateway may not read, before anybody is sent the
    beginning of what cannot be completed."""
    source = _Source(os.dup(top))
    try:
        for found in _remembered(walk(top), name) if format == "zip" else walk(top):
            if os.geteuid() != 0 and found.type is FileType.file:
                source.open(found)
    finally:
        source.close()


class _Source:
    """Where the bytes of files come from: one file at a time is open."""

    def __init__(self, top: int) -> None:
        self.top = top
        self._file = -1

    def open(self, found: Found) -> bool:
        """Whether this file can be read from now on; not if it is gone. Raises FileRefused."""
        self._close_file()
        try:
            self._file = os.dup(self.top) if found.path == "" else open_file(self.top, found.path)
        except PermissionError as e:
            raise refused(found.path) from e
        except OSError:
            return False
        return True

    def read(self, size: int) -> Iterator[bytes]:
        """The bytes of the open file, as many as it had when it was found, or fewer."""
        offset = 0
        while offset < size and (piece := os.pread(self._file, min(PIECE, size - offset), offset)):
            offset += len(piece)
            yield piece

    def close(self) -> None:
        self._close_file()
        os.close(self.top)

    def _close_file(self) -> None:
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)


def _name(name: str, found: Found) -> str:
    """Its name in the archive."""
    return "/".join(part for part in (name, found.path) if part)


# -- tar


def _tar(entries: Iterator[Found], source: _Source, name: str) -> Generator[bytes, None, None]:
    pack = zlib.compressobj(LEVEL, wbits=_GZIP)
    for found in entries:
        for piece in _tar_entry(found, source, name):
            if packed := pack.compress(piece):
                yield packed
    yield pack.compress(bytes(2 * _BLOCK)) + pack.flush()


def _tar_entry(found: Found, source: _Source, name: str) -> Iterator[bytes]:
    info = tarfile.TarInfo(_name(name, found))
    info.mode = stat.S_IMODE(found.about.st_mode) & 0o777
    info.mtime = max(0, found.about.st_mtime_ns // 1_000_000_000)
    match found.type:
        case FileType.directory:
            info.type = tarfile.DIRTYPE
            yield _header(info)
        case FileType.link:
            target = _inner_link(source.top, found.path)
            if target is not None:
                info.type, info.linkname = tarfile.SYMTYPE, target
                yield _header(info)
        case FileType.file:
            if not source.open(found):
                return
            info.size = size = found.about.st_size
            yield _header(info)
            for piece in source.read(size):
                size -= len(piece)
                yield piece
            # It was cut short meanwhile: the archive has promised more.
            yield from _zeros(size + -info.size % _BLOCK)


def _header(info: tarfile.TarInfo) -> bytes:
    return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


def _zeros(size: int) -> Iterator[bytes]:
    while size > 0:
        yield bytes(min(size, PIECE))
        size -= PIECE


def _inner_link(top: int, path: str) -> str | None:
    """What a link says, if that is nowhere else than beneath where it is."""
    try:
        link = beneath.find(top, path, follow_last=False, links=False)
    except OSError:
        return None
    try:
        target = os.readlink("", dir_fd=link)
    except OSError:
        return None
    finally:
        os.close(link)
    inner = not target.startswith("/") and ".." not in target.split("/")
    return target if inner else None


# -- zip


def _remembered(entries: Iterator[Found], name: str) -> Iterator[Found]:
    """The same entries, as long as there is room for their names."""
    taken = 0
    for found in entries:
        taken += sys.getsizeof(paths.readable(_name(name, found)))
        if taken > MOST_NAMES:
            raise TooManyFiles(
                "The names in this tree are too long for a zip.", "Ask for a tar.gz, or for less of it."
            )
        yield found


class _Sink:
    """Takes what the zip's writer writes, until it is fetched."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def write(self, data: bytes) -> int:
        self._pieces.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass

    def fetch(self) -> bytes:
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)


def _zip(entries: Iterator[Found], source: _Source, name: str) -> Generator[bytes, None, None]:
    sink = _Sink()
    # Given something that cannot seek, it writes sizes after the data instead of before.
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED, compresslevel=LEVEL) as packed:
        for found in entries:
            if found.type is FileType.directory:
                packed.writestr(_zip_info(found, name), b"")
            elif found.type is FileType.file and source.open(found):
                size = found.about.st_size
                with packed.open(_zip_info(found, name), "w", force_zip64=size >= 2**31) as file:
                    for piece in source.read(size):
                        file.write(piece)
                        if ready := sink.fetch():
                            yield ready
            if ready := sink.fetch():
                yield ready
    yield sink.fetch()


def _zip_info(found: Found, name: str) -> zipfile.ZipInfo:
    directory = found.type is FileType.directory
    changed = about.modified_at(found.about)
    inside = _ELSEWHERE.sub("_", paths.readable(_name(name, found)))
    info = zipfile.ZipInfo(inside + ("/" if directory else ""), _zip_date(changed))
    info.compress_type = zipfile.ZIP_STORED if directory else zipfile.ZIP_DEFLATED
    info.external_attr = (found.about.st_mode & 0o170777) << 16 | (0x10 if directory else 0)
    return info


def _zip_date(changed: datetime) -> tuple[int, int, int, int, int, int]:
    if not 1980 <= changed.year <= 2107:
        return (1980, 1, 1, 0, 0, 0)
    return changed.timetuple()[:6]
