"""Workspaces archived, restored and copied: whole or not at all, while everything else goes on."""

from __future__ import annotations

import base64
import contextlib
import gzip
import hashlib
import io
import os
import socket
import tarfile
import threading
import time
from collections.abc import Iterator

import httpx
import psutil
import pytest

from tests.conftest import Gateway, only
from tests.e2e.named import Named, named
from tests.gateway.conftest import assert_refused
from tests.mounts import loop_devices_of, mounts_of, soon
from tests.workspace.archives import HOSTILE, TOO_MUCH, archive, entry

GZIP = "application/gzip"


@pytest.fixture
def here(gateway: Gateway) -> Iterator[Named]:
    with named(gateway) as there:
        yield there


def put(here: Named, name: str, data: bytes, **query: object) -> httpx.Response:
    return here.client.put(f"/v1/workspaces/{name}/archive", content=data, params=query)


def filled(here: Named, code: str, **settings: object) -> str:
    """A workspace that a cell has written to."""
    name = here.create(**settings)
    id = here.session(name)["id"]
    said = here.run(id, code + "\n'done'")
    assert said == "'done'", said
    here.end(id)
    return name


FILL = (
    "import os\nos.makedirs('a/b'); open('a/b/data', 'wb').write(bytes(range(256)) * 4000)\n"
    "os.symlink('/usr/bin/python3', 'python'); os.link('a/b/data', 'again'); os.chmod('a/b', 0o750)\n"
    "open('run.sh', 'w').write('echo'); os.chmod('run.sh', 0o755)"
)
LOOK = (
    "import os, hashlib\n"
    "for at, folders, files in sorted(os.walk('.')):\n"
    "    for name in sorted(folders + files):\n"
    "        path = os.path.join(at, name); info = os.lstat(path)\n"
    "        print(path, oct(info.st_mode), info.st_uid, info.st_nlink if name in files else '',\n"
    "              os.readlink(path) if os.path.islink(path) else\n"
    "              hashlib.md5(open(path, 'rb').read()).hexdigest() if name in files else '')"
)


def test_an_archive_makes_the_same_workspace_again(here: Named) -> None:
    name = filled(here, FILL)
    answer = here.client.get(f"/v1/workspaces/{name}/archive")
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, GZIP)
    assert answer.headers["Content-Disposition"] == f'attachment; filename="{name}.tar.gz"'
    said = int(answer.headers["X-Uncompressed-Bytes"])
    assert 0.9 < len(gzip.decompress(answer.content)) / said < 1.1
    head = here.client.head(f"/v1/workspaces/{name}/archive")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["X-Uncompressed-Bytes"] == str(said)
    restored = put(here, f"{name}-2", answer.content, owner="them", disk_mb=32)
    assert restored.status_code == 201, restored.text
    made = restored.json()
    assert (made["name"], made["owner"], made["disk_mb"]) == (f"{name}-2", "them", 32)
    assert made["bytes"] > 1_000_000
    copied = here.client.post(f"/v1/workspaces/{name}/copy", json={"to": f"{name}-3"})
    assert copied.status_code == 201, copied.text
    assert (copied.json()["owner"], copied.json()["disk_mb"]) == ("default", 64)
    listed = []
    for one in (name, f"{name}-2", f"{name}-3"):
        id = here.session(one)["id"]
        listed.append(here.run(id, LOOK))
        assert here.run(id, "_ = open('a/b/data', 'ab').write(b'x')") == "", "it is the session's own"
        here.end(id)
        here.delete(one)
    assert listed[0] == listed[1] == listed[2]
    assert "python 0o120777 1000 1 /usr/bin/python3" in listed[0]


def test_the_files_of_a_session_are_kept_under_a_name(here: Named) -> None:
    id = here.client.post("/v1/sessions", json={"limits": {"disk_mb": 48}}).json()["id"]
    assert here.run(id, FILL + "\n'done'") == "'done'"
    looked = here.run(id, LOOK)
    name = here.create(from_session=id, disk_mb=None)
    assert here.read(name)["disk_mb"] == 48
    assert here.run(id, "_ = open('run.sh', 'a').write('more')") == "", "it keeps its own"
    here.do(id, "stop")
    second = here.create(from_session=id)
    here.end(id)
    writer = here.session(name)["id"]
    assert here.run(writer, LOOK) == looked
    third = here.create(from_session=writer, disk_mb=None)
    assert here.read(third)["disk_mb"] == 48
    reader = here.session(second)["id"]
    assert here.run(reader, "open('run.sh').read()") == "'echomore'"
    here.end(writer, reader)
    for one in (name, second, third):
        here.delete(one)


