"""The files of a session: the same as `files`, with `await`."""

from __future__ import annotations

import asyncio
import os
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from interpreter.client import file_requests, local_files
from interpreter.client.async_carrier import AsyncCarrier
from interpreter.client.file_requests import Fetch, Format, Listing
from interpreter.client.local_files import PIECE, Progress
from interpreter.errors import InterpreterError
from interpreter.models.files import FileEntry


class AsyncFiles:
    """The files in a session's workspace; see `files.Files`."""

    def __init__(self, carrier: AsyncCarrier, session_id: str) -> None:
        self._carrier = carrier
        self._session_id = session_id

    async def list(self, path: str = "") -> Listing:
        return Listing(await self._carrier.send(file_requests.listing(self._session_id, path)))

    async def read(self, path: str) -> bytes:
        contents = BytesIO()
        await self._fetch(self._file(path), contents, None)
        return contents.getvalue()

    async def write(self, path: str, data: bytes | str) -> FileEntry:
        contents = data.encode() if isinstance(data, str) else bytes(data)
        call = file_requests.store(self._session_id, path, BytesIO(contents), len(contents))
        return await self._carrier.send(call)

    async def upload(
        self, local: str | Path, to: str | None = None, *, progress: Progress | None = None
    ) -> FileEntry:
        with await asyncio.to_thread(open, local, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            path = local_files.name_there(local, to)
            return await self._carrier.send(
                file_requests.store(self._session_id, path, file, size, progress)
            )

    async def download(
        self, path: str, to: str | Path | None = None, *, progress: Progress | None = None
    ) -> Path:
        target = local_files.name_here(path, to)
        with local_files.replacing(target) as file:
            await self._fetch(self._file(path), file, progress)
        return target

    async def archive(
        self,
        to: str | Path,
        path: str = "",
        *,
        format: Format | None = None,
        progress: Progress | None = None,
    ) -> Path:
        target = Path(to)
        chosen = file_requests.archive_format(target.name, format)
        fetch = Fetch(self._session_id, path, self._carrier.reconnect, chosen)
        with local_files.replacing(target) as file:
            await self._fetch(fetch, file, progress)
        return target

    async def make_directory(self, path: str) -> FileEntry:
        return await self._carrier.send(file_requests.make_directory(self._session_id, path))

    async def delete(self, path: str, *, recursive: bool = False) -> None:
        await self._carrier.send(file_requests.delete(self._session_id, path, recursive))

    async def move(self, path: str, to: str, *, overwrite: bool = False) -> FileEntry:
        return await self._carrier.send(file_requests.move(self._session_id, path, to, overwrite))

    async def copy(self, path: str, to: str, *, overwrite: bool = False) -> FileEntry:
        return await self._carrier.send(file_requests.copy(self._session_id, path, to, overwrite))

    def _file(self, path: str) -> Fetch:
        return Fetch(self._session_id, path, self._carrier.reconnect)

    async def _fetch(self, fetch: Fetch, file: BinaryIO, progress: Progress | None) -> None:
        while not fetch.finished:
            try:
                async with self._carrier.opened(fetch.call()) as answer:
                    if fetch.begins(answer.status_code, answer.headers):
                        await asyncio.to_thread(local_files.empty, file)
                    async for piece in answer.aiter_raw(PIECE):
                        await asyncio.to_thread(file.write, piece)
                        fetch.advance(len(piece))
                        if progress is not None:
                            progress(fetch.done, fetch.total)
                fetch.ended()
            except InterpreterError as e:
                await asyncio.sleep(fetch.failed(e))
