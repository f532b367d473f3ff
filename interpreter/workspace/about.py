"""What is told of a file: its entry in a listing, its ETag, its MIME type."""

from __future__ import annotations

import mimetypes
import os
import stat
from datetime import UTC, datetime

from interpreter.models.files import FileEntry, FileType
from interpreter.workspace import paths

UNKNOWN = "application/octet-stream"
# What the standard library knows, not what the machine's own lists say: the same everywhere.
_types = mimetypes.MimeTypes()
for _type, _ending in (
    ("application/gzip", ".gz"),
    ("application/vnd.apache.parquet", ".parquet"),
    ("application/vnd.apache.arrow.file", ".feather"),
    ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", ".xlsx"),
    ("application/x-ipynb+json", ".ipynb"),
    ("application/yaml", ".yaml"),
    ("application/yaml", ".yml"),
    ("image/webp", ".webp"),
    ("text/markdown", ".md"),
):
    _types.add_type(_type, _ending)
_PACKED = {"gzip": "application/gzip", "bzip2": "application/x-bzip2", "xz": "application/x-xz"}


def mime_type(name: str) -> str:
    """By the ending of a name; nobody looks inside."""
    guessed, encoding = _types.guess_type("x" + name.replace(":", "_"))
    if encoding is not None:
        return _PACKED.get(encoding, UNKNOWN)
    return guessed or UNKNOWN


def etag(about: os.stat_result) -> str:
    return f'"{about.st_ino:x}-{about.st_size:x}-{about.st_mtime_ns:x}"'


def modified_at(about: os.stat_result) -> datetime:
    try:
        return datetime.fromtimestamp(about.st_mtime_ns // 1000 / 1e6, UTC)
    except (OverflowError, ValueError, OSError):
        # A sandbox can give its files any date, also one that no calendar has.
        return datetime.fromtimestamp(0, UTC)


def file_type(mode: int) -> FileType:
    if stat.S_ISREG(mode):
        return FileType.file
    if stat.S_ISDIR(mode):
        return FileType.directory
    return FileType.link if stat.S_ISLNK(mode) else FileType.other


def entry(path: str, about: os.stat_result) -> FileEntry:
    name = paths.split(path)[1]
    kind = file_type(about.st_mode)
    return FileEntry(
        name=paths.readable(name),
        path=path if paths.is_utf8(path) else None,
        type=kind,
        size=about.st_size,
        modified_at=modified_at(about),
        mime_type=mime_type(paths.readable(name)) if kind is FileType.file else None,
    )
