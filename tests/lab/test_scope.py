"""JupyterLab shows one session, and its page reaches nothing else."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect

from tests.conftest import Gateway, only
from tests.gateway.jupyter.wire import Wire
from tests.lab.conftest import Lab, Labs

pytestmark = only("embedded")


def opened(lab: Lab, path: str) -> ClientConnection:
    headers = {"Authorization": f"token {lab.token}"}
    return connect(lab.base.replace("http", "ws", 1) + path, additional_headers=headers, proxy=None)


@pytest.fixture(scope="module")
def shown(gateway: Gateway, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """JupyterLab on a new session, for tests that leave it as it is."""
    lab = Lab(gateway, tmp_path_factory.mktemp("lab"))
    yield lab
    lab.interrupt()
    with gateway.client() as http:
        http.delete(f"/v1/sessions/{lab.session}")


@pytest.fixture
def other(http: httpx.Client) -> Any:
    """A session that is not shown."""
    session = http.post("/v1/sessions").json()["id"]
    http.put(f"/v1/sessions/{session}/files/secret.txt", content=b"not for this page")
    yield http.get(f"/api/kernels/{session}").json()
    http.delete(f"/v1/sessions/{session}")


def test_the_page_reaches_its_session_and_no_other(
    shown: Lab, other: dict[str, Any], http: httpx.Client
) -> None:
    lab, session = shown, shown.session
    http.put(f"/v1/sessions/{session}/files/sub/mine.txt", content=b"mine")
    with lab.client() as page:
        [kernel] = page.get("/api/kernels").json()
        assert kernel["session"] == session
        assert page.get(f"/api/kernels/{kernel['id']}").json()["id"] == kernel["id"]
        for id in (other["id"], other["session"], session, "none"):
            assert page.get(f"/api/kernels/{id}").status_code == 404
            assert page.delete(f"/api/kernels/{id}").status_code == 404
            assert page.post(f"/api/kernels/{id}/restart").status_code == 404
            with (
                pytest.raises(InvalidStatus) as refused,
                opened(lab, f"/api/kernels/{id}/channels"),
            ):
                pass
            assert refused.value.response.status_code == 404
        wanted = {"path": "else.ipynb", "type": "notebook", "kernel": {"id": other["id"]}}
        made = page.post("/api/sessions", json=wanted).json()
        assert made["kernel"]["id"] == kernel["id"], "whatever is opened, it is with this kernel"
        joined = page.post("/api/kernels", json={"kernel_id": other["session"]}).json()
        assert joined["id"] == kernel["id"]

        assert page.get("/api/contents/sub/mine.txt").json()["content"] == "mine"
        assert page.get("/files/sub/mine.txt").text == "mine"
        up = f"../{other['session']}"
        for path in (
            f"{up}/secret.txt",
            f"sub/../../{other['session']}/secret.txt",
            f"%2e%2e/{other['session']}/secret.txt",
            f"..%2f{other['session']}%2fsecret.txt",
            f"%252e%252e%252f{other['session']}/secret.txt",
            f"{other['session']}/secret.txt",
            f"/{other['session']}/secret.txt",
            "..%2f..%2f..%2fetc%2fpasswd",
            "%00",
        ):
            for place in ("/api/contents/", "/files/"):
                # As it is, without the client tidying it up first.
                url = httpx.URL(lab.base).copy_with(raw_path=(place + path).encode())
                answer = page.get(url)
                assert answer.status_code in (400, 404), (place, path, answer.text)
                assert "not for this page" not in answer.text
        for body in ({"path": f"{up}/stolen.txt"}, {"path": ""}, {"path": "/.."}):
            assert page.patch("/api/contents/sub/mine.txt", json=body).status_code in (400, 404)
        copied = page.post("/api/contents", json={"copy_from": f"{up}/secret.txt"})
        assert copied.status_code == 404
        assert page.delete("/api/contents/").status_code == 400, "the workspace itself stays"


def test_no_token_and_no_other_session_is_in_any_answer(
    shown: Lab, gateway: Gateway, other: dict[str, Any]
) -> None:
    lab, session = shown, shown.session
    paths = ["/lab", "/api", "/api/status", "/api/me", "/api/kernels", "/api/sessions", "/api/contents"]
    paths += ["/api/kernelspecs", "/api/terminals", "/interpreter/recorded", "/api/nothing", "/tree"]
    paths += [
        "/view/x",
        "/nbconvert/html/x",
        "/lab/api/build",
        "/lab/api/extensions",
        "/lab/api/plugins",
    ]
    paths += ["/lab/api/news", "/lab/api/settings", "/lab/api/workspaces", "/files/none", "/v1/sessions"]
    with lab.client() as page, lab.client(Accept="text/html") as stranger:
        for path in paths:
            answer = page.get(path, follow_redirects=True)
            assert gateway.token not in answer.text + str(answer.headers), path
            assert other["session"] not in answer.text, path
            asked = stranger.get(path)
            assert asked.status_code in (302, 401, 403, 404) or path == "/api", (path, asked.text)
            assert session not in asked.text, path
            assert lab.token not in asked.text, path
        for path in ("/lab/api/build", "/lab/api/extensions", "/lab/api/plugins", "/nbconvert/html/x"):
            answer = page.get(path)
            assert "json" not in answer.headers["Content-Type"], "nothing is built or installed here"
            assert page.post(path).status_code in (404, 405), path
        assert page.get("/api/kernelspecs").json()["kernelspecs"].keys() == {"python"}
        kernel = page.get("/api/kernels").json()[0]["id"]
        page.headers.pop("Authorization")
        page.get(f"/lab?token={lab.token}")
        cookies = "; ".join(f"{name}={value}" for name, value in page.cookies.items())
    url = lab.base.replace("http", "ws", 1) + f"/api/kernels/{kernel}/channels"
    with connect(url, additional_headers={"Cookie": cookies, "Origin": lab.base}, proxy=None):
        pass
    for headers in ({"Cookie": cookies, "Origin": "http://evil.example"}, {}):
        with (
            pytest.raises(InvalidStatus) as refused,
            connect(url, additional_headers=headers, proxy=None),
        ):
            pass
        assert refused.value.response.status_code == 403


def test_closing_and_deleting_end_nothing(labs: Labs, session: str, http: httpx.Client) -> None:
    http.post(f"/v1/sessions/{session}/executions", json={"code": "x = 41"})
    lab = labs.open(session)
    with lab.client() as page:
        [open_one] = page.get("/api/sessions").json()
        assert page.delete(f"/api/sessions/{open_one['id']}").status_code == 204
        assert page.delete(f"/api/kernels/{open_one['kernel']['id']}").status_code == 204
        assert [one["id"] for one in page.get("/api/sessions").json()] == [open_one["id"]]
    assert "goes on" in lab.interrupt()
    assert list(lab.log.parent.glob("interpreter-lab-*")) == [], "it tidies up"
    answer = http.post(f"/v1/sessions/{session}/executions", json={"code": "x + 1"}).json()
    assert answer["text"] == "42"


def test_what_is_stored_is_stored_whole_and_comes_back(
    labs: Labs, session: str, http: httpx.Client
) -> None:
    lab = labs.open(session)
    data = os.urandom(40 * 1024 * 1024)
    size = 16 * 1024 * 1024
    with lab.client() as page:
        pieces = [data[at : at + size] for at in range(0, len(data), size)]
        for number, piece in enumerate(pieces, 1):
            chunk = -1 if number == len(pieces) else number
            body = {"type": "file", "format": "base64", "chunk": chunk}
            body["content"] = base64.b64encode(piece).decode()
            answer = page.put("/api/contents/large file.bin", json=body)
            assert (answer.status_code, answer.json()["path"]) == (200, "large file.bin"), answer.text
        got = page.get("/files/large%20file.bin").content
        assert hashlib.sha256(got).digest() == hashlib.sha256(data).digest()
        part = page.get("/files/large%20file.bin", headers={"Range": "bytes=5-9"})
        assert (part.status_code, part.content) == (206, data[5:10])
        download = page.get("/files/large%20file.bin?download=1")
        assert download.headers["Content-Disposition"].startswith("attachment")
        http.put(f"/v1/sessions/{session}/files/page.html", content=b"<script>1</script>")
        framed = page.get("/files/page.html")
        policy = framed.headers["Content-Security-Policy"].split("; ")
        assert {"sandbox allow-scripts", "default-src 'none'"} <= {*policy}
        assert not any("self" in one or "http" in one for one in policy if "-src" in one)

        names = {entry["name"] for entry in page.get("/api/contents").json()["content"]}
        assert names >= {"large file.bin", "page.html", f"{session}.ipynb"}
        document = page.get(f"/api/contents/{session}.ipynb").json()["content"]
        document["cells"].append({"cell_type": "code", "id": "big", "source": "1", "outputs": []})
        document["cells"][-1] |= {"execution_count": None, "metadata": {"trusted": True}}
        text = "x" * (20 * 1024 * 1024)
        document["cells"][-1]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": text}]
        stored = page.put(
            f"/api/contents/{session}.ipynb", json={"type": "notebook", "content": document}
        )
        assert stored.status_code == 200, stored.text
        again = page.get(f"/api/contents/{session}.ipynb").json()["content"]["cells"][-1]
        assert again["outputs"][0]["text"] == text
        assert again["metadata"] == {}, "that it is trusted is not believed"


def test_a_notebook_that_is_too_large_to_be_read_is_not_written_over_and_none_is_saved(
    labs: Labs, session: str, http: httpx.Client
) -> None:
    run = {"code": "for i in range(3): print('y' * 2 ** 20)"}
    ran = http.post(f"/v1/sessions/{session}/executions", json=run).json()["id"]
    mega = 1024 * 1024
    file = f"/v1/sessions/{session}/files/{session}.ipynb"
    with labs.open(session).client() as page:
        path = f"/api/contents/{session}.ipynb"
        fresh = page.get(path).json()["content"]
        assert [cell["id"] for cell in fresh["cells"]] == [ran]
        shown = fresh["cells"][0]["outputs"]

        # What is in the record is left out of a file that would be too large, and is there again.
        words = {"cell_type": "markdown", "id": "t", "metadata": {}, "source": "w" * (30 * mega)}
        fresh["cells"].append(words)
        saved = page.put(path, json={"type": "notebook", "content": fresh})
        assert saved.status_code == 200, saved.text
        assert http.get(file).json()["cells"][0]["outputs"] == []
        again = page.get(path).json()["content"]["cells"]
        assert (again[0]["outputs"], again[1]) == (shown, words)
        words["source"] = "w" * (33 * mega)
        refused = page.put(path, json={"type": "notebook", "content": fresh})
        assert (refused.status_code, "over 32 MiB" in refused.json()["message"]) == (413, True)
        assert page.get(path).json()["content"]["cells"] == again

        # A cell puts there what nobody wants to read.
        http.put(file, content=b'{"nbformat": 4, "cells": [' + b"{}," * (11 * mega) + b"{}]}")
        assert [cell["id"] for cell in page.get(path).json()["content"]["cells"]] == [ran]
        fresh["cells"].pop()
        for body in (
            {"type": "notebook", "content": fresh},
            {"type": "file", "format": "text", "content": "", "chunk": 1},
        ):
            refused = page.put(path, json=body)
            assert refused.status_code == 409, refused.text
            assert "Move it away" in refused.json()["message"]
        assert int(http.head(file).headers["Content-Length"]) > 32 * mega
        assert page.patch(path, json={"path": "large.ipynb"}).status_code == 200
        assert page.put(path, json={"type": "notebook", "content": fresh}).status_code == 200


def test_texts_of_a_notebook_that_a_session_was_made_with_are_shown(
    gateway: Gateway, tmp_path: Path, http: httpx.Client
) -> None:
    code = {"cell_type": "code", "metadata": {}, "execution_count": None, "outputs": []}
    words = {"cell_type": "markdown", "id": "words", "metadata": {}, "source": "# Words"}
    cells = [words, {**code, "id": "one", "source": "print(1)"}, {**words, "id": "last"}]
    given = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}
    session = http.post("/v1/sessions", json={"notebook": given}).json()["id"]
    lab = Lab(gateway, tmp_path, session)
    with lab.client() as page:
        content = page.get(f"/api/contents/{session}.ipynb").json()["content"]
    shown = [(cell["cell_type"], cell["source"]) for cell in content["cells"]]
    assert shown == [(cell["cell_type"], cell["source"]) for cell in cells]
    lab.interrupt()
    http.delete(f"/v1/sessions/{session}")


def test_what_one_page_sets_is_not_obeyed_by_the_next(gateway: Gateway, tmp_path: Path) -> None:
    """The same person's, on the same machine."""
    shortcuts = "/lab/api/settings/@jupyterlab/shortcuts-extension:shortcuts"
    hostile = {"command": "apputils:run-all-enabled", "keys": ["A"], "selector": "body"}
    first = Lab(gateway, tmp_path)
    with first.client() as page:
        raw = json.dumps({"shortcuts": [hostile]})
        assert page.put(shortcuts, json={"raw": raw}).status_code == 204
        assert "run-all-enabled" in page.get(shortcuts).json()["raw"]
        space = {"data": {"planted": 1}, "metadata": {"id": "default"}}
        assert page.put("/lab/api/workspaces/default", json=space).status_code == 204
        assert page.put("/api/config/planted", json={"planted": 1}).status_code == 204
        assert page.get("/api/config/planted").json() == {"planted": 1}
    first.interrupt()
    second = Lab(gateway, tmp_path)
    assert second.base != first.base, "nor is its origin the same"
    with second.client() as page:
        assert "run-all-enabled" not in page.get(shortcuts).json()["raw"]
        assert "planted" not in page.get("/lab/api/workspaces/default").text
        assert page.get("/api/config/planted").json() == {}
    second.interrupt()
    left = [
        path for path in tmp_path.rglob("*") if path.is_file() and "planted" in path.read_text("latin-1")
    ]
    assert left == [], "nor is anything of it left"
    with gateway.client() as http:
        for lab in (first, second):
            http.delete(f"/v1/sessions/{lab.session}")


