"""Tables in text, made out with nothing but the standard library: what they share, and CSV.

Types are told from the first rows. Rows are counted without keeping them, for as long as there is
time; then their number is estimated from how far the counting got.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import os
import re
import time
from collections.abc import Iterable, Iterator
from datetime import date, datetime
from typing import IO, Any, NamedTuple

EXAMINED = 1000
SAMPLE = 5
HEAD = 256 * 1024
CHUNK = 1024 * 1024
LONGEST = 8 * 1024 * 1024
"""Of a line, or of an element of a JSON array."""
COUNT_SECONDS = 8.0
DELIMITERS = ",;\t|"
NOTHING = frozenset(("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "<NA>", "#N/A"))
BOOLEANS = frozenset(("true", "false"))
INTEGER = re.compile(r"[+-]?\d{1,19}")
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?|[+-]?inf(inity)?", re.IGNORECASE)
MOMENT = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d.*)?")


class NotATable(Exception):
    """Why a file is not a table, for people."""


class Column(NamedTuple):
    name: str
    type: str
    nulls: int | None


class Table(NamedTuple):
    """What was made out of a file."""

    format: str
    rows: int | None
    rows_exact: bool
    rows_examined: int
    columns: list[Column]
    sample: list[list[str]]
    sheets: list[str] = []


class Count(NamedTuple):
    rows: int
    exact: bool


# -- types


def kind_of(value: Any) -> str | None:
    """The type of one value; None for no value."""
    if value is None or value != value:
        return None
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    if isinstance(value, datetime):
        return "datetime"
    if isinstance(value, date):
        return "date"
    if isinstance(value, str):
        return _moment(value) or "text"
    if isinstance(value, list | tuple):
        return "list"
    return "object" if isinstance(value, dict) else type(value).__name__


def kind_of_text(text: str) -> str | None:
    """The type of what a CSV file says, which is text whatever it means."""
    text = text.strip()
    if text in NOTHING:
        return None
    if text.lower() in BOOLEANS:
        return "boolean"
    if INTEGER.fullmatch(text):
        return "integer"
    if NUMBER.fullmatch(text):
        return "number"
    return _moment(text) or "text"


def _moment(text: str) -> str | None:
    if not MOMENT.fullmatch(text):
        return None
    try:
        if len(text) == 10:
            date.fromisoformat(text)
            return "date"
        datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return None
    return "datetime"


def common(kinds: set[str]) -> str:
    """The type of a column with values of these types."""
    if not kinds:
        return "empty"
    if len(kinds) == 1:
        return next(iter(kinds))
    if kinds == {"integer", "number"}:
        return "number"
    if kinds == {"date", "datetime"}:
        return "datetime"
    return "text" if kinds <= {"text", "date", "datetime"} else "mixed"


def columns_of(names: list[str], rows: list[list[Any]], text: bool) -> list[Column]:
    find = kind_of_text if text else kind_of
    columns = []
    for place, name in enumerate(names):
        kinds = [find(row[place]) if place < len(row) else None for row in rows]
        kind = common({kind for kind in kinds if kind})
        # In text everything else is text after all.
        kind = "text" if text and kind == "mixed" else kind
        columns.append(Column(name, kind, kinds.count(None)))
    return columns


def named(header: Iterable[Any]) -> list[str]:
    return [str(name).strip() or f"column {n}" for n, name in enumerate(header, 1)]


def as_text(value: Any) -> str:
    if value is None:
        return ""
    return json.dumps(value, default=str) if isinstance(value, list | dict) else str(value)


# -- reading bounded lines


def lines_of(file: IO[str]) -> Iterator[str]:
    while line := file.readline(LONGEST):
        if len(line) == LONGEST:
            raise NotATable(f"it has a line of more than {LONGEST:,} characters")
        yield line


class Source(io.RawIOBase):
    """The bytes of a file from some place on. Several of one file do not disturb each other."""

    def __init__(self, file: int, start: int = 0) -> None:
        self._file = file
        self.at = start

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = os.pread(self._file, len(buffer), self.at)
        buffer[: len(data)] = data
        self.at += len(data)
        return len(data)


def text_of(source: Source, encoding: str) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BufferedReader(source, CHUNK), encoding, "replace", newline="")


def encoding_of(head: bytes) -> str:
    for mark, encoding in (
        (codecs.BOM_UTF8, "utf-8-sig"),
        (codecs.BOM_UTF16_LE, "utf-16"),
        (codecs.BOM_UTF16_BE, "utf-16"),
    ):
        if head.startswith(mark):
            return encoding
    if b"\0" in head:
        raise NotATable("it is not text")
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8"


# -- CSV


def describe_csv(file: int, size: int, certain: bool) -> Table:
    """`certain` is whether the name says that it is one: then it may have a single column."""
    head = os.pread(file, HEAD, 0)
    encoding = encoding_of(head)
    delimiter = delimiter_of(head.decode(encoding, "replace"))
    if delimiter is None and not certain:
        raise NotATable("its lines do not have columns")
    csv.field_size_limit(LONGEST)
    options: dict[str, Any] = {"delimiter": delimiter or ","}
    try:
        reader = _rows(text_of(Source(file), encoding), options)
        header = next(reader, None)
        if header is None:
            raise NotATable("it is empty")
        examined = [row for _, row in zip(range(EXAMINED), reader, strict=False)]
        count = count_rows(file, size, encoding, options)
    except csv.Error as e:
        raise NotATable(f"it is not CSV: {e}") from None
    columns = columns_of(named(header), examined, text=True)
    rows = max(0, count.rows - 1)
    return Table("csv", rows, count.exact, len(examined), columns, examined[:SAMPLE])


def delimiter_of(head: str) -> str | None:
    """What separates columns: that which gives the first lines the same number of them, the most."""
    lines = head.splitlines()[:50]
    if len(head) >= HEAD - 4 and len(lines) > 1:
        lines.pop()  # it may be cut
    best: tuple[float, int, str] | None = None
    for delimiter in DELIMITERS:
        try:
            widths = [len(row) for row in csv.reader(lines, delimiter=delimiter) if row]
        except csv.Error:
            continue
        if not widths or widths[0] < 2:
            continue
        alike = sum(width == widths[0] for width in widths) / len(widths)
        best = max(best or (0.0, 0, ""), (round(alike, 1), widths[0], delimiter))
    return best[2] if best and best[0] >= 0.5 else None


def _rows(text: io.TextIOWrapper, options: dict[str, Any]) -> Iterator[list[str]]:
    return (row for row in csv.reader(lines_of(text), **options) if row)


def count_rows(file: int, size: int, encoding: str, options: dict[str, Any]) -> Count:
    """All rows, the header too. Where nothing is quoted a row is a line."""
    until = time.monotonic() + COUNT_SECONDS
    rows, start, exact = 0, 0, True
    if encoding != "utf-16":
        rows, start, exact = count_lines(file, size, until, stop_at=b'"')
        if start >= size or not exact:
            return Count(rows, exact)
    source, row = Source(file, start), 0
    for row, _ in enumerate(_rows(text_of(source, encoding), options), 1):
        if row % 1000 == 0 and time.monotonic() > until:
            return Count(rows + row * (size - start) // max(1, source.at - start), False)
    return Count(rows + row, True)


def count_lines(
    file: int, size: int, until: float, stop_at: bytes | None = None
) -> tuple[int, int, bool]:
    """How many lines have something in them; up to where was counted; and whether that is exact.

    Stops at the beginning of a line with `stop_at` in it, or with an unusual end.
    """
    lines, place, start, last = 0, 0, 0, b"\n"
    while chunk := os.pread(file, CHUNK, place):
        if chunk.endswith(b"\r"):
            chunk += os.pread(file, 1, place + len(chunk))
        if stop_at is not None and (stop_at in chunk or chunk.count(b"\r") != chunk.count(b"\r\n")):
            return lines, start, True
        place += len(chunk)
        plain = last + chunk.replace(b"\r\n", b"\n")
        lines += plain.count(b"\n") - 1 if last == b"\n" else plain.count(b"\n")
        if b"\n\n" in plain:
            lines -= len(re.findall(rb"(?<=\n)\n", plain))
        if (end := chunk.rfind(b"\n")) >= 0:
            start = place - len(chunk) + end + 1
        last = plain[-1:]
        if time.monotonic() > until and place < size:
            return lines * size // place, place, False
    return lines + (last != b"\n"), max(place, size), True
