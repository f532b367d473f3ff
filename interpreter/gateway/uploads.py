"""Bodies that go to the disk as they arrive.

Pieces are collected on the event loop and written in a thread, one batch while the next one arrives.
Whoever sends faster than the disk writes has to wait; so memory stays flat.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from interpreter.errors import FileChanged, InterpreterError, InvalidPath, InvalidRequest
from interpreter.gateway.file_headers import Digest, body_length, boundary, condition
from interpreter.gateway.multipart import Form
from interpreter.models.files import Directory, FileEntry
from interpreter.orchestrator.files import SessionFiles
from interpreter.workspace import Tree
from interpreter.workspace.incoming import Condition
from interpreter.workspace.paths import checked

if TYPE_CHECKING:
    from interpreter.gateway.handler import ApiHandler

BATCH = 1024 * 1024
STALL_SECONDS = 300.0
"""A body of which nothing comes for so long is given up."""

Stored = tuple[FileEntry | Directory, str | None, bool]
"""What to answer, the ETag of a file, and whether something new is there."""


class Target(Protocol):
    """Where a body goes. Calls block."""

    def write(self, *pieces: bytes) -> None: ...
    def finish(self) -> Stored: ...
    def close(self) -> None: ...


class SingleFile:
    """A body that is the contents of a file."""

    def __init__(self, tree: Tree, path: str, coming: int, condition: Condition | None) -> None:
        self._tree = tree
        self._condition = condition
        self._incoming = tree.receive(path, tree.budget(coming))
        self.write = self._incoming.write
        self.close = self._incoming.close

    def finish(self) -> Stored:
        return self._tree.store(self._incoming, self._condition)


class NewDirectory:
    """No body, and a path that ends with a slash."""

    def __init__(self, tree: Tree, path: str) -> None:
        self._tree = tree
        self._path = path

    def write(self, *pieces: bytes) -> None:
        raise InvalidPath(
            "This path is that of a directory, which has no contents of its own.",
            "Name a file in it, or send a form with files.",
        )

    def finish(self) -> Stored:
        entry, created = self._tree.make_directory(self._path)
        return entry, None, created

    def close(self) -> None:
        pass


class Upload:
    """A request's body on its way to its target."""

    def __init__(
        self, call: ApiHandler, files: SessionFiles, tree: Tree, target: Target, digest: Digest
    ) -> None:
        self._call = call
        self._files = files
        self._tree = tree
        self._target = target
        self._digest = digest
        self._pieces: list[bytes] = []
        self._size = 0
        self._writing: asyncio.Task[None] | None = None
        self._over = False
        self._lock = threading.Lock()
        """Nothing is closed while a thread works on it, and nothing is done with what is closed."""
        self._closed = False
        self._patience = self._wait()

    def _wait(self) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(STALL_SECONDS, self._call.hang_up)

    async def receive(self, piece: bytes) -> None:
        """Takes a piece of the body; returns when the next one may come. Raises what writing raised."""
        self._patience.cancel()
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size >= BATCH:
            with self._if_session_is_there():
                await self._write_on()
        if not self._over:
            self._patience = self._wait()

    async def _write_on(self) -> None:
        await self._written()
        pieces, self._pieces, self._size = self._pieces, [], 0
        self._writing = asyncio.create_task(self._files.run(self._write, pieces))

    async def _written(self) -> None:
        writing, self._writing = self._writing, None
        if writing is not None:
            await writing

    def _write(self, pieces: list[bytes]) -> None:
        with self._lock:
            if not self._closed:
                self._target.write(*pieces)
                self._digest.update(*pieces)

    @contextmanager
    def _if_session_is_there(self) -> Iterator[None]:
        """Whose session was deleted meanwhile is told that, and not how its files failed."""
        try:
            yield
        except InterpreterError:
            self._call.orchestrator.get(self._call.path["session_id"])
            raise

    async def complete(self) -> Stored:
        """The body is here as a whole."""
        self._patience.cancel()
        self._over = True
        try:
            with self._if_session_is_there():
                if self._pieces:
                    await self._write_on()
                await self._written()
                return await self._files.run(self._finish)
        finally:
            self._files.later(self._close)

    def _finish(self) -> Stored:
        with self._lock:
            self._digest.check()
            # Its workspace may be another's to write to by now.
            self._files.check(change=True)
            return self._target.finish()

    def leave(self) -> None:
        """The client went away, or what it sent was refused: nothing of it is kept."""
        if not self._over:
            self._over = True
            self._patience.cancel()
            if self._writing is not None:
                self._writing.add_done_callback(_forget)
            self._files.later(self._close)

    def _close(self) -> None:
        with self._lock:
            self._closed = True
            self._target.close()
            self._tree.close()


def _forget(written: asyncio.Task[None]) -> None:
    """Nobody wants to know any more what went wrong."""
    if not written.cancelled():
        written.exception()


async def begin(call: ApiHandler) -> Upload:
    """Called when the headers are here; refuses what can be refused without the body."""
    headers = call.request.headers
    given = call.path.get("path", "")
    path = checked(given)
    if "Content-Range" in headers:
        raise InvalidRequest("A file is stored as a whole: Content-Range is not possible.")
    digest = Digest(headers)
    form = boundary(headers.get("Content-Type", ""))
    coming = body_length(headers)
    must = condition(headers)
    if must is not None and form is not None:
        raise FileChanged(
            "If-Match and If-None-Match cannot hold of the many files of a form.",
            "Send the files one by one.",
        )
    files = call.orchestrator.files.of(call.path["session_id"])
    tree = await files.open(change=True)

    def make_target() -> Target:
        if form is not None:
            return Form(tree, path, form)
        if given.endswith("/") or not path:
            return NewDirectory(tree, path)
        return SingleFile(tree, path, coming or 0, must)

    try:
        target = await files.run(make_target)
        return Upload(call, files, tree, target, digest)
    except BaseException:
        files.later(tree.close)
        raise
