"""Uploading datasets: of any size, all or nothing, within the limit, and listed as they are."""

from __future__ import annotations

import base64
import functools
import hashlib
import io
import os
import socket
import tarfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.conftest import Gateway, only
from tests.faults.scene import wait_for
from tests.gateway.conftest import assert_refused

MEGABYTE = 1024 * 1024


@pytest.fixture(scope="module")
def store(data_root: Path) -> Iterator[Gateway]:
    """A gateway for 400 MB of datasets; it has no sessions, and its log stays clean."""
    gateway = Gateway(data_root / "store", spares="0", datasets_mb="400").start()
    yield gateway
    gateway.stop()
    assert "Traceback" not in gateway.log.read_text()


@pytest.fixture
def http(store: Gateway) -> Iterator[httpx.Client]:
    with store.client() as client:
        yield client
        for dataset in client.get("/v1/datasets").json()["datasets"]:
            assert client.delete(f"/v1/datasets/{dataset['name']}").status_code == 204
        assert client.get("/v1/datasets").json()["bytes"] == 0
    versions = store.data / "datasets" / "versions"
    wait_for(lambda: os.listdir(versions) == [])


def pieces(count: int, size: int = MEGABYTE) -> Iterator[bytes]:
    piece = os.urandom(size)
    for _ in range(count):
        yield piece


def test_a_file_is_uploaded_listed_read_and_deleted(http: httpx.Client) -> None:
    answer = http.put("/v1/datasets/sales", params={"filename": "sales 1.csv"}, content=b"a,b\n")
    assert answer.status_code == 201
    assert answer.headers["Location"] == "/v1/datasets/sales"
    made = answer.json()
    assert (made["name"], made["bytes"], made["file_count"], made["sessions"]) == ("sales", 4, 1, 0)
    listed = http.get("/v1/datasets").json()
    assert listed == {"datasets": [made], "bytes": 4, "max_bytes": 400 * MEGABYTE}
    read = http.get("/v1/datasets/sales").json()
    digest = hashlib.sha256(b"a,b\n").hexdigest()
    file = {"path": "sales 1.csv", "size": 4, "mime_type": "text/csv", "sha256": digest}
    assert read == {**made, "files": [file]}
    again = http.put("/v1/datasets/sales", content=b"c")
    assert again.status_code == 200
    assert [f["path"] for f in http.get("/v1/datasets/sales").json()["files"]] == ["sales"]
    assert http.delete("/v1/datasets/sales").status_code == 204
    assert_refused(http.get("/v1/datasets/sales"), "dataset_not_found", "sales")


@pytest.mark.parametrize("name", [".hidden", "-x", "a b", "a%2Fb", "n" * 101, "%00", "\N{SNOWMAN}"])
def test_names_that_a_dataset_cannot_have_are_refused(http: httpx.Client, name: str) -> None:
    for method in ("GET", "PUT", "DELETE"):
        assert_refused(http.request(method, f"/v1/datasets/{name}"), "invalid_request")


def test_names_that_a_file_cannot_have_are_refused(http: httpx.Client) -> None:
    for name in ("a/b", "a\0"):
        answer = http.put("/v1/datasets/d", params={"filename": name}, content=b"x")
        assert_refused(answer, "invalid_request", "filename")
    for name in ("..", ".", "\N{SNOWMAN}" * 100):
        answer = http.put("/v1/datasets/d", params={"filename": name}, content=b"x")
        assert_refused(answer, "invalid_path")
    for query in ("unpack=maybe", "zip=true"):
        assert_refused(http.put(f"/v1/datasets/d?{query}"), "invalid_request", "query")


def test_an_archive_that_is_none_is_refused(http: httpx.Client) -> None:
    answer = http.put("/v1/datasets/d?unpack=true", content=b"no archive")
    assert_refused(answer, "invalid_archive", "zip")


def test_a_large_upload_takes_no_memory_and_holds_up_nobody(store: Gateway, http: httpx.Client) -> None:
    before = store.memory()
    peak, slowest = before, 0.0
    done = threading.Event()

    def look() -> None:
        nonlocal peak, slowest
        with store.client() as client:
            while not done.wait(0.02):
                peak = max(peak, store.memory())
                began = time.monotonic()
                client.get("/healthz")
                slowest = max(slowest, time.monotonic() - began)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        answer = http.put("/v1/datasets/large", content=pieces(300))
    finally:
        done.set()
        thread.join()
    assert answer.status_code == 201, answer.text
    assert answer.json()["bytes"] == 300 * MEGABYTE
    assert peak - before < 32 * MEGABYTE
    assert slowest < 1.0


