"""The files of a session with the SDK, against a live gateway."""

from __future__ import annotations

import base64
import os
import tarfile
import threading
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interpreter import AsyncClient, Client, Session
from interpreter.errors import FileConflict, FileNotFound, InvalidPath, NoSpaceLeft
from interpreter.models.files import FileType
from tests.conftest import Gateway, only


@pytest.fixture
def session(gateway: Any) -> Iterator[Session]:
    with Client(gateway.url, gateway.token) as client, client.session() as session:
        yield session


def test_files_are_written_read_listed_moved_and_deleted(session: Session) -> None:
    files = session.files
    assert files.write("a.txt", "grüß").size == 6
    assert files.read("a.txt") == "grüß".encode()
    assert session.run("open('a.txt').read()").text == "'grüß'"
    files.write("d/b #?%.bin", bytes(range(256)))
    assert files.read("d/b #?%.bin") == bytes(range(256))
    assert [entry.name for entry in files.list()] == ["a.txt", "d"]
    assert files.list("d")[0].path == "d/b #?%.bin"
    assert files.list().more is False
    assert files.move("a.txt", "d/").path == "d/a.txt"
    assert files.copy("d", "e").type is FileType.directory
    with pytest.raises(FileConflict):
        files.copy("d/a.txt", "e/a.txt")
    files.copy("d/a.txt", "e/a.txt", overwrite=True)
    with pytest.raises(FileConflict, match="not empty"):
        files.delete("d")
    files.delete("d", recursive=True)
    assert files.make_directory("new/one").path == "new/one"
    with pytest.raises(FileNotFound, match="'d'"):
        files.list("d")
    with pytest.raises(FileConflict, match="directory"):
        files.read("e")
    with pytest.raises(FileConflict):
        files.list("e/a.txt")


def test_a_picture_that_a_cell_saved_is_saved_here_and_shown(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code = "import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.savefig('plot.png'); plt.close()"
    plot = session.run(code, timeout=300).raise_for_error().files["plot.png"]
    assert (plot.change, plot.mime_type) == ("created", "image/png")
    picture = plot.save().read_bytes()
    assert picture.startswith(b"\x89PNG")
    shown = plot._repr_mimebundle_()
    assert base64.b64decode(shown["image/png"]) == picture
    session.files.delete("plot.png")
    assert plot._repr_mimebundle_() == {"text/plain": "plot.png created"}


@pytest.mark.parametrize("path", ["..", "../x", "a/../..", "/etc/passwd", "\udcff"])
def test_a_path_that_leads_elsewhere_is_not_even_sent(session: Session, path: str) -> None:
    for do in (session.files.read, session.files.list, session.files.delete):
        with pytest.raises(InvalidPath):
            do(path)


def test_files_go_up_and_down_with_progress(session: Session, tmp_path: Path) -> None:
    local = tmp_path / "data.bin"
    local.write_bytes(os.urandom(5_500_000))
    seen: list[tuple[int, int | None]] = []
    entry = session.files.upload(local, progress=lambda done, total: seen.append((done, total)))
    assert (entry.path, entry.size) == ("data.bin", 5_500_000)
    assert seen[-1] == (5_500_000, 5_500_000)
    assert seen == sorted(seen)
    assert session.files.upload(local, "in/").path == "in/data.bin"
    assert session.files.upload(local, "other").path == "other"
    seen.clear()
    saved = session.files.download(
        "in/data.bin", tmp_path / "back", progress=lambda done, total: seen.append((done, total))
    )
    assert saved == tmp_path / "back"
    assert saved.read_bytes() == local.read_bytes()
    assert seen[-1] == (5_500_000, 5_500_000)
    (tmp_path / "folder").mkdir()
    assert session.files.download("other", tmp_path / "folder") == tmp_path / "folder/other"
    with pytest.raises(FileNotFound):
        session.files.download("none", tmp_path / "none")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["back", "data.bin", "folder"]


def test_everything_is_saved_as_an_archive(session: Session, tmp_path: Path) -> None:
    session.files.write("d/a", "1")
    session.files.write("b", "2")
    with zipfile.ZipFile(session.files.archive(tmp_path / "all.zip")) as packed:
        assert sorted(packed.namelist()) == ["b", "d/", "d/a"]
    with tarfile.open(session.files.archive(tmp_path / "d.tar.gz", "d")) as tar:
        assert tar.getnames() == ["d/a"]
    with zipfile.ZipFile(session.files.archive(tmp_path / "x", "b", format="zip")) as packed:
        assert packed.namelist() == ["b"]


def test_an_upload_that_does_not_fit_says_so(gateway: Gateway) -> None:
    with (
        Client(gateway.url, gateway.token) as client,
        client.session(limits={"disk_mb": 16}) as session,
        pytest.raises(NoSpaceLeft, match="16 MB"),
    ):
        session.files.write("f", bytes(20 << 20))


async def test_all_of_it_with_await(gateway: Gateway, tmp_path: Path) -> None:
    seen: list[int] = []
    local = tmp_path / "local"
    local.write_bytes(os.urandom(3_000_000))
    async with AsyncClient(gateway.url, gateway.token) as client, client.session() as session:
        files = session.files
        assert (await files.write("a", "text")).size == 4
        assert await files.read("a") == b"text"
        await files.upload(local, "d/", progress=lambda done, total: seen.append(done))
        assert [entry.name for entry in await files.list("d")] == ["local"]
        back = await files.download(
            "d/local", tmp_path / "back", progress=lambda done, _: seen.append(done)
        )
        assert back.read_bytes() == local.read_bytes()
        assert seen.count(3_000_000) == 2
        assert (await files.move("a", "b")).path == "b"
        assert (await files.copy("b", "c")).path == "c"
        assert (await files.make_directory("e")).type is FileType.directory
        with zipfile.ZipFile(await files.archive(tmp_path / "all.zip")) as packed:
            assert sorted(packed.namelist()) == ["b", "c", "d/", "d/local", "e/"]
        await files.delete("d", recursive=True)
        with pytest.raises(FileNotFound):
            await files.read("d/local")


@only("embedded")
def test_a_gateway_that_is_killed_is_not_noticed(own_gateway: Gateway, tmp_path: Path) -> None:
    own_gateway.settings["spares"] = "0"
    own_gateway.start()
    data = os.urandom(64 << 20)
    local = tmp_path / "local"
    local.write_bytes(data)
    killed: list[threading.Thread] = []

    def kill_once(done: int, total: int | None) -> None:
        def kill_and_start() -> None:
            own_gateway.kill()
            own_gateway.start()

        if done > 10 << 20 and not killed:
            killed.append(threading.Thread(target=kill_and_start))
            killed[0].start()
        if killed and killed[0].is_alive():
            time.sleep(0.05)  # so that there is something left to be broken off

    with Client(own_gateway.url, own_gateway.token, reconnect=60) as client:
        session = client.create_session()
        session.files.upload(local, "f", progress=kill_once)
        killed[0].join()
        assert [entry.name for entry in session.files.list()] == ["f"]
        killed.clear()
        back = session.files.download("f", tmp_path / "back", progress=kill_once)
        killed[0].join()
        assert back.read_bytes() == data
        session.delete()
