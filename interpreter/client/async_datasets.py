"""The datasets of a gateway: the same as `datasets`, with `await`."""

from __future__ import annotations

import asyncio
import os

from interpreter.client import input_requests as requests
from interpreter.client.async_carrier import AsyncCarrier
from interpreter.client.sources import Progress, source_of
from interpreter.models.datasets import Dataset, DatasetFiles


class AsyncDatasets:
    """See `datasets.Datasets`."""

    def __init__(self, carrier: AsyncCarrier) -> None:
        self._carrier = carrier

    async def list(self) -> list[Dataset]:
        return (await self._carrier.send(requests.datasets())).datasets

    async def get(self, name: str) -> DatasetFiles:
        return await self._carrier.send(requests.dataset(name))

    async def upload(
        self,
        name: str,
        source: str | os.PathLike[str] | bytes,
        *,
        filename: str | None = None,
        unpack: bool = False,
        progress: Progress | None = None,
    ) -> Dataset:
        found = await asyncio.to_thread(source_of, source)
        return await self._carrier.send(requests.upload(name, found, filename, unpack, progress))

    async def delete(self, name: str) -> None:
        await self._carrier.send(requests.delete_dataset(name))
