"""Tables in JSON: an array, or lines. Either is read element by element and never kept whole."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from typing import IO, Any

from interpreter.sandbox import tables
from interpreter.sandbox.tables import Count, NotATable, Source, Table


def describe_json(file: int, size: int) -> Table:
    head = os.pread(file, tables.HEAD, 0)
    text = head.decode(tables.encoding_of(head), "replace").lstrip()
    if text.startswith("["):
        return _describe_array(file, size)
    if text.startswith("{"):
        try:
            json.loads(text.partition("\n")[0])
        except ValueError:
            raise NotATable("it is a JSON object, and neither an array nor lines of objects") from None
        return describe_json_lines(file, size)
    raise NotATable("it is not JSON, or neither an array nor lines of objects")


def describe_json_lines(file: int, size: int) -> Table:
    values: list[Any] = []
    for number, line in enumerate(tables.lines_of(tables.text_of(Source(file), "utf-8-sig")), 1):
        if line.strip():
            try:
                values.append(json.loads(line))
            except ValueError as e:
                raise NotATable(f"line {number} is not JSON: {e}") from None
        if len(values) == tables.EXAMINED:
            break
    if not values:
        raise NotATable("it is empty")
    lines, _, exact = tables.count_lines(file, size, time.monotonic() + tables.COUNT_SECONDS)
    return _table("jsonl", values, Count(lines, exact))


def _describe_array(file: int, size: int) -> Table:
    values: list[Any] = []
    until = time.monotonic() + tables.COUNT_SECONDS
    rows, exact = 0, True
    for place, value in elements_of(tables.text_of(Source(file), "utf-8-sig")):
        rows += 1
        if len(values) < tables.EXAMINED:
            values.append(value)
        elif rows % 1000 == 0 and time.monotonic() > until:
            rows, exact = rows * size // max(1, place), False
            break
    return _table("json", values, Count(rows, exact))


def elements_of(text: IO[str]) -> Iterator[tuple[int, Any]]:
    """The elements of an array one by one, each with how many characters were read by then."""
    decode = json.JSONDecoder().raw_decode
    buffer, at, done, more = text.read(tables.CHUNK), 0, 0, tables.CHUNK
    at = len(buffer) - len(buffer.lstrip()) + 1
    while True:
        while at < len(buffer) and buffer[at] in " \t\r\n,":
            at += 1
        if at < len(buffer) and buffer[at] == "]":
            return
        try:
            value, end = decode(buffer, at)
            problem = "it has no end"
            whole = buffer[end : end + 1] != "" and (end + 1 < len(buffer) or buffer[end] in ",]")
        except ValueError as e:
            whole, problem = False, str(e)
        if whole:
            yield done + end, value
            at = end
            continue
        if len(buffer) - at > tables.LONGEST:
            raise NotATable(f"an element has more than {tables.LONGEST:,} characters, or is not JSON")
        piece = text.read(more)
        if not piece:
            raise NotATable(f"it is not whole: {problem}")
        # Twice as much each time: an element is begun anew with every piece.
        more = min(2 * more, tables.LONGEST)
        done, buffer, at = done + at, buffer[at:] + piece, 0
        if len(buffer) < tables.CHUNK:
            more = tables.CHUNK


def _table(format: str, values: list[Any], count: Count) -> Table:
    """Rows may be objects, lists, or single values."""
    if values and all(isinstance(value, dict) for value in values):
        names = list({name: None for value in values for name in value})
        rows = [[value.get(name) for name in names] for value in values]
    elif values and all(isinstance(value, list) for value in values):
        width = max(map(len, values))
        names, rows = tables.named([""] * width), values
    else:
        names, rows = ["value"], [[value] for value in values]
    columns = tables.columns_of(names, rows, text=False)
    sample = [[tables.as_text(value) for value in row] for row in rows[: tables.SAMPLE]]
    return Table(format, count.rows, count.exact, len(values), columns, sample)
