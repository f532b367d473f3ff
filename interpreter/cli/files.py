"""`interpreter cp`, `ls` and `rm`: the files of sessions, as one knows it from local ones."""

from __future__ import annotations

import os
import stat
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from interpreter.cli.attach import pick
from interpreter.cli.exits import Exit, complain, report
from interpreter.cli.table import print_table
from interpreter.client import Client
from interpreter.client.file_requests import Listing
from interpreter.client.files import Files
from interpreter.client.local_files import Progress
from interpreter.errors import FileConflict, FileNotFound, InterpreterError, TooManyFiles
from interpreter.models import to_json
from interpreter.models.files import Directory, FileEntry, FileType

if TYPE_CHECKING:
    from rich.progress import Progress as Bars

COLUMNS = ("name", "size", "changed")


def cp(source: str, target: str, recursive: bool) -> Exit:
    """Copies between this machine and a session, or within one."""
    there, here = _remote(source), _remote(target)
    with Client() as client:
        if there is None and here is None:
            raise typer.BadParameter("One of the two has to be in a session: SESSION:PATH.")
        if there is None:
            assert here is not None
            files = pick(client, here[0]).files
            with _Bar() as bar:
                return _upload(files, Path(source), here[1], recursive, bar)
        files = pick(client, there[0]).files
        if here is None:
            with _Bar() as bar:
                return _download(files, there[1], Path(target), recursive, bar)
        if pick(client, here[0]).id != pick(client, there[0]).id:
            raise typer.BadParameter("Copying between two sessions goes over a local file.")
        files.copy(there[1], _inside(files, here[1], there[1]), overwrite=True)
    return Exit.ok


def ls(wanted: str, json: bool) -> None:
    session, path = _remote(wanted) or (wanted, "")
    with Client() as client:
        found = _listing(pick(client, session).files, path)
    if json:
        print(to_json(Directory(path=path, entries=list(found), more=found.more)).decode())
        return
    print_table(COLUMNS, [_row(entry) for entry in found])
    if found.more:
        print("There are more, which are not shown.", file=sys.stderr)


def rm(wanted: list[str], recursive: bool) -> Exit:
    outcome = Exit.ok
    with Client() as client:
        for one in wanted:
            place = _remote(one)
            if place is None or not place[1]:
                raise typer.BadParameter(f"'{one}' is not SESSION:PATH.")
            try:
                pick(client, place[0]).files.delete(place[1], recursive=recursive)
            except InterpreterError as error:
                outcome = report(error)
    return outcome


def _remote(text: str) -> tuple[str, str] | None:
    """The session and the path in it; None if it is a local path."""
    session, colon, path = text.partition(":")
    return (session, path) if colon and session and "/" not in session else None


# -- looking


def _listing(files: Files, path: str) -> Listing:
    """What is in a directory; of a file, the file."""
    try:
        return files.list(path)
    except FileConflict:
        parent, _, name = path.rstrip("/").rpartition("/")
        only = [entry for entry in files.list(parent) if entry.name == name]
        if not only:
            raise
        return Listing(Directory(path=path, entries=only))


def _row(entry: FileEntry) -> tuple[str, str, str]:
    slash = {FileType.directory: "/", FileType.link: "@", FileType.other: "?"}
    size = "" if entry.type is FileType.directory else f"{entry.size:,}"
    return entry.name + slash.get(entry.type, ""), size, _local_time(entry.modified_at)


def _local_time(moment: datetime) -> str:
    return moment.astimezone().strftime("%Y-%m-%d %H:%M")


def _is_directory(files: Files, path: str) -> bool:
    try:
        files.list(path)
    except (FileNotFound, FileConflict):
        return False
    return True


def _inside(files: Files, target: str, name: str) -> str:
    """The target; or the same name in it, if it is a directory."""
    if target in ("", ".") or target.endswith("/") or _is_directory(files, target):
        return f"{target.rstrip('/')}/{Path(name).name}".lstrip("/")
    return target


# -- copying


def _upload(files: Files, source: Path, target: str, recursive: bool, bar: _Bar) -> Exit:
    if not source.exists():
        raise typer.BadParameter(f"There is no '{source}'.")
    if not source.is_dir():
        files.upload(source, _inside(files, target, source.name), progress=bar.of(source.name))
        return Exit.ok
    if not recursive:
        raise typer.BadParameter(f"'{source}' is a directory; -r copies it with everything in it.")
    top = _inside(files, target, source.resolve().name)
    outcome = Exit.ok
    for folder, folders, names in os.walk(source):
        place = "/".join((top, *Path(folder).relative_to(source).parts))
        if not folders and not names:
            files.make_directory(place)
        for name in names:
            local = Path(folder, name)
            if stat.S_ISREG(local.lstat().st_mode):
                files.upload(local, f"{place}/{name}", progress=bar.of(name))
            else:
                outcome = _left_out(local)
    return outcome


def _download(files: Files, path: str, target: Path, recursive: bool, bar: _Bar) -> Exit:
    if path and not path.endswith("/"):
        try:
            files.download(path, target, progress=bar.of(Path(path).name))
            return Exit.ok
        except FileConflict:
            if not _is_directory(files, path):
                raise
    if not recursive:
        raise typer.BadParameter(f"'{path}' is a directory; -r copies it with everything in it.")
    name = Path(path).name
    top = target / name if name and target.is_dir() else target
    outcome = Exit.ok
    pending = [(path.rstrip("/"), top)]
    while pending:
        place, local = pending.pop()
        local.mkdir(parents=True, exist_ok=True)
        listed = files.list(place)
        if listed.more:
            raise TooManyFiles(f"'{place}' has too many files.", "Get it as an archive with the SDK.")
        for entry in listed:
            here = local / entry.name
            if entry.path is None or here.name != entry.name or here.parent != local:
                outcome = _left_out(here)  # a name that this machine cannot have
            elif entry.type is FileType.directory:
                pending.append((entry.path, here))
            elif entry.type is FileType.file:
                files.download(entry.path, here, progress=bar.of(entry.name))
            else:
                outcome = _left_out(here)
    return outcome


def _left_out(path: Path) -> Exit:
    readable = "".join(c if c.isprintable() else "?" for c in str(path))
    complain(f"{readable} is left out: it is a link, or nothing that can be copied.")
    return Exit.gateway


class _Bar:
    """A bar for the file that is copied, on a terminal; it is gone afterwards."""

    def __init__(self) -> None:
        self._shown = self._make() if sys.stderr.isatty() else None

    def _make(self) -> Bars:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )

        return Progress(
            TextColumn("{task.description}", markup=False),
            *(BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()),
            console=Console(stderr=True),
            transient=True,
        )

    def __enter__(self) -> _Bar:
        if self._shown is not None:
            self._shown.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown is not None:
            self._shown.stop()

    def of(self, name: str) -> Progress | None:
        """What tells the bar how far this file is."""
        shown = self._shown
        if shown is None:
            return None
        for old in shown.task_ids:
            shown.remove_task(old)
        task = shown.add_task("".join(c for c in name if c.isprintable()), total=None)
        return lambda done, total: shown.update(task, completed=done, total=total)
