"""The files of a session, for programs that wait."""

from __future__ import annotations

import os
import time
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from interpreter.client import file_requests, local_files
from interpreter.client.carrier import Carrier
from interpreter.client.file_requests import Fetch, Format, Listing
from interpreter.client.local_files import PIECE, Progress
from interpreter.errors import InterpreterError
from interpreter.models.files import FileEntry


class Files:
    """The files in a session's workspace; paths are relative to it. `progress` is called with the bytes
    that are there, and how many there will be."""

    def __init__(self, carrier: Carrier, session_id: str) -> None:
        self._carrier = carrier
        self._session_id = session_id

    def list(self, path: str = "") -> Listing:
        """What is in a directory, sorted by name; at most 10,000, and then `more` is true."""
        return Listing(self._carrier.send(file_requests.listing(self._session_id, path)))

    def read(self, path: str) -> bytes:
        """The contents of a file."""
        contents = BytesIO()
        self._fetch(self._file(path), contents, None)
        return contents.getvalue()

    def write(self, path: str, data: bytes | str) -> FileEntry:
        """Stores a file, replacing what was there; text as UTF-8."""
        contents = data.encode() if isinstance(data, str) else bytes(data)
        call = file_requests.store(self._session_id, path, BytesIO(contents), len(contents))
        return self._carrier.send(call)

    def upload(
        self, local: str | Path, to: str | None = None, *, progress: Progress | None = None
    ) -> FileEntry:
        """Stores a local file under its own name, or as `to`; into the directory `to` if that ends
        with '/'."""
        with open(local, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            path = local_files.name_there(local, to)
            return self._carrier.send(file_requests.store(self._session_id, path, file, size, progress))

    def download(
        self, path: str, to: str | Path | None = None, *, progress: Progress | None = None
    ) -> Path:
        """Saves a file in this directory, or as `to`, or in `to` if that is a directory. It appears
        when it is complete."""
        target = local_files.name_here(path, to)
        with local_files.replacing(target) as file:
            self._fetch(self._file(path), file, progress)
        return target

    def archive(
        self,
        to: str | Path,
        path: str = "",
        *,
        format: Format | None = None,
        progress: Progress | None = None,
    ) -> Path:
        """Saves a directory, or everything, as one archive: zip, or what the name of `to` says."""
        target = Path(to)
        chosen = file_requests.archive_format(target.name, format)
        fetch = Fetch(self._session_id, path, self._carrier.reconnect, chosen)
        with local_files.replacing(target) as file:
            self._fetch(fetch, file, progress)
        return target

    def make_directory(self, path: str) -> FileEntry:
        """Makes a directory, and those that it is in."""
        return self._carrier.send(file_requests.make_directory(self._session_id, path))

    def delete(self, path: str, *, recursive: bool = False) -> None:
        """Deletes a file, a link or an empty directory; with `recursive` any directory."""
        self._carrier.send(file_requests.delete(self._session_id, path, recursive))

    def move(self, path: str, to: str, *, overwrite: bool = False) -> FileEntry:
        """Renames a file or directory; into the directory `to` if that ends with '/'."""
        return self._carrier.send(file_requests.move(self._session_id, path, to, overwrite))

    def copy(self, path: str, to: str, *, overwrite: bool = False) -> FileEntry:
        return self._carrier.send(file_requests.copy(self._session_id, path, to, overwrite))

    def _file(self, path: str) -> Fetch:
        return Fetch(self._session_id, path, self._carrier.reconnect)

    def _fetch(self, fetch: Fetch, file: BinaryIO, progress: Progress | None) -> None:
        while not fetch.finished:
            try:
                with self._carrier.opened(fetch.call()) as answer:
                    if fetch.begins(answer.status_code, answer.headers):
                        local_files.empty(file)
                    for piece in answer.iter_raw(PIECE):
                        file.write(piece)
                        fetch.advance(len(piece))
                        if progress is not None:
                            progress(fetch.done, fetch.total)
                fetch.ended()
            except InterpreterError as e:
                time.sleep(fetch.failed(e))
