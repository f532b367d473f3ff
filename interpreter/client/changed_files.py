"""The files that a cell created, changed and deleted, as its result has them.

What is fetched is the file as it is when it is fetched: later cells may have changed it again.
"""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from interpreter.client import local_files
from interpreter.client.call import Call, Nothing
from interpreter.client.errors import with_hint
from interpreter.errors import InterpreterError, InvalidRequest, NotFound
from interpreter.models import FileChange
from interpreter.models.executions import Change

if TYPE_CHECKING:
    from interpreter.client.carrier import Carrier

SHOWN = ("image/png", "image/jpeg", "image/gif", "image/webp")
SHOWN_BYTES = 10_000_000
F = TypeVar("F")
C = TypeVar("C")


class ChangedFiles(Mapping[str, F], Generic[F]):
    """Path → file, ordered by path."""

    def __init__(
        self, changes: Iterable[FileChange] | None, left_out: int, make: Callable[[FileChange], F]
    ) -> None:
        self.known = changes is not None
        """False when it is not known what the cell changed, and when it has not ended."""
        self.left_out = left_out
        """How many more were changed than are listed."""
        self._files = {change.path: make(change) for change in changes or ()}

    def __getitem__(self, path: str) -> F:
        return self._files[path]

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)

    def __repr__(self) -> str:
        return (
            f"<files: {', '.join(map(repr, self._files.values()))}>"
            if self.known
            else "<files: unknown>"
        )


class File:
    """What changed files have in common."""

    def __init__(self, change: FileChange) -> None:
        self._change = change

    @property
    def path(self) -> str:
        """From the top of the workspace."""
        return self._change.path

    @property
    def change(self) -> Change:
        return self._change.change

    @property
    def size(self) -> int | None:
        """In bytes, when the cell ended."""
        return self._change.size

    @property
    def mime_type(self) -> str | None:
        return self._change.mime_type

    def __repr__(self) -> str:
        return f"{self.path} {self.change}"

    def contents(self) -> Call[None]:
        """The request for them; raises NotFound when there are none."""
        if self._change.url is None:
            what = "was deleted" if self.change == "deleted" else "is not a file with contents"
            raise with_hint(NotFound(f"{self.path} {what}.", "Look at `change` and `size` before."))
        return Call(method="GET", path=self._change.url, answer=Nothing)

    def of(self, carrier: C | None) -> C:
        """Who fetches them."""
        if carrier is None:
            raise with_hint(
                InvalidRequest("This result cannot fetch files.", "Use session.result(event).")
            )
        return carrier


class ChangedFile(File):
    """A file that a cell created, changed or deleted."""

    def __init__(self, change: FileChange, carrier: Carrier | None) -> None:
        super().__init__(change)
        self._carrier = carrier

    def read(self) -> bytes:
        return b"".join(self.of(self._carrier).read(self.contents()))

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        """A picture is shown as one in a notebook, whatever else the cell has shown."""
        bundle = {"text/plain": repr(self)}
        small = self.size is not None and self.size <= SHOWN_BYTES
        if self.mime_type in SHOWN and small and self._carrier is not None:
            with contextlib.suppress(InterpreterError):  # it may be gone by now
                bundle[self.mime_type] = base64.b64encode(self.read()).decode()
        return bundle

    def save(self, to: str | Path | None = None) -> Path:
        """Saves it as `to`, or in the directory `to`; under its own name, here, when not given."""
        target = local_files.name_here(self.path, to)
        with local_files.replacing(target) as file:
            file.writelines(self.of(self._carrier).read(self.contents()))
        return target
