"""Datasets, which are uploaded once, and the sessions' inputs, which are datasets that they see."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct

DatasetName = Annotated[str, Meta(pattern="^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
Inputs = Annotated[list[DatasetName], Meta(max_length=100)]


class DatasetFile(Struct, frozen=True, kw_only=True):
    """A file of a dataset. A session sees it as `/data/input/NAME/PATH`."""

    path: str
    size: int
    mime_type: str
    """Guessed from its name."""
    sha256: str


class Dataset(Struct, frozen=True, kw_only=True):
    """Files that are uploaded once and attached to as many sessions as wanted."""

    name: str
    version: str
    """Another one whenever the dataset is uploaded anew; sessions keep the one they have."""
    file_count: int
    bytes: int
    created_at: datetime
    sessions: int
    """How many sessions have this version among their inputs."""


class DatasetFiles(Dataset, frozen=True, kw_only=True):
    """A dataset with its files, in order of their paths."""

    files: list[DatasetFile]


class DatasetList(Struct, frozen=True, kw_only=True):
    """All datasets, in order of their names."""

    datasets: list[Dataset]
    bytes: int
    """Of all versions that there are, also of those that only sessions still have."""
    max_bytes: int
    """The most that may be."""


class InputCreate(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A dataset to attach to a session."""

    dataset: DatasetName
