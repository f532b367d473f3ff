"""`interpreter describe`: the table in a file of a session, as a person or an agent reads it."""

from __future__ import annotations

from interpreter.cli.attach import pick
from interpreter.cli.table import print_table
from interpreter.client import Client
from interpreter.models import to_json
from interpreter.models.descriptions import Description

SHOWN = 3
"""Values of each column that are shown."""


def describe(wanted: str, path: str, json: bool) -> None:
    with Client() as client:
        found = pick(client, wanted).describe(path)
    if json:
        print(to_json(found).decode())
        return
    print(f"{found.format}, {_rows(found)}, {len(found.columns) + found.more_columns:,} columns")
    rows = [
        (
            column.name,
            column.type,
            "" if column.nulls is None else f"{column.nulls:,}",
            ", ".join(row[place] for row in found.sample[:SHOWN]),
        )
        for place, column in enumerate(found.columns)
    ]
    print_table(("column", "type", "nulls", "such as"), rows)
    if found.sheets[1:]:
        print(f"other sheets: {', '.join(found.sheets[1:])}")


def _rows(found: Description) -> str:
    if found.rows is None:
        return "number of rows not known"
    return f"{'' if found.rows_exact else 'about '}{found.rows:,} rows"
