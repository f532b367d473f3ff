"""Repairing the database of a data directory, while no gateway uses it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from interpreter.config import Config
from interpreter.gateway.ownership import owned
from interpreter.store import Report, Store
from interpreter.store import repair as repair_database

ASIDE = "workspaces-without-session"


def repair(config: Config) -> tuple[Report, list[str]]:
    """What was done, and which workspaces have no session any more.

    Those are put aside: the next gateway removes workspaces that belong to nobody.
    """
    with owned(config.data_path):
        database = config.data_path / "interpreter.db"
        report = repair_database(database)
        if report.problem is None:
            return report, []
        known = asyncio.run(_workspaces(database))
        return report, _put_aside(config.data_path, known)


async def _workspaces(database: Path) -> set[str]:
    store = await Store.open(database)
    try:
        sessions = await store.sessions()
        of_sessions = {record.workspace_id or record.id for record in sessions}
        # What a named workspace is mounted over goes with the sandbox.
        of_sessions |= {record.sandbox_id or record.id for record in sessions}
        return of_sessions | {record.id for record in await store.workspaces()}
    finally:
        await store.close()


def _put_aside(data: Path, known: set[str]) -> list[str]:
    there, aside = data / "workspaces", data / ASIDE
    moved = []
    for path in sorted(there.iterdir()) if there.is_dir() else ():
        # One that is still mounted stays until its sandbox is ended, and is the file's anyway.
        if path.name.removesuffix(".img") in known or path.is_mount():
            continue
        aside.mkdir(mode=0o700, exist_ok=True)
        path.rename(aside / path.name)
        moved.append(path.name)
    return moved
