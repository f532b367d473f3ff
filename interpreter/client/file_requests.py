"""What the SDK asks about files, and how one that is fetched survives a connection that breaks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import BinaryIO, Literal
from urllib.parse import quote

from interpreter import models
from interpreter.client import local_files
from interpreter.client.backoff import Backoff
from interpreter.client.call import Call, Nothing, session_path
from interpreter.client.errors import ConnectionLost
from interpreter.client.local_files import Progress
from interpreter.errors import FileConflict, InterpreterError, InvalidPath
from interpreter.models.files import Directory, FileEntry, FileMove

Format = Literal["zip", "tar.gz"]


class Listing(list[FileEntry]):
    """What is in a directory."""

    def __init__(self, directory: Directory) -> None:
        super().__init__(directory.entries)
        self.more = directory.more
        """Whether there are more, which were not told."""


def file_path(session_id: str, path: str, *, directory: bool = False) -> str:
    """The address of a file. Programs on the way may resolve '..' themselves: it is not sent."""
    names = [name for name in path.split("/") if name not in ("", ".")]
    if path.startswith("/") or ".." in names:
        raise InvalidPath(f"'{path}' is not a path in the workspace.")
    try:
        quoted = "/".join(quote(name, safe="") for name in names)
    except UnicodeEncodeError:
        raise InvalidPath("The path is not UTF-8.") from None
    slash = "/" if directory and quoted else ""
    return f"{session_path(session_id, 'files')}/{quoted}{slash}"


def listing(session_id: str, path: str) -> Call[Directory]:
    return Call(
        method="GET",
        path=file_path(session_id, path, directory=True),
        answer=Directory,
        repeatable=True,
    )


def store(
    session_id: str, path: str, file: BinaryIO, size: int, progress: Progress | None = None
) -> Call[FileEntry]:
    """Repeatable: a file that is stored twice is the same file."""
    return Call(
        method="PUT",
        path=file_path(session_id, path),
        headers={"Content-Length": str(size)},
        content=lambda: local_files.pieces(file, size, progress),
        answer=FileEntry,
        waits=True,
        repeatable=True,
    )


def make_directory(session_id: str, path: str) -> Call[FileEntry]:
    path = file_path(session_id, path, directory=True)
    return Call(method="PUT", path=path, answer=FileEntry, repeatable=True)


def delete(session_id: str, path: str, recursive: bool) -> Call[None]:
    return Call(
        method="DELETE",
        path=file_path(session_id, path),
        params={"recursive": "true"} if recursive else {},
        answer=Nothing,
        waits=True,
    )


def move(session_id: str, path: str, to: str, overwrite: bool) -> Call[FileEntry]:
    return _change(session_id, path, FileMove(move_to=to, overwrite=overwrite))


def copy(session_id: str, path: str, to: str, overwrite: bool) -> Call[FileEntry]:
    return _change(session_id, path, FileMove(copy_to=to, overwrite=overwrite))


def _change(session_id: str, path: str, change: FileMove) -> Call[FileEntry]:
    return Call(
        method="POST",
        path=file_path(session_id, path),
        body=models.to_json(change),
        answer=FileEntry,
        waits=True,
    )


def archive_format(name: str, format: Format | None) -> Format:
    """What was asked for, or what the name says."""
    return format or ("tar.gz" if name.endswith((".tar.gz", ".tgz")) else "zip")


class Fetch:
    """One file or archive on its way here, over as many connections as it takes.

    A file goes on where it broke off, unless it has changed; an archive begins again.
    """

    def __init__(
        self, session_id: str, path: str, patience: float, format: Format | None = None
    ) -> None:
        self.done = 0
        self.total: int | None = None
        self._path = path
        self._address = file_path(session_id, path)
        self._format = format
        self._etag: str | None = None
        self._backoff = Backoff(patience, repeatable=True)
        self.finished = False

    def call(self) -> Call[None]:
        self._backoff.trying()
        going_on = {"Range": f"bytes={self.done}-", "If-Range": self._etag or ""}
        return Call(
            method="GET",
            path=self._address,
            params={"archive": self._format} if self._format else {},
            headers={"Accept": "*/*", **(going_on if self.done and self._etag else {})},
            answer=Nothing,
            waits=self._format is not None,
        )

    def begins(self, status: int, headers: Mapping[str, str]) -> bool:
        """Looks at an answer; returns whether it is from the beginning, whatever there is already."""
        if "Content-Disposition" not in headers:
            raise FileConflict(f"'{self._path}' is a directory.", "List it, or get it as an archive.")
        from_start = status != 206
        if from_start:
            self.done = 0
        length = headers.get("Content-Length", "")
        self.total = self.done + int(length) if length.isdecimal() else None
        self._etag = headers.get("ETag")
        return from_start

    def advance(self, size: int) -> None:
        self.done += size
        self._backoff.works()

    def ended(self) -> None:
        """The answer has come to its end."""
        if self.total is not None and self.done < self.total:
            raise ConnectionLost(f"Only {self.done:,} of {self.total:,} bytes arrived.")
        self.finished = True

    def failed(self, error: InterpreterError) -> float:
        """How long to wait before going on; raises the error if that makes no sense."""
        return self._backoff.pause_after(error)
