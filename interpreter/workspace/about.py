"""What is told of a file: its entry in a listing and its ETag."""

from __future__ import annotations

import os
import stat
from datetime import UTC, datetime

from interpreter.models.files import FileEntry, FileType
from interpreter.workspace import paths
from interpreter.workspace.mime import UNKNOWN, mime_type


def etag(about: os.stat_result) -> str:
    # A cell can set the one time back after it has changed a file, but not the other.
    return f'"{about.st_ino:x}-{about.st_size:x}-{about.st_mtime_ns:x}-{about.st_ctime_ns:x}"'


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
        mime_type=(mime_type(paths.readable(name)) or UNKNOWN) if kind is FileType.file else None,
    )
