"""Datasets with the SDK: files, folders and bytes go up, sessions see them, tables are described."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interpreter import AsyncClient, Client
from interpreter.client.sources import source_of
from interpreter.errors import CannotDescribe, DatasetNotFound, InvalidArchive, InvalidRequest


@pytest.fixture
def client(gateway: Any) -> Iterator[Client]:
    with Client(gateway.url, gateway.token) as client:
        yield client
        for dataset in client.datasets.list():
            client.datasets.delete(dataset.name)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "folder"
    (root / "sub").mkdir(parents=True)
    (root / "a.csv").write_text("x,y\n1,2\n")
    (root / "sub" / ("long name " * 15 + "\N{SNOWMAN}.bin")).write_bytes(os.urandom(700_001))
    (root / "link.csv").symlink_to(root / "a.csv")
    return root


def test_a_file_a_folder_and_bytes_are_uploaded(client: Client, folder: Path) -> None:
    told: list[tuple[int, int | None]] = []
    made = client.datasets.upload(
        "one", folder / "a.csv", progress=lambda sent, total: told.append((sent, total))
    )
    assert (made.bytes, made.file_count) == (8, 1)
    assert told[-1] == (8, 8)
    client.datasets.upload("folder", folder)
    client.datasets.upload("bytes", b"abc", filename="b.txt")
    assert [d.name for d in client.datasets.list()] == ["bytes", "folder", "one"]
    files = client.datasets.get("folder").files
    assert sorted(f.path for f in files) == sorted(
        str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()
    )
    with client.session(inputs=["one", "folder"]) as s:
        assert s.info.inputs == ["folder", "one"]
        assert s.attach("bytes").inputs == ["bytes", "folder", "one"]
        said = s.run(
            "import os\nsorted(os.listdir('/data/input')), open('/data/input/one/a.csv').read()"
        )
        assert said.text == "(['bytes', 'folder', 'one'], 'x,y\\n1,2\\n')"
        table = s.describe("/data/input/folder/a.csv")
        assert (table.rows, [c.name for c in table.columns]) == (1, ["x", "y"])
        assert s.detach("one").inputs == ["bytes", "folder"]
        with pytest.raises(CannotDescribe):
            s.describe("/data/input/bytes/b.txt")
        with pytest.raises(DatasetNotFound):
            s.attach("none")


def test_an_archive_is_unpacked(client: Client, tmp_path: Path) -> None:
    import shutil

    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "f").write_text("x")
    archive = shutil.make_archive(str(tmp_path / "packed"), "gztar", tmp_path / "in")
    client.datasets.upload("packed", archive, unpack=True)
    assert [f.path for f in client.datasets.get("packed").files] == ["f"]
    with pytest.raises(InvalidArchive):
        client.datasets.upload("packed", b"none", unpack=True)


def test_what_cannot_be_sent_is_told_before(client: Client, folder: Path) -> None:
    with pytest.raises(InvalidRequest, match="neither a file nor a folder"):
        client.datasets.upload("none", folder / "none")
    os.mkfifo(folder / "pipe")
    with pytest.raises(InvalidRequest, match="pipe"):
        client.datasets.upload("none", folder)
    (folder / "pipe").unlink()
    (folder / "other").symlink_to("sub")
    with pytest.raises(InvalidRequest, match="other"):
        client.datasets.upload("none", folder)


def test_a_source_can_be_read_again(folder: Path) -> None:
    for given in (folder, folder / "a.csv", b"x" * 1_000_000):
        source = source_of(given)
        assert b"".join(source.pieces()) == b"".join(source.pieces())


async def test_the_async_client_does_the_same(gateway: Any, folder: Path) -> None:
    async with AsyncClient(gateway.url, gateway.token) as client:
        await client.datasets.upload("async", folder)
        assert [d.name for d in await client.datasets.list()] == ["async"]
        assert (await client.datasets.get("async")).file_count == 3
        async with client.session(inputs=["async"]) as s:
            assert (await s.describe("/data/input/async/a.csv")).rows == 1
            assert (await s.detach("async")).inputs == []
            assert (await s.attach("async")).inputs == ["async"]
        await client.datasets.delete("async")
        assert await client.datasets.list() == []
