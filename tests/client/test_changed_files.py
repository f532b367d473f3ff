"""The files of a result: looked at, read, saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from interpreter import AsyncClient, Client, Event, EventType, Result
from interpreter.errors import InvalidRequest, NotFound, SessionNotFound

from .fake_gateway import Step, answer, error, execution, fake_gateway, session, stream

URL = "/v1/sessions/s-1/files/"
FILES = [
    {
        "path": "a b.csv",
        "change": "created",
        "size": 5,
        "mime_type": "text/csv",
        "url": URL + "a%20b.csv",
    },
    {"path": "gone.txt", "change": "deleted", "size": None, "mime_type": "text/plain", "url": None},
    {"path": "out/\\xff", "change": "changed", "size": 3, "mime_type": None, "url": URL + "out/%FF"},
]


def bytes_of(contents: bytes) -> Step:
    return answer(contents, content_type="application/octet-stream")


RAN = answer(execution(files=FILES, files_left_out=7))


def test_files_are_a_mapping_by_path() -> None:
    with fake_gateway(answer(session()), RAN) as gateway, Client(gateway.url, "t") as client:
        files = client.session("s-1").run("1").files
    assert list(files) == ["a b.csv", "gone.txt", "out/\\xff"]
    assert (len(files), files.left_out, files.known) == (3, 7, True)
    table = files["a b.csv"]
    assert (table.path, table.change, table.size, table.mime_type) == (
        "a b.csv",
        "created",
        5,
        "text/csv",
    )
    assert repr(files) == "<files: a b.csv created, gone.txt deleted, out/\\xff changed>"


def test_what_is_not_known_is_told_apart_from_nothing() -> None:
    steps = (answer(session()), answer(execution()), answer(execution(files=[])))
    with fake_gateway(*steps) as gateway, Client(gateway.url, "t") as client:
        s = client.session("s-1")
        assert [(r.files.known, len(r.files)) for r in (s.run("1"), s.run("2"))] == [
            (False, 0),
            (True, 0),
        ]


def test_a_file_is_read_and_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    steps = (answer(session()), RAN, *[bytes_of(b"a,b\n1")] * 4)
    with fake_gateway(*steps) as gateway, Client(gateway.url, "t") as client:
        files = client.session("s-1").run("1").files
        assert files["a b.csv"].read() == b"a,b\n1"
        assert files["a b.csv"].save() == Path("a b.csv")
        assert files["a b.csv"].save(tmp_path / "other.csv").read_bytes() == b"a,b\n1"
        (tmp_path / "folder").mkdir()
        assert files["out/\\xff"].save("folder") == Path("folder/\\xff")
    assert gateway.requests[2:] == ["GET " + URL + "a%20b.csv"] * 3 + ["GET " + URL + "out/%FF"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a b.csv", "folder", "other.csv"]


def test_a_file_that_cannot_be_had_leaves_nothing(tmp_path: Path) -> None:
    cut = stream(b"half", cut=b"of it")
    steps = (answer(session()), RAN, error("session_not_found", 404), cut)
    with fake_gateway(*steps) as gateway, Client(gateway.url, "t") as client:
        files = client.session("s-1").run("1").files
        with pytest.raises(NotFound, match="was deleted"):
            files["gone.txt"].save(tmp_path)
        with pytest.raises(SessionNotFound):
            files["a b.csv"].save(tmp_path)
        with pytest.raises(Exception, match="broke"):
            files["a b.csv"].save(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_result_of_an_event_knows_its_files_and_a_session_fetches_them() -> None:
    done = Event(
        seq=1, type=EventType.done, execution_id="e-1", data={"execution": execution(files=FILES)}
    )
    with pytest.raises(InvalidRequest, match="cannot fetch"):
        Result.of(done).files["a b.csv"].read()
    with fake_gateway(answer(session()), bytes_of(b"1")) as gateway, Client(gateway.url, "t") as client:
        assert client.session("s-1").result(done).files["a b.csv"].read() == b"1"


async def test_async_results_have_the_same(tmp_path: Path) -> None:
    steps = (answer(session()), RAN, *[bytes_of(b"a,b\n1")] * 2)
    with fake_gateway(*steps) as gateway:
        async with AsyncClient(gateway.url, "t") as client:
            s: Any = await client.session("s-1")
            files = (await s.run("1")).files
            assert await files["a b.csv"].read() == b"a,b\n1"
            assert (await files["a b.csv"].save(tmp_path)).name == "a b.csv"
            with pytest.raises(NotFound):
                await files["gone.txt"].read()
    assert [p.name for p in tmp_path.iterdir()] == ["a b.csv"]
