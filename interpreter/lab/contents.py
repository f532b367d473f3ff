"""The session's workspace as JupyterLab's files.

Small things are passed on to the gateway's own contents. What can be large, storing and downloading,
goes to its files; and the session's notebook is put together from what was saved and what was run.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import msgspec
from jupyter_server.base.handlers import JupyterHandler
from msgspec import Struct
from tornado.iostream import StreamClosedError
from tornado.web import HTTPError

from interpreter.lab.handler import LabHandler, allowed
from interpreter.lab.notebook import without_trust
from interpreter.lab.saved import MOST_BYTES, check_fits, check_was_read, read_notebook, without_recorded
from interpreter.lab.session import LabSession, check, parts

Model = dict[str, Any]
PIECE = 1024 * 1024
PASSED = ("Content-Type", "Content-Length", "Content-Range", "Accept-Ranges", "ETag", "Last-Modified")
ASKED = ("Range", "If-Range", "If-None-Match", "If-Modified-Since")
ALONE = (
    "sandbox allow-scripts; frame-ancestors 'self'; form-action 'none'; default-src 'none'; "
    "script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; "
    "img-src data: blob:; media-src data: blob:; font-src data:"
)
"""A page that a cell wrote has no part in this server's own, and asks nobody for anything."""


class Stored(Struct):
    """What a page stores, or where."""

    type: str | None = None
    format: str | None = None
    content: Any = None
    path: str | None = None
    copy_from: str | None = None
    ext: str = ""
    chunk: int | None = None


# -- what is there


async def _notebook_model(lab: LabSession, *, content: bool) -> Model:
    response = await lab.ask("GET", lab.contents(lab.notebook), params={"content": "false"})
    if response.status_code == 404:
        model = _unsaved(lab, lab.notebook, "notebook")
    else:
        check(response.status_code, response.content)
        model = _inside(lab, msgspec.json.decode(response.content, type=Model))
    model |= {"type": "notebook", "mimetype": None, "writable": True}
    if content:
        model |= {"format": "json", "content": msgspec.Raw(await read_notebook(lab))}
    return model


def _unsaved(lab: LabSession, path: str, type: str) -> Model:
    """What is not in the workspace yet: the session's notebook, or a file that is still coming."""
    when = lab.started.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    known = {"name": path.rpartition("/")[2], "path": path, "type": type, "writable": True}
    unknown = ("mimetype", "format", "content", "size", "hash", "hash_algorithm")
    return known | {"created": when, "last_modified": when} | dict.fromkeys(unknown)


def _inside(lab: LabSession, model: Model) -> Model:
    """What the gateway says of a path, with the path as it is in the workspace."""
    model["path"] = str(model.get("path", "")).removeprefix(lab.id).lstrip("/")
    if not model["path"]:
        model["name"] = ""
    if model.get("type") == "directory" and isinstance(model.get("content"), list):
        model["content"] = [_inside(lab, entry) for entry in model["content"]]
    return model


# -- handlers


