"""`interpreter repair`: what could be saved of a damaged database, as a table."""

from __future__ import annotations

import json as text_json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from interpreter.config import load
from interpreter.gateway.repair import ASIDE
from interpreter.gateway.repair import repair as repair_data


def repair(flags: Mapping[str, Any], file: Path | None, json: bool) -> None:
    config = load(flags, file=file).config
    report, aside = repair_data(config)
    if json:
        print(text_json.dumps({**msgspec.to_builtins(report), "workspaces_put_aside": aside}, indent=2))
        return
    if report.problem is None:
        print("Nothing is wrong with the database, and nothing was changed.")
        return
    from interpreter.cli.table import print_table

    print(f"The database was damaged: {report.problem}.")
    print_table(
        ("table", "recovered", "lost"),
        [(t.table, f"{t.rows:,}", "some" if t.lost is None else f"{t.lost:,}") for t in report.tables],
    )
    if report.lost_transactions:
        print(f"{report.lost_transactions} of the last transactions could not be read.")
    for session in report.restored_sessions:
        print(f"Session {session} lost its name, settings and limits, and is stopped.")
    if aside:
        print(f"{len(aside)} workspaces belong to no session any more; they are in {ASIDE}/.")
    print(f"The damaged database is kept as {' and '.join(report.kept)} in {config.data_path}.")
