"""The files of sessions as Jupyter's contents: one directory for each session, named by its id.

The same tree as `/v1/sessions/{id}/files`, with the same limits and the same care: paths never lead out
of a workspace.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from interpreter.errors import FileConflict, FileTooLarge, InvalidPath, InvalidRequest
from interpreter.gateway.handler import ApiHandler
from interpreter.gateway.jupyter.kernels import moment
from interpreter.gateway.operation import Operation
from interpreter.models.files import Directory, FileEntry, FileType
from interpreter.workspace import OpenFile, Tree
from interpreter.workspace.paths import checked, joined, split

MOST_BYTES = 32 * 1024 * 1024
"""The largest file that is sent as JSON; larger ones are downloaded from /files."""
LARGEST_BODY = MOST_BYTES * 4 // 3 + 64 * 1024
"""As much, as base64: what was read can be stored again."""
MOST_TRIED = 10_000
"""Names that something new does not get because others have them."""
EMPTY_NOTEBOOK: dict[str, Any] = {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
Kind = Literal["file", "directory", "notebook"]


class Notebook(Struct):
    """A file that is JSON and an object. What is in it came from a sandbox, and is passed on as it is:
    made into objects it could take twenty times as much."""


class Wanted(Struct):
    """How contents are to be told."""

    content: bool = True
    type: str | None = None
    format: str | None = None


class Contents(Struct):
    """What is to be stored, or where."""

    type: str | None = None
    format: str | None = None
    content: msgspec.Raw = msgspec.Raw(b"null")
    """As it came: to make something of it takes a while."""
    path: Annotated[str, Meta(max_length=4095)] | None = None
    ext: Annotated[str, Meta(max_length=100)] = ""
    copy_from: Annotated[str, Meta(max_length=4095)] | None = None
    chunk: int | None = None


def _place(path: str) -> tuple[str, str]:
    """The session and the path in its workspace."""
    session_id, _, rest = path.strip("/").partition("/")
    return session_id, checked(rest)


def _model(path: str, type: Kind, when: datetime, size: int | None = None) -> dict[str, Any]:
    return {
        "name": path.rpartition("/")[2],
        "path": path,
        "type": type,
        "writable": True,
        "created": moment(when),
        "last_modified": moment(when),
        "mimetype": None,
        "format": None,
        "content": None,
        "size": size,
        "hash": None,
        "hash_algorithm": None,
    }


def _kind(entry: FileEntry) -> Kind:
    if entry.type is FileType.directory:
        return "directory"
    return "notebook" if entry.name.endswith(".ipynb") else "file"


def _entry(session_id: str, entry: FileEntry) -> dict[str, Any]:
    size = entry.size if entry.type is FileType.file else None
    model = _model(f"{session_id}/{entry.path}", _kind(entry), entry.modified_at, size)
    model["mimetype"] = entry.mime_type
    return model


async def read_contents(call: ApiHandler) -> Any:
    wanted = call.query(Wanted)
    session_id, path = _place(call.path["path"])
    if not session_id:
        return _sessions(call, wanted)
    files = call.orchestrator.files.of(session_id)
    async with files.tree() as tree:
        found = await files.run(tree.read, path)
        if isinstance(found, Directory):
            return _directory(session_id, found, wanted)
        try:
            return await files.run(_file, session_id, found, wanted)
        finally:
            files.later(found.close)


def _sessions(call: ApiHandler, wanted: Wanted) -> dict[str, Any]:
    model = _model("", "directory", call.gateway.jupyter.started)
    if wanted.content:
        model["format"] = "json"
        model["content"] = [
            _model(s.id, "directory", s.last_activity)
            for s in call.orchestrator.all()
            if s.record.workspace_id is not None and s.elsewhere is None
        ]
    return model


def _directory(session_id: str, found: Directory, wanted: Wanted) -> dict[str, Any]:
    if wanted.type not in (None, "directory"):
        raise InvalidRequest(f"'{found.path[:200]}' is a directory.")
    path = f"{session_id}/{found.path}".rstrip("/")
    model = _model(path, "directory", datetime.now(UTC))
    if wanted.content:
        model["format"] = "json"
        model["content"] = [_entry(session_id, e) for e in found.entries if e.path is not None]
    return model


def _file(session_id: str, found: OpenFile, wanted: Wanted) -> bytes:
    """Runs in a thread: it reads, and large answers take a while to make."""
    return msgspec.json.encode(_file_model(session_id, found, wanted))


def _file_model(session_id: str, found: OpenFile, wanted: Wanted) -> dict[str, Any]:
    if wanted.type == "directory":
        raise InvalidRequest(f"'{found.path[:200]}' is not a directory.")
    model = _entry(session_id, found.entry())
    if wanted.type in ("file", "notebook"):
        model["type"] = wanted.type
    if not wanted.content:
        return model
    if found.size > MOST_BYTES:
        raise FileTooLarge(f"It has {found.size:,} bytes; at most {MOST_BYTES:,} are sent this way.")
    data = os.pread(found.descriptor, found.size, 0)
    if model["type"] == "notebook":
        model["format"], model["content"] = "json", _notebook(data)
        model["mimetype"] = None
        return model
    if wanted.format != "base64":
        try:
            model["content"], model["format"] = data.decode(), "text"
            return model
        except UnicodeDecodeError:
            if wanted.format == "text":
                raise InvalidRequest("The file is not UTF-8 text.") from None
    model["content"], model["format"] = base64.b64encode(data).decode(), "base64"
    return model


def _notebook(data: bytes) -> Any:
    if not data.strip():
        return EMPTY_NOTEBOOK
    try:
        data.decode()  # which what follows does not look at
        msgspec.json.decode(data, type=Notebook)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as e:
        raise InvalidRequest(f"The file is not a notebook: {e}.") from None
    return msgspec.Raw(data)


async def save_contents(call: ApiHandler) -> Any:
    session_id, path = _place(call.path["path"])
    given = call.body(Contents)
    files = call.orchestrator.files.of(session_id)
    if given.type != "directory" and given.chunk is not None:
        take, data = call.gateway.jupyter.chunks.take, await files.run(_data, given)
        entry, created = await take(files, session_id, path, given.chunk, data)
    else:
        async with files.tree(change=True) as tree:
            if given.type == "directory":
                entry, created = await files.run(tree.make_directory, path)
            else:
                data = await files.run(_data, given)
                entry, created = await files.run(_store, tree, path, data)
    call.set_status(201 if created else 200)
    call.finish_json(_entry(session_id, entry))
    return None


def _data(given: Contents) -> bytes:
    """Runs in a thread."""
    content = bytes(given.content)
    if given.type == "notebook":
        if content in (b"null", b"{}"):
            content = msgspec.json.encode(EMPTY_NOTEBOOK)
        try:
            content.decode()  # which nobody has looked at
        except UnicodeDecodeError:
            raise InvalidRequest("The content is not UTF-8.") from None
        return msgspec.json.format(content, indent=1) + b"\n"
    try:
        text = msgspec.json.decode(content, type=str | None) or ""
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise InvalidRequest("The content of a file is text.") from None
    if given.format != "base64":
        return text.encode("utf-8", "replace")
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as e:
        raise InvalidRequest(f"The content is not base64: {e}.") from None


def _store(tree: Tree, path: str, data: bytes, *, new: bool = False) -> tuple[FileEntry, bool]:
    """Runs in a thread."""
    incoming = tree.receive(path, tree.budget(len(data)))
    try:
        incoming.write(data)
        entry, _, created = tree.store(incoming, new=new)
        return entry, created
    finally:
        incoming.close()


async def new_contents(call: ApiHandler) -> Any:
    """A copy of a file, or an untitled file, notebook or directory."""
    given = call.body(Contents)
    session_id, directory = _place(call.path["path"])
    source = None
    if given.copy_from is not None:
        other, source = _place(given.copy_from)
        if other != session_id:
            raise InvalidRequest("A file is copied within one session.")
    files = call.orchestrator.files.of(session_id)
    async with files.tree(change=True) as tree:
        entry = await files.run(_make, tree, directory, source, given)
    call.set_status(201)
    call.finish_json(_entry(session_id, entry))
    return None


def _make(tree: Tree, directory: str, source: str | None, given: Contents) -> FileEntry:
    """Runs in a thread."""
    if source is not None:
        stem, dot, ending = split(source)[1].partition(".")
        copy = lambda path: tree.copy(source, path, overwrite=False)  # noqa: E731
        return _make_named(tree, directory, f"{stem}-Copy", dot + ending, copy)
    kind = given.type or ("notebook" if given.ext == ".ipynb" else "file")
    if kind == "directory":
        make = lambda path: tree.make_directory(path)[0]  # noqa: E731
        return _make_named(tree, directory, "Untitled Folder", "", make)
    data = _data(Contents(type=kind))
    store = lambda path: _store(tree, path, data, new=True)[0]  # noqa: E731
    if kind == "notebook":
        return _make_named(tree, directory, "Untitled", ".ipynb", store)
    return _make_named(tree, directory, "untitled", given.ext, store)


def _make_named(
    tree: Tree, directory: str, stem: str, ending: str, make: Callable[[str], FileEntry]
) -> FileEntry:
    """Makes it under the first name that nothing has yet."""
    if "/" in ending:
        raise InvalidPath("The ending of a name has a '/' in it.")
    for number in range(MOST_TRIED):
        path = checked(joined(directory, f"{stem}{number or ''}{ending}"))
        if tree.has(path):
            continue
        try:
            return make(path)
        except FileConflict:
            if not tree.has(path):  # else somebody else has just got the name
                raise
    raise FileConflict("There are too many files with such names.", "Delete some of them.")


async def move_contents(call: ApiHandler) -> Any:
    given = call.body(Contents)
    session_id, path = _place(call.path["path"])
    other, to = _place(given.path or "")
    if other != session_id or not to:
        raise InvalidRequest("A file is moved within one session.")
    files = call.orchestrator.files.of(session_id)
    async with files.tree(change=True) as tree:
        entry = await files.run(lambda: tree.move(path, to, overwrite=False))
    return _entry(session_id, entry)


async def delete_contents(call: ApiHandler) -> Any:
    session_id, path = _place(call.path["path"])
    files = call.orchestrator.files.of(session_id)
    async with files.tree(change=True) as tree:
        await files.run(lambda: tree.delete(path, recursive=True))


ALL = "/api/contents/{path}"

OPERATIONS = [
    Operation("GET", ALL, "Read a file or a directory", read_contents, answers={200: dict}),
    Operation(
        "PUT",
        ALL,
        "Store a file",
        save_contents,
        answers={200: dict, 201: dict},
        largest_body=LARGEST_BODY,
    ),
    Operation("POST", ALL, "Make or copy a file", new_contents, answers={201: dict}),
    Operation("PATCH", ALL, "Move a file", move_contents, answers={200: dict}),
    Operation("DELETE", ALL, "Delete a file or a directory", delete_contents, answers={204: None}),
]
