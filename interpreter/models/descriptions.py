"""What a table in a file looks like, for someone who is about to work with it."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Format = Literal["csv", "json", "jsonl", "parquet", "xlsx"]


class Column(Struct, frozen=True, kw_only=True):
    """A column of a table."""

    name: str
    type: str
    """Such as 'integer', 'number', 'boolean', 'date', 'datetime', 'text'; of Parquet, what it says."""
    nulls: int | None = None
    """How many of the examined rows have nothing here; null when that is not known."""


class Description(Struct, frozen=True, kw_only=True):
    """A table, as the sandbox that has the file describes it."""

    format: Format
    rows: int | None
    """Null when it is not known."""
    rows_exact: bool
    """Whether they were counted; else it is an estimate from the size of the file."""
    rows_examined: int
    """From how many of them the types and nulls are told."""
    columns: list[Column]
    more_columns: int = 0
    """How many there are that are not told of."""
    sample: list[list[str]]
    """The first rows, each cell as text and cut if it is long."""
    sheets: list[str] = []
    """Of an Excel file: the names of its sheets; the first one is described."""
