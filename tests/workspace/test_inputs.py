"""Inputs where the files of datasets cannot be linked to: copies of them."""

from __future__ import annotations

import errno
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from interpreter.errors import DatasetsFull
from interpreter.workspace import Datasets, InputFolders, allowance

MEGABYTE = 1024 * 1024


async def pieces(megabytes: int) -> AsyncIterator[bytes]:
    for _ in range(megabytes):
        yield bytes(MEGABYTE)


@pytest.fixture
async def datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Datasets:
    """Ten megabytes, of which a dataset has four, on another file system."""

    def link(*_: Any, **__: Any) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    monkeypatch.setattr(os, "link", link)
    datasets = Datasets(tmp_path / "datasets", 10)
    await datasets.prepare()
    await datasets.upload_file("d", "file", pieces(4))
    return datasets


async def test_copies_count_for_what_all_datasets_may_have(datasets: Datasets, tmp_path: Path) -> None:
    folders = InputFolders(tmp_path / "inputs", datasets, None)
    wanted = {"d": datasets.get("d").version}
    for id in ("one", "other"):
        await folders.create(id)
    await folders.settle("one", wanted)
    assert (folders.path("one") / "d/file").stat().st_size == 4 * MEGABYTE
    with pytest.raises(DatasetsFull, match="with copies"):
        await folders.settle("other", wanted)
    assert list(folders.path("other").iterdir()) == []
    later = InputFolders(tmp_path / "inputs", datasets, None)  # of another gateway
    with pytest.raises(DatasetsFull):
        await later.settle("other", wanted)
    await later.remove("one")
    await later.settle("other", wanted)
    assert (folders.path("other") / "d/file").stat().st_size == 4 * MEGABYTE


async def test_copies_leave_of_the_disk_what_the_gateway_needs(
    datasets: Datasets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = InputFolders(tmp_path / "inputs", datasets, None)
    await folders.create("one")
    disk = os.statvfs(tmp_path)
    monkeypatch.setattr(allowance, "RESERVE", disk.f_bavail * disk.f_frsize + MEGABYTE)
    with pytest.raises(DatasetsFull, match="no space left on the disk"):
        await folders.settle("one", {"d": datasets.get("d").version})
    assert list(folders.path("one").iterdir()) == []
