"""The operations on the files of a session."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from interpreter.errors import (
    CannotDescribe,
    FileChanged,
    FileConflict,
    FileNotFound,
    FileRefused,
    FilesUnreachable,
    FileTooLarge,
    InvalidPath,
    NoSpaceLeft,
    RangeNotSatisfiable,
    SandboxFailed,
    SessionNotFound,
    ShuttingDown,
    TooManyFiles,
    WrongDigest,
    WrongState,
)
from interpreter.gateway import file_headers, uploads
from interpreter.gateway.downloads import send_archive, send_file
from interpreter.gateway.handler import ApiHandler
from interpreter.gateway.operation import Operation
from interpreter.models.descriptions import Description
from interpreter.models.files import Directory, FileEntry, FileMove
from interpreter.orchestrator.describe import describe
from interpreter.orchestrator.files import SessionFiles
from interpreter.workspace import OpenFile, Tree
from interpreter.workspace.archive import MIME_TYPES, Format
from interpreter.workspace.paths import checked, joined, split

# A file is a stranger's: it may be looked at, but must do nothing in the gateway's name.
POLICY = (
    "sandbox; default-src 'none'; img-src 'self' data:; media-src 'self' data:; "
    "style-src 'unsafe-inline'; font-src data:; form-action 'none'; frame-ancestors 'none'"
)


class Get(Struct, forbid_unknown_fields=True):
    """How a file or directory is to be sent."""

    archive: Literal["zip", "tar.gz"] | None = None
    """As an archive, with everything in it."""
    inline: bool = False
    """For a browser to show, instead of to save."""


class Read(Get, forbid_unknown_fields=True):
    """How a file or directory is to be sent, or whether only the table in it is to be described."""

    describe: bool | Literal[""] = False
    """Columns, types, rows and a sample of a CSV, Parquet, Excel or JSON file, told by the sandbox."""


class Delete(Struct, forbid_unknown_fields=True):
    """Whether a directory goes with everything in it."""

    recursive: bool = False


async def read_file(call: ApiHandler) -> Any:
    query = call.query(Read)
    if query.describe is not False:
        session = call.orchestrator.get(call.path["session_id"])
        return await describe(session, checked(call.path["path"]))
    return await _read(call, query)


async def _read(call: ApiHandler, query: Get) -> Any:
    files = call.orchestrator.files.of(call.path["session_id"])
    given = call.path.get("path", "")
    path = checked(given)
    async with files.tree() as tree:
        if query.archive is not None:
            return await _send_archive(call, files, tree, path, query.archive)
        # A path that ends with a slash can only be a directory.
        found = await files.run(tree.list if given.endswith("/") else tree.read, path)
        if isinstance(found, Directory):
            return found
        try:
            await _send(call, files, found, "inline" if query.inline else "attachment")
        finally:
            files.later(found.close)
    return None


async def _send(call: ApiHandler, files: SessionFiles, file: OpenFile, kind: str) -> None:
    headers, entry = call.request.headers, file.entry()
    changed = file_headers.modified(file.about.st_mtime)
    call.set_header("ETag", file.etag)
    call.set_header("Last-Modified", changed)
    call.set_header("Cache-Control", "private, no-cache")
    call.set_header("Accept-Ranges", "bytes")
    _guard(call, entry.mime_type or "", kind, entry.name)
    if file_headers.unchanged(headers, file.etag):
        call.set_status(304)
        call.clear_header("Content-Type")
        call.finish()
        return
    start, end = 0, file.size
    try:
        asked = call.request.method == "GET"
        part = file_headers.part(headers, file.size, file.etag, changed) if asked else None
    except RangeNotSatisfiable:
        call.error_headers["Content-Range"] = f"bytes */{file.size}"
        raise
    if part is not None:
        start, end = part
        call.set_status(206)
        call.set_header("Content-Range", f"bytes {start}-{end - 1}/{file.size}")
    call.set_header("Content-Length", str(end - start))
    await send_file(call, files, file.descriptor, start, end)


async def _send_archive(
    call: ApiHandler, files: SessionFiles, tree: Tree, path: str, format: Format
) -> None:
    archive = await files.run(tree.archive, path, format)
    name = split(path)[1] or call.path["session_id"]
    _guard(call, MIME_TYPES[format], "attachment", f"{name}.{format}")
    await send_archive(call, files, archive)


def _guard(call: ApiHandler, mime_type: str, kind: str, name: str) -> None:
    text = mime_type.startswith("text/")
    call.set_header("Content-Type", mime_type + ("; charset=utf-8" if text else ""))
    call.set_header("Content-Disposition", file_headers.disposition(kind, name))
    call.set_header("Content-Security-Policy", POLICY)
    call.set_header("Cross-Origin-Resource-Policy", "same-origin")
    # The token can be in the address.
    call.set_header("Referrer-Policy", "no-referrer")


async def list_files(call: ApiHandler) -> Any:
    return await _read(call, call.query(Get))


async def write_file(call: ApiHandler) -> Any:
    assert isinstance(call.receiver, uploads.Upload)
    answer, etag, created = await call.receiver.complete()
    if etag is not None:
        call.set_header("ETag", etag)
    call.set_status(201 if created else 200)
    call.finish_json(answer)


async def write_files(call: ApiHandler) -> Any:
    return await write_file(call)


async def delete_file(call: ApiHandler) -> Any:
    recursive = call.query(Delete).recursive
    path = checked(call.path["path"])
    files = call.orchestrator.files.of(call.path["session_id"])
    async with files.tree(change=True) as tree:
        await files.run(lambda: tree.delete(path, recursive=recursive))


async def change_file(call: ApiHandler) -> Any:
    change = call.body(FileMove)
    path = checked(call.path["path"])
    if (change.move_to is None) == (change.copy_to is None):
        raise InvalidPath("Say where to: either move_to or copy_to.")
    given = change.move_to or change.copy_to or ""
    to = checked(given)
    if given.endswith("/"):
        to = joined(to, split(path)[1])  # into that directory
    files = call.orchestrator.files.of(call.path["session_id"])
    async with files.tree(change=True) as tree:
        do = tree.move if change.copy_to is None else tree.copy
        return await files.run(lambda: do(path, to, overwrite=change.overwrite))


ALL = "/v1/sessions/{session_id}/files"
ONE = ALL + "/{path}"
VERSIONS = {
    "If-Match": "The ETag of the file that is to be replaced.",
    "If-None-Match": "'*': nothing is to be replaced.",
    **file_headers.DIGESTS,
}
READ = (
    *(SessionNotFound, FileNotFound, InvalidPath, FileConflict, FileRefused, FilesUnreachable),
    *(WrongState, SandboxFailed),
)
READ_ALL = (*READ, RangeNotSatisfiable, TooManyFiles)
CHANGE = (*READ, NoSpaceLeft, FileTooLarge, TooManyFiles, ShuttingDown)

OPERATIONS = [
    Operation(
        "GET",
        ALL,
        "List the files of a session, or get all of them as an archive",
        list_files,
        query=Get,
        answers={200: Directory},
        binary=True,
        errors=READ_ALL,
    ),
    Operation(
        "PUT",
        ALL,
        "Store files that are sent as a form",
        write_files,
        receive=uploads.begin,
        answers={201: (FileEntry, Directory), 200: FileEntry},
        headers=file_headers.DIGESTS,
        errors=(*CHANGE, WrongDigest),
    ),
    Operation(
        "GET",
        ONE,
        "Read a file, list a directory, get either as an archive, or have a table described",
        read_file,
        query=Read,
        answers={200: (Directory, Description), 206: None, 304: None},
        binary=True,
        headers={
            "Range": "Which part: 'bytes=0-99', 'bytes=100-', 'bytes=-100'.",
            "If-Range": "The whole file instead, unless it has this ETag.",
            "If-None-Match": "The ETag of the file that is known already.",
        },
        errors=(*READ_ALL, CannotDescribe),
    ),
    Operation(
        "PUT",
        ONE,
        "Store a file, or the files of a form in a directory, or make a directory",
        write_file,
        receive=uploads.begin,
        answers={201: (FileEntry, Directory), 200: FileEntry},
        headers=VERSIONS,
        errors=(*CHANGE, FileChanged, WrongDigest),
    ),
    Operation(
        "DELETE",
        ONE,
        "Delete a file or a directory",
        delete_file,
        query=Delete,
        answers={204: None},
        errors=CHANGE,
    ),
    Operation(
        "POST",
        ONE,
        "Move or copy a file or a directory",
        change_file,
        body=FileMove,
        answers={200: FileEntry},
        errors=CHANGE,
    ),
]
