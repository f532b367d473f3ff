"""Tables and times as a person reads them."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from datetime import UTC, datetime


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table that fits a terminal, and that is not cut where it goes to a file or a pipe."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*columns, box=None, header_style="bold", pad_edge=False)
    table.columns[0].no_wrap = True
    for row in rows:
        # Names come from others: no markup and no control characters of theirs.
        table.add_row(*(Text("".join(c for c in cell if c.isprintable())) for cell in row))
    Console(width=None if sys.stdout.isatty() else 1000, soft_wrap=False).print(table)


def narrow(columns: int) -> bool:
    """Whether there is a terminal, and it shows fewer columns of text than this."""
    return sys.stdout.isatty() and shutil.get_terminal_size().columns < columns


def ago(then: datetime) -> str:
    return span((datetime.now(UTC) - then).total_seconds())


def span(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{max(0, int(seconds))} s"
