"""Checkpoints of files, as Jupyter's own server keeps them: one of each, in `.ipynb_checkpoints`.

A folder can be called `checkpoints`, too: a path that ends so is of a file's checkpoints only if what is
before that is a file, and else one of the contents like any other.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from interpreter.errors import FileNotFound
from interpreter.gateway.handler import ApiHandler
from interpreter.gateway.jupyter import contents
from interpreter.gateway.jupyter.kernels import moment
from interpreter.gateway.operation import Operation
from interpreter.models.files import Directory, FileEntry
from interpreter.orchestrator.files import SessionFiles
from interpreter.workspace import Tree
from interpreter.workspace.paths import checked, joined, split

ID = "checkpoint"
FOLDER = ".ipynb_checkpoints"

OfFile = Callable[[SessionFiles, str], Awaitable[Any]]


def _kept(path: str) -> str:
    """Where a file's checkpoint is."""
    directory, name = split(path)
    stem, ending = os.path.splitext(name)
    return checked(joined(joined(directory, FOLDER), f"{stem}-{ID}{ending}"))


def _model(entry: FileEntry) -> dict[str, Any]:
    return {"id": ID, "last_modified": moment(entry.modified_at)}


def _file(tree: Tree, path: str) -> FileEntry | None:
    """Runs in a thread."""
    try:
        found = tree.read(path)
    except FileNotFound:
        return None
    if isinstance(found, Directory):
        return None
    try:
        return found.entry()
    finally:
        found.close()


async def _list(files: SessionFiles, path: str) -> Any:
    async with files.tree() as tree:
        entry = await files.run(_file, tree, _kept(path))
        return [] if entry is None else [_model(entry)]


async def _make(files: SessionFiles, path: str) -> Any:
    async with files.tree(change=True) as tree:
        return _model(await files.run(lambda: tree.copy(path, _kept(path), overwrite=True)))


async def _restore(files: SessionFiles, path: str) -> Any:
    async with files.tree(change=True) as tree:
        await files.run(lambda: tree.copy(_kept(path), path, overwrite=True))


async def _delete(files: SessionFiles, path: str) -> Any:
    async with files.tree(change=True) as tree:
        await files.run(lambda: tree.delete(_kept(path), recursive=False))


def _with(ending: str, operation: Operation, of_file: OfFile | None = None) -> Operation:
    """What is asked of a path with this ending: of a file's checkpoints, or else of the contents."""

    async def operate(call: ApiHandler) -> Any:
        session_id, path = contents._place(call.path["path"])
        if of_file is not None and path:
            files = call.orchestrator.files.of(session_id)
            async with files.tree() as tree:
                is_file = await files.run(_file, tree, path) is not None
            if is_file:
                return await of_file(files, path)
        call.path["path"] += ending
        return await operation.function(call)

    return replace(
        operation,
        path=contents.ALL + ending,
        function=operate,
        answers={**operation.answers, 204: None},
    )


OF_ALL = {"GET": _list, "POST": _make}
OF_ONE = {"POST": _restore, "DELETE": _delete}

OPERATIONS = [
    *(_with("/checkpoints", o, OF_ALL.get(o.method)) for o in contents.OPERATIONS),
    *(_with(f"/checkpoints/{ID}", o, OF_ONE.get(o.method)) for o in contents.OPERATIONS),
]
