"""`interpreter workspaces`: files with a name, made, listed, copied, archived and deleted."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import typer

from interpreter.cli.attach import pick
from interpreter.cli.exits import Exit, report
from interpreter.cli.spinner import Spinner
from interpreter.cli.table import ago, print_table
from interpreter.client import Client
from interpreter.client.errors import GatewayUnreachable
from interpreter.client.local_files import Progress
from interpreter.errors import InterpreterError
from interpreter.models import Workspace, WorkspaceList, to_json

COLUMNS = ("name", "owner", "size", "of", "used by", "age", "last used")


def show(owner: str | None, json: bool) -> None:
    with Client() as client:
        found = client.workspaces.list(owner)
    if json:
        print(to_json(WorkspaceList(workspaces=found)).decode())
    elif found:
        print_table(COLUMNS, [_row(workspace) for workspace in found])
    elif owner:
        print("There are no such workspaces.", file=sys.stderr)
    else:
        text = "There are no workspaces. 'interpreter workspaces create NAME' makes one."
        print(text, file=sys.stderr)


def create(
    name: str, owner: str | None, disk_mb: int | None, from_session: str | None, json: bool
) -> None:
    with Client() as client:
        source = None if from_session is None else pick(client, from_session).id
        with Spinner(sys.stderr, f"making {name}"):
            made = client.workspaces.create(name, owner=owner, disk_mb=disk_mb, from_session=source)
    _tell(made, json)


def copy(name: str, to: str, owner: str | None, disk_mb: int | None, json: bool) -> None:
    with Client() as client, Spinner(sys.stderr, f"copying {name}"):
        made = client.workspaces.copy(name, to, owner=owner, disk_mb=disk_mb)
    _tell(made, json)


def archive(name: str, file: Path | None) -> None:
    target = Path(f"{name}.tar.gz") if file is None else file
    if target.is_dir():
        target /= f"{name}.tar.gz"
    with Client() as client, _bar(f"archiving {name}") as progress:
        _check(target.parent)
        client.workspaces.archive(name, target, progress=progress)
    print(f"archived {name} as {target}, {_size(target.stat().st_size)}")


def restore(name: str, file: Path, owner: str | None, disk_mb: int | None, json: bool) -> None:
    if not file.is_file():
        raise typer.BadParameter(f"There is no file '{file}'.", param_hint="FILE")
    with Client() as client, _bar(f"restoring {name}") as progress:
        made = client.workspaces.restore(name, file, owner=owner, disk_mb=disk_mb, progress=progress)
    _tell(made, json)


def remove(names: Sequence[str]) -> Exit:
    """Deletes those that can be deleted, and says which could not."""
    outcome = Exit.ok
    with Client() as client:
        for name in names:
            try:
                deleted = client.workspaces.delete(name)
                print(f"deleted {name}, {_size(deleted.bytes)}", flush=True)
            except GatewayUnreachable:
                raise
            except InterpreterError as error:
                outcome = report(error)
    return outcome


def _check(folder: Path) -> None:
    if not folder.is_dir():
        raise typer.BadParameter(f"There is no folder '{folder}'.", param_hint="FILE")


def _tell(made: Workspace, json: bool) -> None:
    if json:
        print(to_json(made).decode())
    else:
        held = f"{_size(made.bytes)} of {made.disk_mb:,} MB"
        print(f"{made.name}, {held}; use it with 'interpreter run CODE --workspace {made.name}'")


def _row(workspace: Workspace) -> tuple[str, ...]:
    users = [
        (use.session_id or "a new session") + (" (reads)" if use.read_only else "")
        for use in workspace.in_use_by
    ]
    return (
        *(workspace.name, workspace.owner, _size(workspace.bytes), f"{workspace.disk_mb:,} MB"),
        ", ".join(users),
        *(ago(workspace.created_at), f"{ago(workspace.last_used)} ago"),
    )


def _size(count: int | None) -> str:
    """In the same unit as the limit."""
    return "?" if count is None else f"{count / 2**20:,.1f} MB"


@contextmanager
def _bar(what: str) -> Iterator[Progress | None]:
    """A bar with how much is done and how long it takes, on a terminal; it is gone afterwards."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn())
    more = (DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, *more, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
