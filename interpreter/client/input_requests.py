"""What the SDK asks of a gateway about datasets, and about the files of a session."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

from interpreter import models
from interpreter.client.call import Call, Nothing, session_path
from interpreter.client.sources import Progress, Source
from interpreter.models.datasets import Dataset, DatasetFiles, DatasetList, InputCreate
from interpreter.models.descriptions import Description


def datasets() -> Call[DatasetList]:
    return Call(method="GET", path="/v1/datasets", answer=DatasetList, repeatable=True)


def dataset(name: str) -> Call[DatasetFiles]:
    return Call(method="GET", path=_path(name), answer=DatasetFiles, repeatable=True)


def upload(
    name: str, source: Source, filename: str | None, unpack: bool, progress: Progress | None
) -> Call[Dataset]:
    params = {}
    if unpack or source.is_archive:
        params["unpack"] = "true"
    elif called := filename or source.filename:
        params["filename"] = called

    def content() -> Iterator[bytes]:
        return source.read(progress)

    return Call(
        method="PUT",
        path=_path(name),
        params=params,
        headers={} if source.size is None else {"Content-Length": str(source.size)},
        content=content,
        answer=Dataset,
        waits=True,
        repeatable=True,
    )


def delete_dataset(name: str) -> Call[None]:
    return Call(method="DELETE", path=_path(name), answer=Nothing)


def _path(name: str) -> str:
    return "/v1/datasets/" + quote(name, safe="")


def attach(session_id: str, name: str) -> Call[models.Session]:
    return Call(
        method="POST",
        path=session_path(session_id, "inputs"),
        body=models.to_json(InputCreate(dataset=name)),
        answer=models.Session,
        waits=True,
        repeatable=True,
    )


def detach(session_id: str, name: str) -> Call[models.Session]:
    path = session_path(session_id, "inputs", name)
    return Call(method="DELETE", path=path, answer=models.Session, waits=True)


def describe(session_id: str, path: str) -> Call[Description]:
    return Call(
        method="GET",
        path=session_path(session_id, "describe"),
        params={"path": path},
        answer=Description,
        waits=True,
        repeatable=True,
    )
