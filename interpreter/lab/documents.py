"""The documents that pages have opened with the session's kernel."""

from __future__ import annotations

import uuid
from typing import Any

from msgspec import Struct
from tornado.web import HTTPError

Model = dict[str, Any]


class Document(Struct):
    """Something that is open with the kernel."""

    id: str
    path: str
    name: str
    type: str

    def model(self, kernel: Model) -> Model:
        model = {"id": self.id, "path": self.path, "name": self.name, "type": self.type}
        notebook = {"path": self.path, "name": self.name} if self.type == "notebook" else None
        return model | {"kernel": kernel} | ({"notebook": notebook} if notebook else {})


class DocumentWanted(Struct):
    """What a page says of a document; the kernel that it wants is not asked for."""

    path: str | None = None
    name: str | None = None
    type: str | None = None


class Documents:
    """Those that are open. The session's notebook always is."""

    def __init__(self, notebook: str) -> None:
        self.first = Document(str(uuid.uuid4()), notebook, notebook, "notebook")
        self._open = {self.first.id: self.first}

    def all(self) -> list[Document]:
        return list(self._open.values())

    def get(self, id: str) -> Document:
        if id not in self._open:
            raise HTTPError(404, "There is no such session.")
        return self._open[id]

    def open(self, wanted: DocumentWanted) -> Document:
        path, type = wanted.path or "", wanted.type or "notebook"
        for document in self.all():
            if (document.path, document.type) == (path, type):
                return document
        made = Document(str(uuid.uuid4()), path, wanted.name or path, type)
        self._open[made.id] = made
        return made

    def close(self, id: str) -> None:
        if id != self.first.id:
            self._open.pop(id, None)
