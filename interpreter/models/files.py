"""The files of a session, as the API speaks of them."""

from __future__ import annotations

import enum
from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct

FilePath = Annotated[str, Meta(min_length=1, max_length=4095)]


class FileType(enum.Enum):
    """What a name in a directory stands for."""

    file = "file"
    directory = "directory"
    link = "link"
    """A symbolic link, wherever it leads."""
    other = "other"
    """A device, a pipe, a socket: listed, and never opened."""


class FileEntry(Struct, frozen=True, kw_only=True):
    """A file or directory of a session's workspace."""

    name: str
    path: str | None
    """From the workspace's top. Null when the name is not UTF-8: then it cannot be asked for here, and
    `name` has the odd bytes written as \\xNN."""
    type: FileType
    size: int
    modified_at: datetime
    mime_type: str | None = None
    """By the name's ending; null for what is not a file."""


class Directory(Struct, frozen=True, kw_only=True):
    """What is in a directory, sorted by name."""

    path: str
    """Empty for the workspace itself."""
    entries: list[FileEntry]
    more: bool = False
    """Whether there are more than are told here."""


class FileMove(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a file or directory is to be moved or copied: one of the two."""

    move_to: FilePath | None = None
    copy_to: FilePath | None = None
    overwrite: bool = False
    """Whether a file that is there already is replaced."""