def test_a_page_may_load_nothing_from_elsewhere(shown: Lab) -> None:
    with shown.client() as page:
        for path in ("/lab", "/lab/tree/x", "/nothing"):
            headers = page.get(path).headers
            policy = dict(one.split(" ", 1) for one in headers["Content-Security-Policy"].split("; "))
            assert policy["default-src"] == "'self' data: blob:"
            assert policy["connect-src"].split()[:2] == ["'self'", shown.base.replace("http", "ws")]
            assert "http" not in "".join(policy.values())
            assert headers["X-DNS-Prefetch-Control"] == "off"


@pytest.mark.parametrize("v1", [True, False])
async def test_outputs_of_100_megabytes_pass_in_both_framings(shown: Lab, v1: bool) -> None:
    lab = shown
    with lab.client() as page:
        kernel = page.get("/api/kernels").json()[0]["id"]
    place: Any = SimpleNamespace(url=lab.base, token=lab.token)
    wire = await Wire.open(place, kernel, v1=v1)
    mega = 1024 * 1024
    shown_at_once = (
        f"from IPython.display import display; display({{'text/plain': 'x' * {30 * mega}}}, raw=True)"
    )
    msg_id = wire.execute(f"for i in range(100): print('y' * ({mega} - 1))\n{shown_at_once}")
    message = await wire.until(lambda m: m["type"] == "display_data" and m["parent"] == msg_id)
    assert message["content"]["data"]["text/plain"] == "x" * (30 * mega)
    assert wire.text(msg_id) == ("y" * (mega - 1) + "\n") * 100
    wire.socket.close()
