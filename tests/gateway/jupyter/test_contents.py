"""Jupyter's sessions and contents: the same sessions, the same files."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import Gateway, only

pytestmark = only("embedded")


def test_every_kernel_is_open_for_a_document(http: httpx.Client, kernel: dict[str, Any]) -> None:
    listed = {s["kernel"]["id"]: s for s in http.get("/api/sessions").json()}
    mine = listed[kernel["id"]]
    assert mine.keys() == {"id", "path", "name", "type", "kernel", "notebook"}
    url = f"/api/sessions/{mine['id']}"
    changed = http.patch(url, json={"path": "a/b.ipynb", "name": "b"}).json()
    assert (changed["path"], changed["name"], changed["id"]) == ("a/b.ipynb", "b", mine["id"])
    assert http.get(url).json()["notebook"]["path"] == "a/b.ipynb"
    again = http.post("/api/sessions", json={"path": "a/b.ipynb", "type": "notebook", "name": ""})
    assert again.status_code == 201
    assert again.json()["kernel"]["id"] == kernel["id"], "it is open already"
    joined = http.post("/api/sessions", json={"path": "c.ipynb", "kernel": {"id": kernel["id"]}})
    assert joined.json()["kernel"]["id"] == kernel["id"]
    for id in ("none", "00000000-0000-0000-0000-000000000000"):
        assert http.get(f"/api/sessions/{id}").status_code == 404


def test_a_document_gets_a_kernel_that_ends_with_it(http: httpx.Client) -> None:
    body = {"path": "new.ipynb", "type": "notebook", "name": "", "kernel": {"name": "python3"}}
    made = http.post("/api/sessions", json=body)
    assert made.status_code == 201, made.text
    session = made.json()["kernel"]["session"]
    assert http.delete(f"/api/sessions/{made.json()['id']}").status_code == 204
    assert http.get(f"/v1/sessions/{session}").json()["state"] == "stopped"
    assert http.get(f"/api/sessions/{made.json()['id']}").status_code == 404
    http.delete(f"/v1/sessions/{session}")


def test_files_go_in_and_out_as_jupyter_does_it(http: httpx.Client, kernel: dict[str, Any]) -> None:
    session = kernel["session"]
    top = http.get("/api/contents").json()
    assert session in {entry["path"] for entry in top["content"]}
    url = f"/api/contents/{session}"
    saved = http.put(f"{url}/a.txt", json={"type": "file", "format": "text", "content": "héllo"})
    assert saved.status_code == 201, saved.text
    assert http.get(f"/v1/sessions/{session}/files/a.txt").text == "héllo"
    assert http.get(f"{url}/a.txt").json()["content"] == "héllo"
    assert http.get(f"{url}/a.txt", params={"content": 0}).json()["content"] is None
    blob = base64.b64encode(b"\xff\x00").decode()
    http.put(f"{url}/b.bin", json={"type": "file", "format": "base64", "content": blob})
    read = http.get(f"{url}/b.bin").json()
    assert (read["format"], read["content"]) == ("base64", blob)
    for number, piece in ((1, "one "), (2, "two "), (-1, "three")):
        body = {"type": "file", "format": "text", "content": piece, "chunk": number}
        assert http.put(f"{url}/c.txt", json=body).json()["name"] == "c.txt"
        assert (http.get(f"{url}/c.txt").status_code == 404) is (number != -1), "nobody sees half a file"
    assert http.get(f"{url}/c.txt").json()["content"] == "one two three"
    notebook = http.post(url, json={"type": "notebook"})
    assert notebook.status_code == 201
    assert notebook.json()["path"] == f"{session}/Untitled.ipynb"
    assert http.post(url, json={"type": "notebook"}).json()["path"] == f"{session}/Untitled1.ipynb"
    assert http.get(f"/api/contents/{notebook.json()['path']}").json()["content"]["nbformat"] == 4
    copied = http.post(url, json={"copy_from": f"{session}/a.txt"}).json()
    moved = http.patch(f"/api/contents/{copied['path']}", json={"path": f"{session}/d/e.txt"})
    assert moved.status_code == 200, moved.text
    assert [e["name"] for e in http.get(f"{url}/d").json()["content"]] == ["e.txt"]
    assert http.delete(f"{url}/d").status_code == 204
    assert http.get(f"{url}/d").status_code == 404


def test_a_file_has_one_checkpoint_that_it_can_be_taken_back_to(
    http: httpx.Client, kernel: dict[str, Any]
) -> None:
    session = kernel["session"]
    url = f"/api/contents/{session}/deep/a.ipynb"
    plain = f"/v1/sessions/{session}/files/deep/a.ipynb"
    http.put(plain, content=b"first")
    assert http.get(f"{url}/checkpoints").json() == []
    for text in (b"first", b"second"):
        http.put(plain, content=text)
        made = http.post(f"{url}/checkpoints")
        assert made.status_code == 201, made.text
        assert http.get(f"{url}/checkpoints").json() == [made.json()]
    # Where Jupyter's own server has it.
    kept = f"/v1/sessions/{session}/files/deep/.ipynb_checkpoints/a-checkpoint.ipynb"
    assert http.get(kept).content == b"second"
    http.put(plain, content=b"third")
    one = f"{url}/checkpoints/{made.json()['id']}"
    assert http.post(one).status_code == 204
    assert http.get(plain).content == b"second"
    assert http.delete(one).status_code == 204
    assert http.get(f"{url}/checkpoints").json() == []
    assert http.post(one).status_code == 404
    assert http.get(plain).content == b"second"
    missing = f"/api/contents/{session}/missing.txt/checkpoints"
    assert http.post(missing).status_code == 404


def test_no_checkpoint_leads_out_of_a_workspace(
    http: httpx.Client, kernel: dict[str, Any], tmp_path: Path
) -> None:
    tmp_path.chmod(0o777)
    path = f"/v1/sessions/{kernel['session']}"
    code = f"import os; os.mkdir('bad'); os.symlink({str(tmp_path)!r}, 'bad/.ipynb_checkpoints')"
    assert http.post(f"{path}/executions", json={"code": code}).json()["status"] == "ok"
    http.put(f"{path}/files/bad/a.txt", content=b"x")
    tmp_path.joinpath("a-checkpoint.txt").write_text("outside")
    url = f"/api/contents/{kernel['session']}/bad/a.txt/checkpoints"
    assert http.post(url).status_code in (400, 403, 404, 409)
    assert http.post(f"{url}/checkpoint").status_code in (400, 403, 404, 409)
    assert http.delete(f"{url}/checkpoint").status_code in (400, 403, 404, 409)
    assert tmp_path.joinpath("a-checkpoint.txt").read_text() == "outside"
    assert http.get(f"{path}/files/bad/a.txt").content == b"x"


@pytest.mark.parametrize("inside", ["", "/folder"])
def test_a_folder_can_be_called_checkpoints(
    http: httpx.Client, own_kernel: dict[str, Any], inside: str
) -> None:
    url = f"/api/contents/{own_kernel['session']}{inside}"
    if inside:
        assert http.put(url, json={"type": "directory"}).status_code == 201
    folder = f"{url}/checkpoints"
    assert http.put(folder, json={"type": "directory"}).status_code == 201
    stored = {"type": "file", "format": "text", "content": "in it"}
    assert http.put(f"{folder}/checkpoint", json=stored).status_code == 201
    assert [e["name"] for e in http.get(folder).json()["content"]] == ["checkpoint"]
    assert http.get(f"{folder}/checkpoint").json()["content"] == "in it"
    assert http.post(folder, json={"type": "file"}).json()["name"] == "untitled"
    assert http.post(f"{folder}/checkpoint/checkpoints").status_code == 201
    assert http.delete(f"{folder}/checkpoint").status_code == 204
    assert http.delete(folder).status_code == 204
    assert http.get(folder).status_code == 404


@pytest.mark.parametrize("path", ["../x", "a/../../x", "%2e%2e/x", "..%2fx"])
def test_no_path_leads_out_of_a_workspace(http: httpx.Client, kernel: dict[str, Any], path: str) -> None:
    for method in ("GET", "PUT", "DELETE"):
        request = http.build_request(method, "/", json={"content": "x"} if method == "PUT" else None)
        request.url = http.base_url.copy_with(
            raw_path=f"/api/contents/{kernel['session']}/{path}".encode()
        )
        assert http.send(request).status_code in (400, 403, 404), method


def test_what_cannot_be_is_refused(http: httpx.Client, kernel: dict[str, Any]) -> None:
    url = f"/api/contents/{kernel['session']}"
    http.put(f"{url}/bad.ipynb", json={"type": "file", "format": "text", "content": "no json"})
    assert http.get(f"{url}/bad.ipynb").status_code == 400
    assert http.get(f"{url}/bad.ipynb", params={"type": "file"}).json()["content"] == "no json"
    assert http.get(f"{url}/bad.ipynb", params={"type": "directory"}).status_code == 400
    wrong = http.put(f"{url}/x", json={"type": "file", "format": "base64", "content": "%"})
    assert wrong.status_code == 400
    assert http.put(f"{url}/y", json={"type": "file", "content": 5}).status_code == 400
    assert http.get("/api/contents/no-such-session/x").status_code == 404
    assert http.patch(f"{url}/x", json={"path": "elsewhere/x"}).status_code == 400


def test_a_notebook_takes_the_gateway_little_more_than_its_size(
    own_gateway: Gateway,
) -> None:
    """One of lists without anything in them, which a cell wrote to do harm."""
    http = own_gateway.start().client()
    session = http.post("/v1/sessions").json()["id"]
    code = "open('a.ipynb', 'w').write('{\"cells\": [' + ','.join(['[]'] * 5_000_000) + ']}')"
    assert http.post(f"/v1/sessions/{session}/executions", json={"code": code}).json()["status"] == "ok"
    before = own_gateway.memory()
    read = http.get(f"/api/contents/{session}/a.ipynb").content
    assert len(read) > 15_000_000
    assert http.put(f"/api/contents/{session}/b.ipynb", content=read).status_code == 201
    assert own_gateway.peak_memory() - before < 150_000_000


@pytest.mark.parametrize(
    "data", [b"[]", b"{", b'{"cells": [tru]}', b'{"cells": ["\xff"]}', b'{"cells": %b}' % (b"[" * 5000)]
)
def test_what_is_no_notebook_is_not_passed_on_as_one(
    http: httpx.Client, kernel: dict[str, Any], data: bytes
) -> None:
    http.put(f"/v1/sessions/{kernel['session']}/files/a.ipynb", content=data)
    answer = http.get(f"/api/contents/{kernel['session']}/a.ipynb")
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_request")


@pytest.mark.parametrize("ext", ["\0", "/../../../x", "/x", "🧪" * 90, "\ud800"])
def test_the_ending_of_something_new_is_checked(
    http: httpx.Client, kernel: dict[str, Any], ext: str
) -> None:
    body = json.dumps({"type": "file", "ext": ext})
    made = http.post(f"/api/contents/{kernel['session']}", content=body)
    assert made.status_code == 400, made.text