def test_what_cannot_be_kept_leaves_no_workspace(here: Named) -> None:
    before = left(here)
    body: dict[str, object] = {"name": "kept", "disk_mb": 16}
    answer = here.client.post("/v1/workspaces", json={**body, "from_session": "s-none"})
    assert_refused(answer, "session_not_found")
    id = here.client.post("/v1/sessions").json()["id"]
    here.run(id, "import os; open('noise', 'wb').write(os.urandom(30_000_000))")
    answer = here.client.post("/v1/workspaces", json={**body, "from_session": id})
    assert_refused(answer, "no_space_left")
    here.end(id)
    assert_refused(here.client.get("/v1/workspaces/kept"), "workspace_not_found")
    assert soon(lambda: left(here) == before)


def test_one_that_is_in_use_can_be_archived_and_copied(here: Named) -> None:
    name = here.create()
    writer = here.session(name)["id"]
    here.run(writer, "open('now', 'w').write('1')")
    answer = here.client.get(f"/v1/workspaces/{name}/archive")
    with tarfile.open(fileobj=io.BytesIO(answer.content)) as tar:
        assert tar.getnames() == ["now"]
    copy = here.client.post(f"/v1/workspaces/{name}/copy", json={"to": f"{name}-copy"})
    assert copy.status_code == 201, copy.text
    here.run(writer, "open('now', 'w').write('2')")
    reader = here.session(f"{name}-copy", workspace_read_only=True)["id"]
    assert here.run(reader, "open('now').read()") == "'1'"
    assert [use["session_id"] for use in here.read(name)["in_use_by"]] == [writer]
    here.end(writer, reader)
    here.delete(name)
    here.delete(f"{name}-copy")


@only("embedded")
def test_a_hostile_archive_leaves_nothing(here: Named) -> None:
    before = left(here)
    for what, (data, word) in HOSTILE.items():
        answer = put(here, "evil", data, disk_mb=64)
        assert answer.status_code == 400, what
        assert_refused(answer, "invalid_archive", word)
    for data in TOO_MUCH.values():
        assert_refused(put(here, "evil", data, disk_mb=16), "no_space_left", "disk_mb")
    assert_refused(here.client.get("/v1/workspaces/evil"), "workspace_not_found")
    assert left(here) == before
    assert put(here, "evil", archive(entry("good", b"x"))).status_code == 201
    here.delete("evil")


def left(here: Named) -> list[str]:
    """What there is of named workspaces on the disk."""
    return sorted(
        p.name for p in (here.gateway.data / "workspaces").iterdir() if p.name.startswith("w-")
    )


@only("embedded")
def test_what_is_refused_is_refused_with_its_reason(here: Named) -> None:
    name = filled(here, "import os; open('big', 'wb').write(os.urandom(40 * 2**20))")
    good = archive(entry("good", b"x"))
    assert_refused(put(here, name, good), "workspace_exists", name)
    assert_refused(put(here, "a b", good), "invalid_request", "called")
    assert_refused(put(here, "new", good, disk_mb=10**9), "limit_too_high", "disk_mb")
    assert_refused(put(here, "new", good, wings=2), "invalid_request", "wings")
    path = f"/v1/workspaces/{name}/copy"
    assert_refused(here.client.post(path, json={"to": name}), "workspace_exists", name)
    answer = here.client.post(path, json={"to": "small", "disk_mb": 16})
    assert_refused(answer, "no_space_left", "does not fit")
    for method, rest in (("GET", "/archive"), ("POST", "/copy"), ("PATCH", ""), ("DELETE", "")):
        body = {"to": "x"} if rest == "/copy" else {}
        answer = here.client.request(method, f"/v1/workspaces/none{rest}", json=body)
        assert_refused(answer, "workspace_not_found", "none")
    id = here.session(name)["id"]
    here.run(id, "import os\nfor _ in range(1100): os.mkdir('d'); os.chdir('d')")
    assert_refused(here.client.get(f"/v1/workspaces/{name}/archive"), "files_unreachable", "deep")
    here.end(id)
    here.delete(name)
    assert {"small", "new"}.isdisjoint(
        w["name"] for w in here.client.get("/v1/workspaces").json()["workspaces"]
    )


@only("embedded")
def test_an_archive_with_another_checksum_is_refused(here: Named) -> None:
    good = archive(entry("a", b"x"))

    def put_with(content: bytes) -> httpx.Response:
        checksum = base64.b64encode(hashlib.sha256(content).digest()).decode()
        headers = {"Content-Digest": f"sha-256=:{checksum}:"}
        return here.client.put("/v1/workspaces/checked/archive", content=good, headers=headers)

    assert_refused(put_with(b"other"), "wrong_digest", "sha-256")
    assert here.client.get("/v1/workspaces/checked").status_code == 404
    assert put_with(good).status_code == 201
    here.client.delete("/v1/workspaces/checked")


