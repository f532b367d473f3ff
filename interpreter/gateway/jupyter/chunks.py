"""Files that a Jupyter client sends in chunks, each with a request of its own.

Until the last one is there such a file is in no directory, as any that arrives: nobody sees half of it,
and a chunk costs what is in it. What is not gone on with is given up.
"""

from __future__ import annotations

import asyncio

from interpreter.errors import FileConflict
from interpreter.models.files import FileEntry
from interpreter.orchestrator.files import SessionFiles
from interpreter.workspace import Tree

FIRST, LAST = 1, -1
PATIENCE_SECONDS = 300.0
MOST = 32
"""Files at once. Each holds two descriptors, and the room that it takes in its workspace."""


class _Begun:
    """A file whose last chunk is still to come. Calls block."""

    def __init__(self, files: SessionFiles, tree: Tree, path: str) -> None:
        self._files = files
        self._tree = tree
        try:
            self._incoming = tree.receive(path, tree.budget())
        except BaseException:
            tree.close()
            raise

    def write(self, data: bytes) -> tuple[FileEntry, bool]:
        self._incoming.write(data)
        return self._incoming.entry()[0], False

    def finish(self, data: bytes) -> tuple[FileEntry, bool]:
        self._incoming.write(data)
        # Its workspace may be another's to write to by now.
        self._files.check(change=True)
        entry, _, created = self._tree.store(self._incoming)
        return entry, created

    def close(self) -> None:
        self._incoming.close()
        self._tree.close()


class Chunks:
    """All files that have begun to come."""

    def __init__(self) -> None:
        self._begun: dict[tuple[str, str], tuple[_Begun, asyncio.TimerHandle]] = {}

    async def take(
        self, files: SessionFiles, id: str, path: str, number: int, data: bytes
    ) -> tuple[FileEntry, bool]:
        """A chunk of a session's file: the file as it is now, and whether it is new in its place."""
        key = id, path
        if number == FIRST:
            self._give_up(files, key)
            begun = await files.run(_Begun, files, await files.open(change=True), path)
        elif (found := self._let_go(key)) is not None:
            begun = found  # which nobody else has while it is worked on
        else:
            raise FileConflict(
                "The chunks before this one are not here, or not any more.",
                "Send the file again from its first chunk.",
            )
        try:
            answer = await files.run(begun.finish if number == LAST else begun.write, data)
        except BaseException:
            files.later(begun.close)
            raise
        if number == LAST:
            files.later(begun.close)
        else:
            self._keep(files, key, begun)
        return answer

    def _keep(self, files: SessionFiles, key: tuple[str, str], begun: _Begun) -> None:
        self._give_up(files, key)
        while len(self._begun) >= MOST:
            self._give_up(files, next(iter(self._begun)))
        later = asyncio.get_running_loop().call_later
        self._begun[key] = begun, later(PATIENCE_SECONDS, self._give_up, files, key)

    def _let_go(self, key: tuple[str, str]) -> _Begun | None:
        begun, patience = self._begun.pop(key, (None, None))
        if patience is not None:
            patience.cancel()
        return begun

    def _give_up(self, files: SessionFiles, key: tuple[str, str]) -> None:
        if (begun := self._let_go(key)) is not None:
            files.later(begun.close)
