"""Describes the table in a file: its columns, their types, how many rows, and the first of them.

Run by the kernel host as a process of its own, for one file, with little time:

    python -m interpreter.sandbox.describe PATH

It prints JSON: what was made out, or what was in the way. Text needs nothing but the standard library,
so that it is described the same in every environment; Parquet and Excel need their packages.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import resource
import stat
import sys
import time
from typing import Any

from interpreter.sandbox import json_tables, tables
from interpreter.sandbox.tables import Column, NotATable, Table

MOST_COLUMNS = 1000
ANSWER_BYTES = 120 * 1024
CPU_SECONDS = 30
LENGTHS = ((200, 5), (100, 5), (50, 3), (30, 1), (30, 0), (10, 0))
"""How long names and cells may be, and how many rows are shown: the first that fits is taken."""
TEXT = (".csv", ".tsv", ".tab")


class Needs(Exception):
    """A package that is not here."""


def describe(path: str) -> Table:
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise NotATable("it is not a file")
        start = file.read(8)
        file.seek(0)
        return _describe(file, found.st_size, start, os.path.splitext(path)[1].lower())


def _describe(file: io.BufferedReader, size: int, start: bytes, ending: str) -> Table:
    if size == 0:
        raise NotATable("it is empty")
    if start.startswith(b"PAR1"):
        return _parquet(file)
    if start.startswith(b"PK\3\4"):
        return _excel(file)
    if start.startswith(b"\xd0\xcf\x11\xe0"):
        raise NotATable("it is an old Excel file: save it as .xlsx")
    if start.startswith(b"\x1f\x8b"):
        raise NotATable("it is compressed: unpack it first")
    if ending in (".jsonl", ".ndjson"):
        return json_tables.describe_json_lines(file.fileno(), size)
    if ending == ".json" or (ending not in TEXT and start.lstrip()[:1] in (b"[", b"{")):
        return json_tables.describe_json(file.fileno(), size)
    return tables.describe_csv(file.fileno(), size, certain=ending in TEXT)


def _need(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise Needs(module.partition(".")[0]) from None


def _parquet(file: io.BufferedReader) -> Table:
    found = _need("pyarrow.parquet").ParquetFile(file, pre_buffer=False, buffer_size=1 << 20)
    fields, metadata = list(found.schema_arrow), found.metadata
    flat = metadata.num_columns == len(fields)
    columns = [
        Column(field.name, str(field.type), _nulls(metadata, n) if flat else None)
        for n, field in enumerate(fields)
    ]
    shown = [field.name for field in fields[:MOST_COLUMNS]]
    sample: list[list[str]] = []
    for batch in found.iter_batches(batch_size=tables.SAMPLE, columns=shown):
        values = [column.to_pylist() for column in batch.columns]
        sample = [[tables.as_text(value) for value in row] for row in zip(*values, strict=True)]
        break
    rows = metadata.num_rows
    return Table("parquet", rows, True, rows, columns, sample)


def _nulls(metadata: Any, column: int) -> int | None:
    total = 0
    for group in range(metadata.num_row_groups):
        statistics = metadata.row_group(group).column(column).statistics
        if statistics is None or not statistics.has_null_count:
            return None
        total += statistics.null_count
    return total


def _excel(file: io.BufferedReader) -> Table:
    openpyxl = _need("openpyxl")
    try:
        book = openpyxl.load_workbook(file, read_only=True, data_only=True)
    except (KeyError, ValueError, openpyxl.utils.exceptions.InvalidFileException):
        raise NotATable("it is a zip file, and not one of Excel") from None
    if not book.worksheets:
        raise NotATable("it has no sheets with cells")
    until = time.monotonic() + tables.COUNT_SECONDS
    header: list[Any] | None = None
    examined: list[list[Any]] = []
    rows, exact = 0, True
    sheet = book.worksheets[0]
    for row in sheet.iter_rows(values_only=True):
        if all(value is None for value in row):
            continue
        if header is None:
            header = list(row)
            continue
        rows += 1
        if rows <= tables.EXAMINED:
            examined.append(list(row))
        elif time.monotonic() > until:
            rows, exact = max(rows, (sheet.max_row or 0) - 1), False
            break
    if header is None:
        raise NotATable("its first sheet is empty")
    columns = tables.columns_of(tables.named("" if h is None else h for h in header), examined, False)
    sample = [[tables.as_text(value) for value in row] for row in examined[: tables.SAMPLE]]
    return Table("xlsx", rows, exact, len(examined), columns, sample, book.sheetnames)


def fitting(table: Table) -> bytes:
    """A table as JSON that is not too long, however wide the table and its cells are."""
    columns = table.columns[:MOST_COLUMNS]
    for length, rows in LENGTHS:
        said = {
            "format": table.format,
            "rows": table.rows,
            "rows_exact": table.rows_exact,
            "rows_examined": table.rows_examined,
            "columns": [
                {"name": cut(n, length), "type": cut(t, 100), "nulls": x} for n, t, x in columns
            ],
            "more_columns": len(table.columns) - len(columns),
            "sample": [[cut(c, length) for c in row[: len(columns)]] for row in table.sample[:rows]],
            "sheets": [cut(name, length) for name in table.sheets[:100]],
        }
        answer = json.dumps({"description": said}, ensure_ascii=False).encode("utf-8", "replace")
        if len(answer) <= ANSWER_BYTES:
            break
    return answer


def cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def answer(path: str) -> bytes:
    try:
        return fitting(describe(path))
    except FileNotFoundError:
        problem = {"problem": "missing"}
    except Needs as e:
        problem = {"problem": "needs", "package": str(e)}
    except MemoryError:
        problem = {"problem": "memory"}
    except NotATable as e:
        problem = {"problem": "no table", "why": str(e)}
    except Exception as e:  # whatever a reader does with a file that is not what it seems
        problem = {"problem": "no table", "why": f"it cannot be read ({type(e).__name__}: {e})"[:300]}
    return json.dumps(problem).encode()


def main() -> None:
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")  # where memory runs out, this goes and not a kernel
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    with contextlib.suppress(OSError):
        os.nice(5)
    sys.stdout.buffer.write(answer(sys.argv[1]))


if __name__ == "__main__":
    main()