def test_an_upload_that_breaks_off_leaves_nothing(here: Named) -> None:
    before = left(here)
    data = archive(entry("noise", os.urandom(3_000_000)))
    host, port = here.gateway.url.removeprefix("http://").split(":")
    for sent in (0, 10, 1_000_000, len(data) - 1):
        with socket.create_connection((host, int(port))) as client:
            head = (
                f"PUT /v1/workspaces/broken/archive?disk_mb=64 HTTP/1.1\r\nHost: {host}:{port}\r\n"
                f"Authorization: Bearer {here.gateway.token}\r\nContent-Length: {len(data)}\r\n\r\n"
            )
            client.sendall(head.encode() + data[:sent])
            time.sleep(0.3)
        assert soon(lambda: left(here) == before)
    assert_refused(here.client.get("/v1/workspaces/broken"), "workspace_not_found")
    assert soon(lambda: not processes("restore.py"))
    assert put(here, "broken", data).status_code == 201, "its name is free"
    here.delete("broken")


@only("embedded")
def test_a_download_that_breaks_off_ends_the_packing(here: Named) -> None:
    name = filled(here, "import os; open('noise', 'wb').write(os.urandom(50 * 2**20))")
    with here.client.stream("GET", f"/v1/workspaces/{name}/archive") as answer:
        coming = answer.iter_raw()
        next(coming)
        assert processes("pack.py")
        assert_refused(here.client.delete(f"/v1/workspaces/{name}"), "workspace_in_use", "archives")
    assert soon(lambda: not processes("pack.py"))
    assert soon(lambda: here.client.delete(f"/v1/workspaces/{name}").status_code == 200)


def processes(program: str) -> list[int]:
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if any(word.endswith(f"interpreter/workspace/{program}") for word in process.cmdline()):
                found.append(process.pid)
    return found


@only("embedded")
def test_the_gateway_stays_small_and_quick_meanwhile(here: Named) -> None:
    """300 MB out and in again; other requests are answered as usual."""
    code = "import os\nblock = os.urandom(2**20)\nwith open('noise', 'wb') as f:\n    for _ in range(300): f.write(block)"
    name = filled(here, code, disk_mb=400)
    over, took = threading.Event(), [0.0]

    def ask() -> None:
        with here.gateway.client() as client:
            while not over.is_set():
                began = time.monotonic()
                assert client.get("/v1/status").status_code == 200
                took.append(time.monotonic() - began)
                time.sleep(0.01)

    before = here.gateway.memory()
    asking = threading.Thread(target=ask)
    asking.start()
    try:
        with (
            here.gateway.client() as reading,
            reading.stream("GET", f"/v1/workspaces/{name}/archive") as answer,
        ):
            restored = here.client.put(
                f"/v1/workspaces/{name}-2/archive", content=answer.iter_raw(), params={"disk_mb": 400}
            )
        assert restored.status_code == 201, restored.text
        assert here.gateway.memory() - before < 30_000_000
    finally:
        over.set()
        asking.join()
    assert sorted(took)[len(took) // 2] < 0.5
    assert max(took) < 10
    assert restored.json()["bytes"] >= 300 * 2**20
    here.delete(name)
    here.delete(f"{name}-2")


@only("embedded")
def test_a_gateway_that_is_killed_leaves_no_half_workspace(own_gateway: Gateway) -> None:
    own_gateway.settings["spares"] = "0"
    own_gateway.start()
    with named(own_gateway) as there:
        name = filled(there, "import os; open('noise', 'wb').write(os.urandom(50 * 2**20))")
        data = there.client.get(f"/v1/workspaces/{name}/archive").content
    for delay in (0.0, 0.05, 0.1, 0.3, 0.5):
        with named(own_gateway) as there:

            def make() -> None:
                with contextlib.suppress(httpx.HTTPError), own_gateway.client() as client:
                    client.put("/v1/workspaces/restored/archive", content=data)

            def copy() -> None:
                with contextlib.suppress(httpx.HTTPError), own_gateway.client() as client:
                    client.post(f"/v1/workspaces/{name}/copy", json={"to": "copied"})

            threads = [threading.Thread(target=work) for work in (make, copy)]
            for thread in threads:
                thread.start()
            time.sleep(delay)
            own_gateway.kill()
            for thread in threads:
                thread.join()
        own_gateway.start()
        assert soon(lambda: not processes("pack.py") and not processes("restore.py"))
        with named(own_gateway) as there:
            found = {w["name"]: w for w in there.client.get("/v1/workspaces").json()["workspaces"]}
            assert len(left(there)) == 2 * len(found)
            for one in set(found) - {name}:
                assert found[one]["bytes"] >= 50 * 2**20, "what is there is whole"
                there.delete(one)
    with named(own_gateway) as there:
        there.delete(name)
        assert left(there) == []
        assert [m for m in mounts_of(own_gateway.data) if "/w-" in m] == []
        assert soon(lambda: not [d for d in loop_devices_of(own_gateway.data) if "/w-" in d])
