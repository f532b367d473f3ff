"""`interpreter datasets`: what was uploaded for sessions to read."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from interpreter.cli.exits import Exit, report
from interpreter.cli.table import ago, print_table
from interpreter.client import Client
from interpreter.client.errors import GatewayUnreachable
from interpreter.errors import InterpreterError
from interpreter.models import to_json


def show(json: bool) -> None:
    with Client() as client:
        found = client.datasets.list()
    if json:
        print(to_json(found).decode())
    elif found:
        rows = [
            (d.name, f"{d.file_count:,}", size(d.bytes), str(d.sessions), ago(d.created_at))
            for d in found
        ]
        print_table(("name", "files", "size", "sessions", "age"), rows)
    else:
        print("There are no datasets. 'interpreter datasets add NAME PATH' makes one.", file=sys.stderr)


def files(name: str, json: bool) -> None:
    with Client() as client:
        found = client.datasets.get(name)
    if json:
        print(to_json(found).decode())
    else:
        print_table(("path", "size", "type"), [(f.path, size(f.size), f.mime_type) for f in found.files])


def add(name: str, path: Path, unpack: bool, json: bool) -> None:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    console = Console(stderr=True)
    columns = (TextColumn("uploading"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with (
        Client() as client,
        Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar,
    ):
        task = bar.add_task("", total=None)
        made = client.datasets.upload(
            name,
            path,
            unpack=unpack,
            progress=lambda sent, total: bar.update(task, completed=sent, total=total),
        )
    if json:
        print(to_json(made).decode())
    else:
        count = "1 file" if made.file_count == 1 else f"{made.file_count:,} files"
        print(f"{made.name}: {count}, {size(made.bytes)}; sessions see it at /data/input/{made.name}")


def remove(names: Sequence[str]) -> Exit:
    outcome = Exit.ok
    with Client() as client:
        for name in names:
            try:
                client.datasets.delete(name)
                print(f"deleted {name}", flush=True)
            except GatewayUnreachable:
                raise
            except InterpreterError as error:
                outcome = report(error)
    return outcome


def size(count: int) -> str:
    """As a person reads it."""
    if count < 1000:
        return f"{count} bytes"
    left = float(count)
    for unit in ("kB", "MB"):
        left /= 1000
        if left < 1000:
            return f"{left:.1f} {unit}"
    return f"{left / 1000:,.1f} GB"
