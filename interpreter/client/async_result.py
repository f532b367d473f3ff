"""What came of a cell: the same as `result`, with `await` for what is fetched."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from interpreter.client import local_files
from interpreter.client.async_carrier import AsyncCarrier
from interpreter.client.changed_files import ChangedFiles, File
from interpreter.client.result import Outcome
from interpreter.models import FileChange


class AsyncChangedFile(File):
    """A file that a cell created, changed or deleted."""

    def __init__(self, change: FileChange, carrier: AsyncCarrier | None) -> None:
        super().__init__(change)
        self._carrier = carrier

    async def read(self) -> bytes:
        return b"".join([chunk async for chunk in self.of(self._carrier).read(self.contents())])

    async def save(self, to: str | Path | None = None) -> Path:
        target = local_files.name_here(self.path, to)
        with local_files.replacing(target) as file:
            async for chunk in self.of(self._carrier).read(self.contents()):
                await asyncio.to_thread(file.write, chunk)
        return target


@dataclass(frozen=True)
class AsyncResult(Outcome):
    """One cell, finished or (from `submit`) on its way."""

    carrier: AsyncCarrier | None = field(default=None, repr=False, compare=False)

    @property
    def files(self) -> ChangedFiles[AsyncChangedFile]:
        made = partial(AsyncChangedFile, carrier=self.carrier)
        return ChangedFiles(self.execution.files, self.execution.files_left_out, made)
