"""The operations on datasets, and on the inputs of sessions, which are datasets that they see."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from interpreter.errors import (
    CannotDescribe,
    DatasetNotFound,
    DatasetsFull,
    FileNotFound,
    InputsUnavailable,
    InvalidArchive,
    InvalidPath,
    InvalidRequest,
    SandboxFailed,
    SessionNotFound,
    ShuttingDown,
    WrongDigest,
    WrongState,
)
from interpreter.gateway.body import Streaming
from interpreter.gateway.file_headers import DIGESTS, Digest
from interpreter.gateway.handler import ApiHandler
from interpreter.gateway.operation import Operation
from interpreter.models import Session
from interpreter.models.datasets import (
    Dataset,
    DatasetFile,
    DatasetFiles,
    DatasetList,
    DatasetName,
    InputCreate,
)
from interpreter.models.descriptions import Description
from interpreter.orchestrator.describe import describe
from interpreter.workspace.datasets import Version
from interpreter.workspace.mime import UNKNOWN, mime_type


class Upload(Struct, forbid_unknown_fields=True):
    """What the body is: one file, or an archive that becomes a folder."""

    filename: Annotated[str, Meta(min_length=1, max_length=255, pattern="^[^/\\x00]+$")] | None = None
    """The name of the one file; that of the dataset when left out."""
    unpack: bool = False
    """Whether the body is a zip or a (gzipped) tar file to be unpacked."""


class Which(Struct, forbid_unknown_fields=True):
    """Which file is meant: a path in the workspace, or one below /data/input."""

    path: Annotated[str, Meta(min_length=1, max_length=4096)]


async def list_datasets(call: ApiHandler) -> Any:
    datasets, users = call.orchestrator.datasets, _users(call)
    return DatasetList(
        datasets=[_model(version, users) for version in datasets.all()],
        bytes=datasets.room.taken,
        max_bytes=datasets.room.limit,
    )


async def read_dataset(call: ApiHandler) -> Any:
    datasets = call.orchestrator.datasets
    version = datasets.get(_name(call))
    with datasets.pinned(version.version):
        files = await datasets.files(version.version)
    return DatasetFiles(
        **msgspec.structs.asdict(_model(version, _users(call))),
        files=[
            DatasetFile(
                path=f.path, size=f.size, mime_type=mime_type(f.path) or UNKNOWN, sha256=f.sha256
            )
            for f in files
        ],
    )


async def receive_dataset(call: ApiHandler) -> Streaming[tuple[Version, bool]]:
    """Takes the body while it comes; what comes of it is the version, and whether its name is new."""
    name, query = _name(call), call.query(Upload)
    datasets = call.orchestrator.datasets
    call.orchestrator.check_open()
    if call.request.headers.get("Content-Type", "").startswith("multipart/"):
        raise InvalidRequest("A form is not taken here.", "Send the bytes of the file themselves.")

    digest = Digest(call.request.headers)

    async def work(body: AsyncIterator[bytes]) -> tuple[Version, bool]:
        chunks = digest.checked(body)
        is_new = not datasets.has(name)
        if query.unpack:
            return await datasets.upload_archive(name, chunks), is_new
        return await datasets.upload_file(name, query.filename or name, chunks), is_new

    return Streaming(work)


async def upload_dataset(call: ApiHandler) -> Any:
    assert isinstance(call.receiver, Streaming)
    made, is_new = await call.receiver.result()
    call.orchestrator.note("dataset.uploaded", _facts(made))
    if not is_new:
        return _model(made, _users(call))
    call.set_status(201)
    call.set_header("Location", f"/v1/datasets/{made.name}")
    call.finish_json(_model(made, _users(call)))
    return None


async def delete_dataset(call: ApiHandler) -> Any:
    deleted = await call.orchestrator.datasets.delete(_name(call))
    call.orchestrator.note("dataset.deleted", _facts(deleted))


async def attach_input(call: ApiHandler) -> Any:
    wanted = call.body(InputCreate).dataset
    session = await call.orchestrator.inputs.attach(call.path["session_id"], wanted)
    return await call.orchestrator.session(session.id)


async def detach_input(call: ApiHandler) -> Any:
    session = await call.orchestrator.inputs.detach(call.path["session_id"], call.path["name"])
    return await call.orchestrator.session(session.id)


async def describe_file(call: ApiHandler) -> Any:
    session = call.orchestrator.get(call.path["session_id"])
    return await describe(session, call.query(Which).path)


def _name(call: ApiHandler) -> str:
    try:
        return msgspec.convert(call.path["name"], DatasetName)
    except msgspec.ValidationError:
        raise InvalidRequest(
            "A dataset cannot have this name.",
            "Use letters, digits, '.', '_' and '-', at most 100; the first is a letter or digit.",
        ) from None


def _users(call: ApiHandler) -> Counter[str]:
    """Version → how many sessions have it."""
    return call.orchestrator.inputs.users()


def _model(version: Version, users: Counter[str]) -> Dataset:
    return Dataset(**msgspec.structs.asdict(version), sessions=users[version.version])


def _facts(version: Version) -> dict[str, Any]:
    return {"name": version.name, "version": version.version, "bytes": version.bytes}


ALL = "/v1/datasets"
ONE = ALL + "/{name}"
INPUTS = "/v1/sessions/{session_id}/inputs"
NAMED = {"name": DatasetName}

OPERATIONS = [
    Operation("GET", ALL, "List the datasets", list_datasets, answers={200: DatasetList}),
    Operation(
        "GET",
        ONE,
        "Read a dataset: its files, their sizes and checksums",
        read_dataset,
        answers={200: DatasetFiles},
        path_types=NAMED,
        errors=(DatasetNotFound,),
    ),
    Operation(
        "PUT",
        ONE,
        "Upload a dataset: one file, or an archive that is unpacked; all of it or nothing",
        upload_dataset,
        query=Upload,
        answers={200: Dataset, 201: Dataset},
        receive=receive_dataset,
        raw=True,
        path_types=NAMED,
        headers=DIGESTS,
        errors=(InvalidPath, InvalidArchive, DatasetsFull, WrongDigest, ShuttingDown),
    ),
    Operation(
        "DELETE",
        ONE,
        "Delete a dataset; sessions that have it keep it",
        delete_dataset,
        answers={204: None},
        path_types=NAMED,
        errors=(DatasetNotFound,),
    ),
    Operation(
        "GET",
        "/v1/sessions/{session_id}/describe",
        "Describe the table in a file: columns, types, rows, a sample; the sandbox reads it",
        describe_file,
        query=Which,
        answers={200: Description},
        errors=(
            *(SessionNotFound, FileNotFound, InvalidPath),
            *(WrongState, CannotDescribe, SandboxFailed),
        ),
    ),
    Operation(
        "POST",
        INPUTS,
        "Have a session see a dataset, as it is now, at /data/input",
        attach_input,
        body=InputCreate,
        answers={200: Session},
        errors=(SessionNotFound, DatasetNotFound, WrongState, InputsUnavailable, DatasetsFull),
    ),
    Operation(
        "DELETE",
        INPUTS + "/{name}",
        "Take a dataset away from a session",
        detach_input,
        answers={200: Session},
        errors=(SessionNotFound, DatasetNotFound, WrongState, InputsUnavailable),
    ),
]
