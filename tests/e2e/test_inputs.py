"""Datasets as sessions see them: read-only, at once, and for as long as they have them."""

from __future__ import annotations

import io
import os
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import Gateway, only
from tests.e2e.conftest import Run
from tests.faults.scene import sessions, wait_for
from tests.read_only import CHANGES


def zipped(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return packed.getvalue()


def tarred(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return packed.getvalue()


FILES = {"a.csv": b"x,y\n1,2\n", "sub/b.csv": b"deep", "sub/deeper/\N{SNOWMAN}.txt": b"snow"}


def upload(http: httpx.Client, name: str, content: bytes, **params: Any) -> dict[str, Any]:
    answer = http.put(f"/v1/datasets/{name}", content=content, params=params)
    assert answer.status_code in (200, 201), answer.text
    return dict(answer.json())


@pytest.fixture
def numbers(http: httpx.Client) -> Iterator[str]:
    upload(http, "numbers", zipped(FILES), unpack=True)
    yield "numbers"
    http.delete("/v1/datasets/numbers")


def create(http: httpx.Client, **settings: Any) -> str:
    answer = http.post("/v1/sessions", json=settings)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def attach(http: httpx.Client, session: str, name: str) -> dict[str, Any]:
    answer = http.post(f"/v1/sessions/{session}/inputs", json={"dataset": name})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def text(http: httpx.Client, session: str, code: str) -> str:
    cell = http.post(f"/v1/sessions/{session}/executions", json={"code": code}).json()
    assert cell["status"] == "ok", cell
    return str(cell["text"])


def seen(http: httpx.Client, session: str) -> list[str]:
    code = (
        "import os\nprint(*sorted(os.path.relpath(os.path.join(folder, name), '/data/input')\n"
        "    for folder, _, names in os.walk('/data/input') for name in names), sep='\\n')"
    )
    return text(http, session, code).split()


def test_a_dataset_is_seen_by_a_session_that_asks_for_it(http: httpx.Client, numbers: str) -> None:
    session = create(http, inputs=[numbers])
    assert http.get(f"/v1/sessions/{session}").json()["inputs"] == [numbers]
    assert seen(http, session) == [f"numbers/{name}" for name in FILES]
    assert text(http, session, "open('/data/input/numbers/a.csv').read()") == repr("x,y\n1,2\n")
    assert http.get("/v1/datasets/numbers").json()["sessions"] == 1
    http.delete(f"/v1/sessions/{session}")
    assert http.get("/v1/datasets/numbers").json()["sessions"] == 0


def test_a_dataset_is_attached_to_a_session_that_runs_and_taken_away(
    http: httpx.Client, session: str, run: Run, numbers: str
) -> None:
    assert run("import os; os.listdir('/data/input')")["text"] == "[]"
    assert attach(http, session, numbers)["inputs"] == [numbers]
    assert run("open('/data/input/numbers/sub/b.csv').read()")["text"] == "'deep'"
    run("kept = open('/data/input/numbers/sub/b.csv')")
    path = f"/v1/sessions/{session}/inputs/{numbers}"
    assert http.delete(path).json()["inputs"] == []
    assert run("os.listdir('/data/input')")["text"] == "[]"
    assert run("kept.read()")["text"] == "'deep'", "what is open stays readable"
    assert http.delete(path).json()["error"]["code"] == "dataset_not_found"


def test_nothing_can_be_changed_from_inside(
    http: httpx.Client, session: str, run: Run, numbers: str
) -> None:
    attach(http, session, numbers)
    result = run(CHANGES)
    assert result["text"] == "[]", result
    assert run("open('/data/input/numbers/sub/b.csv').read()")["text"] == "'deep'"
    other = create(http, inputs=[numbers])
    assert text(http, other, "open('/data/input/numbers/sub/b.csv').read()") == "'deep'"
    http.delete(f"/v1/sessions/{other}")


def test_a_paused_session_has_it_when_it_goes_on(
    http: httpx.Client, session: str, run: Run, numbers: str
) -> None:
    http.post(f"/v1/sessions/{session}/pause")
    assert attach(http, session, numbers)["state"] == "paused"
    assert run("open('/data/input/numbers/a.csv').read()")["status"] == "ok"


def test_a_session_that_is_started_again_has_its_inputs(
    http: httpx.Client, session: str, numbers: str
) -> None:
    attach(http, session, numbers)
    upload(http, "more", b"z", filename="z.txt")
    assert http.post(f"/v1/sessions/{session}/stop").json()["inputs"] == [numbers]
    assert attach(http, session, "more")["state"] == "stopped"
    http.delete("/v1/datasets/more")
    assert http.post(f"/v1/sessions/{session}/start").json()["inputs"] == ["more", numbers]
    assert seen(http, session) == ["more/z.txt", *(f"numbers/{name}" for name in FILES)]


def test_a_session_keeps_the_version_it_has_until_it_is_attached_anew(
    http: httpx.Client, session: str
) -> None:
    first = upload(http, "table", b"one", filename="t")
    attach(http, session, "table")
    second = upload(http, "table", b"two", filename="t")
    assert first["version"] != second["version"]
    read = "open('/data/input/table/t').read()"
    assert text(http, session, read) == "'one'"
    http.post(f"/v1/sessions/{session}/stop")
    http.post(f"/v1/sessions/{session}/start")
    assert text(http, session, read) == "'one'"
    attach(http, session, "table")
    assert text(http, session, read) == "'two'"
    http.delete("/v1/datasets/table")
    assert http.get("/v1/datasets/table").status_code == 404
    assert text(http, session, read) == "'two'"
    http.post(f"/v1/sessions/{session}/stop")
    http.post(f"/v1/sessions/{session}/start")
    assert text(http, session, read) == "'two'", "those who have a deleted dataset keep it"


def test_a_session_that_does_not_wait_gets_its_inputs(http: httpx.Client, numbers: str) -> None:
    answer = http.post("/v1/sessions", json={"inputs": [numbers], "wait": False})
    session = answer.json()["id"]
    assert answer.status_code == 202
    assert text(http, session, "open('/data/input/numbers/sub/b.csv').read()") == "'deep'"
    http.delete(f"/v1/sessions/{session}")


def test_what_is_wrong_is_told(http: httpx.Client, session: str) -> None:
    def code(answer: httpx.Response) -> str:
        return str(answer.json()["error"]["code"])

    path = f"/v1/sessions/{session}/inputs"
    assert code(http.post("/v1/sessions", json={"inputs": ["none"]})) == "dataset_not_found"
    assert code(http.post(path, json={"dataset": "none"})) == "dataset_not_found"
    assert code(http.post(path, json={"dataset": "../up"})) == "invalid_request"
    assert code(http.delete(f"{path}/none")) == "dataset_not_found"
    assert code(http.delete("/v1/datasets/none")) == "dataset_not_found"
    assert code(http.post("/v1/sessions/s-none/inputs", json={"dataset": "x"})) == "session_not_found"


def of_disk(gateway: Gateway) -> tuple[list[str], list[str]]:
    """Versions of datasets, and folders of sandboxes."""
    return (
        sorted(os.listdir(gateway.data / "datasets" / "versions")),
        sorted(os.listdir(gateway.data / "inputs")),
    )


@only("embedded", "docker")
def test_inputs_survive_the_gateway_and_nothing_is_left(own_gateway: Gateway) -> None:
    own_gateway.settings["spares"] = "0"
    own_gateway.start()
    with own_gateway.client() as http:
        upload(http, "numbers", tarred(FILES), unpack=True)
        running, stopped = create(http, inputs=["numbers"]), create(http, inputs=["numbers"])
        http.post(f"/v1/sessions/{stopped}/stop")
        upload(http, "numbers", b"new", filename="n")
    own_gateway.kill()
    # What a gateway leaves that is killed in the middle of an upload, and of attaching.
    versions = own_gateway.data / "datasets" / "versions"
    (versions / "v-0123456789abcdef").mkdir()
    (versions / "v-0123456789abcdef.archive").touch()
    (own_gateway.data / "inputs" / running / "half").mkdir()
    (own_gateway.data / "inputs" / "s-stray").mkdir()
    own_gateway.start()
    with own_gateway.client() as http:
        expected = [f"numbers/{name}" for name in FILES]
        assert seen(http, running) == expected, "and what was not written down is gone"
        http.post(f"/v1/sessions/{stopped}/start")
        assert seen(http, stopped) == expected
        found, folders = of_disk(own_gateway)
        assert "v-0123456789abcdef" not in found
        assert "s-stray" not in folders
        assert len(found) == 4, "two versions, each with what is known of it"
        for id in (running, stopped):
            http.delete(f"/v1/sessions/{id}")
        assert http.get("/v1/datasets").json()["bytes"] == 3
        http.delete("/v1/datasets/numbers")
        assert http.get("/v1/datasets").json()["bytes"] == 0
    assert of_disk(own_gateway) == ([], [])


@only("embedded", "docker")
def test_inputs_are_stored_once(own_gateway: Gateway) -> None:
    own_gateway.start()
    with own_gateway.client() as http:
        upload(http, "big", os.urandom(5_000_000), filename="big")
        ids = [create(http, inputs=["big"]) for _ in range(3)]
        links = [(own_gateway.data / "inputs" / id / "big/big").stat() for id in ids]
        (file,) = (own_gateway.data / "datasets" / "versions").glob("*/big")
        assert {(s.st_dev, s.st_ino) for s in links} == {(file.stat().st_dev, file.stat().st_ino)}
        assert file.stat().st_mode & 0o777 == 0o444


@only("embedded")
def test_many_attach_and_upload_at_once(own_gateway: Gateway) -> None:
    """Every session sees one whole version or another, never half of one, and nothing is left."""
    own_gateway.settings |= {"reconcile_seconds": "0.05", "spares": "0"}
    own_gateway.start()
    problems: list[str] = []

    def look(id: str) -> None:
        code = (
            "import os\nsizes = set()\n"
            "for name in os.listdir('/data/input/d'): sizes.add(open('/data/input/d/' + name).read())\n"
            "(len(os.listdir('/data/input/d')), len(sizes))"
        )
        with own_gateway.client() as http:
            for _ in range(10):
                attach(http, id, "d")
                if (said := text(http, id, code)) != "(20, 1)":
                    problems.append(said)

    def replace() -> None:
        with own_gateway.client() as http:
            for n in range(20):
                upload(http, "d", zipped({f"f{i}": str(n).encode() for i in range(20)}), unpack=True)

    with own_gateway.client() as http:
        upload(http, "d", zipped({f"f{i}": b"first" for i in range(20)}), unpack=True)
        ids = [create(http, inputs=["d"]) for _ in range(3)]
        threads = [threading.Thread(target=look, args=(id,)) for id in ids]
        threads += [threading.Thread(target=replace) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert problems == []
        for id in ids:
            http.delete(f"/v1/sessions/{id}")
        http.delete("/v1/datasets/d")
        assert http.get("/v1/datasets").json()["bytes"] == 0
    assert of_disk(own_gateway) == ([], [])
    assert "Traceback" not in own_gateway.log.read_text()


@only("embedded")
def test_stopping_and_attaching_at_once_leaves_both_sides_agreed(own_gateway: Gateway) -> None:
    own_gateway.settings["spares"] = "0"
    own_gateway.start()
    with sessions(own_gateway) as s:
        for name in "abc":
            upload(s.client, name, b"x", filename="f")
        id = s.create()

        def restart() -> None:
            with own_gateway.client() as http:
                for _ in range(3):
                    http.post(f"/v1/sessions/{id}/stop")
                    http.post(f"/v1/sessions/{id}/start")

        thread = threading.Thread(target=restart)
        thread.start()
        while thread.is_alive():
            for name in "abc":
                attach(s.client, id, name)
                s.client.delete(f"/v1/sessions/{id}/inputs/{name}")
        thread.join()
        attach(s.client, id, "b")
        wait_for(lambda: s.read(id)["state"] == "ready")
        assert seen(s.client, id) == ["b/f"]


@only("embedded")
def test_without_isolation_it_is_said_that_there_are_none(own_gateway: Gateway) -> None:
    own_gateway.settings["isolation"] = "none"
    own_gateway.start()
    with own_gateway.client() as http:
        upload(http, "d", b"x")
        session = create(http)
        answer = http.post(f"/v1/sessions/{session}/inputs", json={"dataset": "d"})
        assert answer.status_code == 409
        assert "not isolated" in answer.json()["error"]["message"]
        answer = http.post("/v1/sessions", json={"inputs": ["d"]})
        assert answer.json()["error"]["code"] == "inputs_unavailable"
    assert not (own_gateway.data / "inputs").exists()


@only("embedded")
def test_where_links_cannot_be_made_files_are_copied(own_gateway: Gateway, tmp_path: Path) -> None:
    """The folder of the inputs is on another file system."""
    from tests.mounts import mount, unmount

    inputs = own_gateway.data / "inputs"
    inputs.mkdir()
    mount("-t", "tmpfs", "-o", "size=72m", "inputs", inputs)
    try:
        own_gateway.start()
        with own_gateway.client() as http:
            upload(http, "numbers", zipped(FILES), unpack=True)
            session = create(http, inputs=["numbers"])
            assert seen(http, session) == [f"numbers/{name}" for name in FILES]
            assert text(http, session, CHANGES) == "[]"
            upload(http, "large", b"\0" * 9_000_000)
            answer = http.post(f"/v1/sessions/{session}/inputs", json={"dataset": "large"})
            assert answer.json()["error"]["code"] == "datasets_full"
            assert http.get(f"/v1/sessions/{session}").json()["inputs"] == ["numbers"]
            assert seen(http, session) == [f"numbers/{name}" for name in FILES]
        own_gateway.stop()
    finally:
        unmount(inputs)