def test_what_does_not_fit_is_refused_while_it_is_written(http: httpx.Client) -> None:
    assert http.put("/v1/datasets/first", content=pieces(200)).status_code == 201
    answer = http.put("/v1/datasets/second", content=pieces(300))
    assert_refused(answer, "datasets_full", "400 MB", "200 MB", "datasets_mb")
    assert http.get("/v1/datasets").json()["bytes"] == 200 * MEGABYTE
    # The old version counts until the new one is there.
    assert_refused(http.put("/v1/datasets/first", content=pieces(300)), "datasets_full")
    assert http.get("/v1/datasets/first").json()["bytes"] == 200 * MEGABYTE
    assert http.put("/v1/datasets/first", content=pieces(100)).status_code == 200


def test_an_upload_that_breaks_off_leaves_nothing(store: Gateway, http: httpx.Client) -> None:
    host, port = store.url.removeprefix("http://").split(":")
    versions = store.data / "datasets" / "versions"
    for query in ("", "?unpack=true"):
        with socket.create_connection((host, int(port))) as connection:
            head = (
                f"PUT /v1/datasets/half{query} HTTP/1.1\r\nHost: {host}:{port}\r\n"
                f"Authorization: Bearer {store.token}\r\nContent-Length: 50000000\r\n\r\n"
            )
            connection.sendall(head.encode() + b"x" * 5_000_000)
            wait_for(lambda: os.listdir(versions))
            assert http.get("/v1/datasets/half").status_code == 404, "nobody sees half of it"
        wait_for(lambda: os.listdir(versions) == [])
        wait_for(lambda: http.get("/v1/datasets").json()["bytes"] == 0)


def test_who_may_not_upload_is_told_before_the_body_is_read(store: Gateway) -> None:
    with httpx.Client(base_url=store.url, trust_env=False) as client:
        answer = client.put("/v1/datasets/d", content=pieces(50))
        assert answer.status_code == 401
        answer = client.put(
            "/v1/datasets/d", content=b"x", headers={"Authorization": "Bearer wrong-token"}
        )
        assert answer.status_code == 401


def test_other_bodies_stay_bounded(http: httpx.Client) -> None:
    # A session can be created with a notebook.
    for path, size in (("/v1/sessions", 80), ("/v1/sessions/s-none/inputs", 40)):
        assert_refused(http.post(path, content=pieces(size)), "request_too_large")


def test_a_wrong_checksum_is_refused_and_nothing_is_kept(http: httpx.Client) -> None:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        archive.addfile(tarfile.TarInfo("empty"))
    for content, query in ((b"x" * 3 * MEGABYTE, {}), (data.getvalue(), {"unpack": "true"})):
        right = base64.b64encode(hashlib.sha256(content).digest()).decode()
        wrong = base64.b64encode(hashlib.sha256(b"other").digest()).decode()
        put = functools.partial(http.put, "/v1/datasets/d", content=content, params=query)
        for header in ({"Content-Digest": f"sha-256=:{wrong}:"}, {"Digest": f"sha-256={wrong}"}):
            assert_refused(put(headers=header), "wrong_digest", "sha-256")
        assert http.get("/v1/datasets").json()["bytes"] == 0
        assert http.get("/v1/datasets/d").status_code == 404
        assert put(headers={"Content-Digest": f"sha-256=:{right}:"}).status_code == 201
        assert http.delete("/v1/datasets/d").status_code == 204


def test_many_uploads_of_one_name_end_as_one(store: Gateway, http: httpx.Client) -> None:
    def upload(number: int) -> None:
        with store.client() as client:
            client.put("/v1/datasets/same", content=bytes([number]) * 100_000)

    threads = [threading.Thread(target=upload, args=(n,)) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wait_for(lambda: http.get("/v1/datasets").json()["bytes"] == 100_000)
    version = http.get("/v1/datasets/same").json()["version"]
    assert (store.data / "datasets" / "names" / "same").read_text() == version
    assert sorted(os.listdir(store.data / "datasets" / "versions")) == [version, f"{version}.json"]


@only("embedded")
def test_a_full_disk_is_told_and_passes(data_root: Path, place: dict[str, str]) -> None:
    from tests.mounts import mount, unmount

    data = data_root / "full"
    (data / "datasets").mkdir(parents=True)
    mount("-t", "tmpfs", "-o", "size=96m", "datasets", data / "datasets")
    gateway = Gateway(data, spares="0", **place).start()
    try:
        with gateway.client() as client:
            answer = client.put("/v1/datasets/d", content=pieces(40))
            assert_refused(answer, "datasets_full", "no space left on the disk")
            assert client.put("/v1/datasets/d", content=pieces(10)).status_code == 201
            assert client.get("/v1/datasets").json()["bytes"] == 10 * MEGABYTE
    finally:
        gateway.stop()
        unmount(data / "datasets")
