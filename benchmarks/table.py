"""The figures for people."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from rich.console import Console
from rich.table import Table

from benchmarks.figures import Figure

VERDICTS = {True: "[green]met[/]", False: "[bold red]missed[/]", None: ""}


def show(console: Console, figures: Sequence[Figure]) -> None:
    table = Table(title="ours next to the others, medians")
    table.add_column("measurement")
    for heading in ("ours", "theirs", "ratio", "target"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("")
    table.add_column("compared with")
    for figure in figures:
        table.add_row(
            figure.name,
            _number(median(figure.ours), figure.unit),
            _number(median(figure.theirs), figure.unit) if figure.theirs else "",
            f"{figure.ratio:.2f}" if figure.ratio is not None else "",
            str(figure.target or ""),
            VERDICTS[figure.met],
            figure.against + (f" ({figure.note})" if figure.note else ""),
        )
    console.print(table)


def _number(value: float, unit: str) -> str:
    return f"{value:.3g} {unit}" if value < 100 else f"{value:.0f} {unit}"