class Contents(LabHandler):
    """`/api/contents/{path}`"""

    @allowed
    async def get(self, path: str) -> None:
        lab, names = self.lab, parts(path)
        wanted = {key: self.get_query_argument(key, None) for key in ("content", "type", "format")}
        content = wanted["content"] != "0"
        if names == [lab.notebook] and wanted["type"] in (None, "notebook"):
            self.answer(await _notebook_model(lab, content=content))
            return
        params = {key: value for key, value in wanted.items() if value and key != "content"}
        params["content"] = "true" if content else "false"
        model = await lab.get("GET", lab.contents(path), Model, params=params)
        _inside(lab, model)
        if model["type"] == "notebook" and isinstance(model.get("content"), dict):
            model["content"] = without_trust(model["content"])
        if not names and content and all(e["path"] != lab.notebook for e in model["content"]):
            model["content"].append(_unsaved(lab, lab.notebook, "notebook"))
        self.answer(model)

    @allowed
    async def put(self, path: str) -> None:
        lab, given = self.lab, self.body_as(Stored)
        is_notebook = parts(path) == [lab.notebook]
        if is_notebook:
            await check_was_read(lab)
        if given.type == "directory":
            await lab.get("PUT", lab.contents(path), Model, json={"type": "directory"})
        elif given.chunk is None:
            data = await asyncio.to_thread(_data, given)
            if is_notebook and len(data) > MOST_BYTES:
                given.content = await without_recorded(lab, given.content)
                data = await asyncio.to_thread(_data, given)
                check_fits(data)
            await self._upload(path, data)
        elif not await self._take_piece(path, given):
            self.answer(_unsaved(lab, "/".join(parts(path)), "file"))
            return
        params = {"content": "false"}
        self.answer(_inside(lab, await lab.get("GET", lab.contents(path), Model, params=params)))

    async def _take_piece(self, path: str, given: Stored) -> bool:
        """A large file comes in pieces, the last of which is number -1; whether this was the last."""
        pieces = self.lab.temporary / hashlib.sha256("/".join(parts(path)).encode()).hexdigest()
        data = await asyncio.to_thread(_data, given)
        await asyncio.to_thread(_append, pieces, data, new=given.chunk == 1)
        if given.chunk != -1:
            return False
        try:
            await self._upload(path, _read(pieces))
        finally:
            pieces.unlink()
        return True

    async def _upload(self, path: str, content: Any) -> None:
        headers = {"Content-Type": "application/octet-stream"}
        await self.lab.get("PUT", self.lab.file(path), object, content=content, headers=headers)

    @allowed
    async def post(self, path: str) -> None:
        lab, given = self.lab, self.body_as(Stored)
        body: dict[str, Any] = {"ext": given.ext} | ({"type": given.type} if given.type else {})
        if given.copy_from is not None:
            await self._save_if_new(given.copy_from)
            body["copy_from"] = "/".join([lab.id, *parts(given.copy_from)])
        self.answer(_inside(lab, await lab.get("POST", lab.contents(path), Model, json=body)), 201)

    @allowed
    async def patch(self, path: str) -> None:
        lab, given = self.lab, self.body_as(Stored)
        await self._save_if_new(path)
        body = {"path": "/".join([lab.id, *parts(given.path or "")])}
        self.answer(_inside(lab, await lab.get("PATCH", lab.contents(path), Model, json=body)))

    async def _save_if_new(self, path: str) -> None:
        """The session's notebook can be copied and renamed before it was saved."""
        if parts(path) == [self.lab.notebook]:
            there = await self.lab.ask("GET", self.lab.contents(path), params={"content": "false"})
            if there.status_code == 404:
                await self._upload(path, await read_notebook(self.lab))

    @allowed
    async def delete(self, path: str) -> None:
        if not parts(path):
            raise HTTPError(400, "The workspace itself stays.")
        await self.lab.get("DELETE", self.lab.contents(path), object)
        self.answer(None, 204)


def _data(given: Stored) -> bytes:
    if given.type == "notebook":
        notebook = without_trust(given.content) if isinstance(given.content, dict) else {}
        return msgspec.json.format(msgspec.json.encode(notebook), indent=1) + b"\n"
    text = given.content if isinstance(given.content, str) else ""
    if given.format != "base64":
        return text.encode("utf-8", "replace")
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise HTTPError(400, "The content is not base64.") from None


def _append(pieces: Path, data: bytes, *, new: bool) -> None:
    with pieces.open("wb" if new else "ab") as file:
        file.write(data)


async def _read(pieces: Path) -> Any:
    with pieces.open("rb") as file:
        while data := await asyncio.to_thread(file.read, PIECE):
            yield data


class Checkpoints(LabHandler):
    """`/api/contents/{path}/checkpoints`: none are kept, and nobody is bothered with that."""

    @allowed
    async def get(self, path: str) -> None:
        self.answer([])

    @allowed
    async def post(self, path: str) -> None:
        self.answer({"id": "checkpoint", "last_modified": datetime.now(UTC)}, 201)


class Recorded(LabHandler):
    """`/interpreter/recorded`: what was run after a point, for a page that was away."""

    @allowed
    async def get(self) -> None:
        cells, settled = await self.lab.recorded(self.get_query_argument("after", None))
        self.answer({"cells": cells, "settled": settled})


class Exports(LabHandler):
    """`/api/nbconvert`: into which formats notebooks are converted here: none."""

    @allowed
    async def get(self) -> None:
        self.answer({})


class Files(JupyterHandler):
    """`/files/{path}`: a file as it is, of any size."""

    def initialize(self, lab: LabSession) -> None:
        self.lab = lab

    @property
    def content_security_policy(self) -> str:
        return ALONE

    @allowed
    async def get(self, path: str) -> None:
        self.check_xsrf_cookie()
        names = parts(path)
        if self.get_query_argument("download", None) and names:
            name = quote(names[-1], safe="")
            self.set_header("Content-Disposition", f"attachment; filename*=UTF-8''{name}")
        if names == [self.lab.notebook]:
            self.set_header("Content-Type", "application/x-ipynb+json")
            self.finish(await read_notebook(self.lab))
            return
        asked = {key: self.request.headers[key] for key in ASKED if key in self.request.headers}
        response = await self.lab.open(self.lab.file(path), asked)
        try:
            await self._pass_on(response)
        except (StreamClosedError, httpx.TransportError):
            self.detach().close()  # so that half a file is not taken for a whole one
        finally:
            await response.aclose()

    async def _pass_on(self, response: httpx.Response) -> None:
        if response.status_code >= 400:
            check(response.status_code, await response.aread())
        self.set_status(response.status_code)
        for key in PASSED:
            if key in response.headers:
                self.set_header(key, response.headers[key])
        async for piece in response.aiter_raw():
            self.write(piece)
            await self.flush()
        await self.finish()
