"""MIME types: by the name, the same everywhere."""

from __future__ import annotations

import pytest

from interpreter.workspace.mime import mime_type


@pytest.mark.parametrize(
    ("name", "type"),
    [
        ("plot.png", "image/png"),
        ("Plot.PNG", "image/png"),
        ("data:text.csv", "text/csv"),
        ("a.b.parquet", "application/vnd.apache.parquet"),
        ("lines.jsonl", "application/jsonl"),
        ("book.xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
        ("all.tar.gz", "application/gzip"),
        ("data.csv.gz", "application/gzip"),
        ("data.csv.xz", "application/x-xz"),
        ("photo.webp", "image/webp"),
        (".csv", None),
        ("Makefile", None),
        ("a.no-such-ending", None),
        ("a\ud800.txt", "text/plain"),
    ],
)
def test_a_name_tells(name: str, type: str | None) -> None:
    assert mime_type(name) == type
