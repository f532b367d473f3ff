"""The datasets of a gateway, for programs that wait."""

from __future__ import annotations

import os

from interpreter.client import input_requests as requests
from interpreter.client.carrier import Carrier
from interpreter.client.sources import Progress, source_of
from interpreter.models.datasets import Dataset, DatasetFiles


class Datasets:
    """Files that are uploaded once and attached to as many sessions as wanted."""

    def __init__(self, carrier: Carrier) -> None:
        self._carrier = carrier

    def list(self) -> list[Dataset]:
        return self._carrier.send(requests.datasets()).datasets

    def get(self, name: str) -> DatasetFiles:
        """A dataset with its files, their sizes and checksums."""
        return self._carrier.send(requests.dataset(name))

    def upload(
        self,
        name: str,
        source: str | os.PathLike[str] | bytes,
        *,
        filename: str | None = None,
        unpack: bool = False,
        progress: Progress | None = None,
    ) -> Dataset:
        """Makes a dataset of a file, a folder, or bytes; with `unpack`, of what is in an archive. One
        that is there already is replaced; sessions keep what they have. `progress` is told how many
        bytes were sent, and of how many."""
        call = requests.upload(name, source_of(source), filename, unpack, progress)
        return self._carrier.send(call)

    def delete(self, name: str) -> None:
        """Sessions that have it keep it."""
        self._carrier.send(requests.delete_dataset(name))
