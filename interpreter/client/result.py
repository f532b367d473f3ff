"""What came of a cell, in the forms a program wants it.

A `Result` is a view of the execution that the gateway answered. The notebook outputs are all in
`outputs`; the other properties pick from them. A cell that failed is a result too, with `error`
set; `raise_for_error` makes an exception of it.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import msgspec

from interpreter.client.changed_files import ChangedFile, ChangedFiles
from interpreter.client.errors import CellError
from interpreter.models import (
    Event,
    Execution,
    ExecutionError,
    ExecutionStatus,
    ExecutionUsage,
    Output,
    Truncated,
)

if TYPE_CHECKING:
    from interpreter.client.carrier import Carrier

SUFFIXES = {
    "image/png": ".png",
    "image/jpeg": ".jpg",
    "image/gif": ".gif",
    "image/webp": ".webp",
    "image/svg+xml": ".svg",
}


@dataclass(frozen=True)
class Image:
    """A picture that a cell showed."""

    mime: str
    data: bytes = field(repr=False)

    @property
    def suffix(self) -> str:
        return SUFFIXES[self.mime]

    def save(self, path: str | Path) -> Path:
        path = Path(path)
        path.write_bytes(self.data)
        return path


def images_in(bundle: Mapping[str, Any]) -> list[Image]:
    """The pictures of one output's data. What is not what it says it is, is left out."""
    found = []
    for mime in SUFFIXES:
        if mime not in bundle:
            continue
        text = _joined(bundle[mime])
        try:
            data = text.encode() if mime == "image/svg+xml" else base64.b64decode(text)
        except (binascii.Error, ValueError):
            continue
        if data:
            found.append(Image(mime, data))
    return found


def _joined(value: Any) -> str:
    """nbformat allows a text to be a list of its lines."""
    return "".join(value) if isinstance(value, list) else str(value)


@dataclass(frozen=True)
class Outcome:
    """What results have in common."""

    execution: Execution

    @classmethod
    def of(cls, done: Event) -> Self:
        """What a `done` event carries. `session.result(done)` can fetch its files, too."""
        return cls(msgspec.convert(done.data["execution"], Execution))

    @property
    def id(self) -> str:
        return self.execution.id

    @property
    def status(self) -> ExecutionStatus:
        return self.execution.status

    @property
    def ok(self) -> bool:
        return self.execution.status is ExecutionStatus.ok

    @property
    def reason(self) -> str | None:
        """Why it ended as timeout, cancelled or lost."""
        return self.execution.reason

    @property
    def text(self) -> str:
        """What a person would read: streams, results and errors."""
        return self.execution.text

    @property
    def outputs(self) -> list[Output]:
        """The outputs as a notebook stores them."""
        return self.execution.outputs

    @property
    def error(self) -> ExecutionError | None:
        return self.execution.error

    @property
    def execution_count(self) -> int | None:
        return self.execution.execution_count

    @property
    def duration_ms(self) -> float | None:
        return self.execution.duration_ms

    @property
    def usage(self) -> ExecutionUsage | None:
        """What the sandbox used while the cell ran; None when it was not measured."""
        return self.execution.usage

    @property
    def truncated(self) -> Truncated | None:
        """Set when `outputs` was cut; `session.output(id)` has the whole."""
        return self.execution.truncated

    @property
    def stdout(self) -> str:
        return self._stream("stdout")

    @property
    def stderr(self) -> str:
        return self._stream("stderr")

    @property
    def images(self) -> list[Image]:
        return [image for bundle in self._bundles() for image in images_in(bundle)]

    @property
    def html(self) -> str | None:
        return self._last_text("text/html")

    @property
    def markdown(self) -> str | None:
        return self._last_text("text/markdown")

    @property
    def latex(self) -> str | None:
        return self._last_text("text/latex")

    @property
    def json(self) -> Any:
        return self._last("application/json")

    def raise_for_error(self) -> Self:
        """Itself if the cell went well (or has not ended); otherwise raises `CellError`."""
        if self.ok or not self.status.final:
            return self
        if self.error is not None:
            raise CellError(f"{self.error.ename}: {self.error.evalue}", self)
        raise CellError(self.reason or f"The cell ended as {self.status.value}.", self)

    def __str__(self) -> str:
        return self.text

    def _stream(self, name: str) -> str:
        return "".join(
            _joined(o["text"])
            for o in self.outputs
            if o.get("output_type") == "stream" and o.get("name") == name
        )

    def _bundles(self) -> Iterator[Mapping[str, Any]]:
        return (o["data"] for o in self.outputs if isinstance(o.get("data"), dict))

    def _last(self, mime: str) -> Any:
        found = None
        for bundle in self._bundles():
            found = bundle.get(mime, found)
        return found

    def _last_text(self, mime: str) -> str | None:
        found = self._last(mime)
        return None if found is None else _joined(found)


@dataclass(frozen=True)
class Result(Outcome):
    """One cell, finished or (from `submit`) on its way."""

    carrier: Carrier | None = field(default=None, repr=False, compare=False)
    """Fetches its files."""

    @property
    def files(self) -> ChangedFiles[ChangedFile]:
        """What the cell created, changed and deleted, by path."""
        made = partial(ChangedFile, carrier=self.carrier)
        return ChangedFiles(self.execution.files, self.execution.files_left_out, made)
