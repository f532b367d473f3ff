"""The session's kernel, which is the only one there is, and the documents that are open with it.

Whatever a page opens, a notebook, a console or a file, it gets this kernel. Closing any of them, or
"shutting down" the kernel, ends nothing: the session goes on, and the next page joins it.
"""

from __future__ import annotations

import msgspec
from tornado.web import HTTPError

from interpreter.lab.documents import DocumentWanted, Model
from interpreter.lab.handler import LabHandler, LabSocket, allowed
from interpreter.lab.session import LabSession, check, quoted


async def kernel_model(lab: LabSession) -> Model:
    return await lab.get("GET", lab.kernel(), Model)


async def joined(lab: LabSession) -> Model:
    """The kernel, started again if it was stopped."""
    return await lab.get("POST", "/api/kernels", Model, json={"kernel_id": lab.id})


async def there(lab: LabSession) -> list[Model]:
    """The kernel, if the session has one now."""
    response = await lab.ask("GET", lab.kernel())
    if response.status_code == 404:
        return []
    check(response.status_code, response.content)
    return [msgspec.json.decode(response.content, type=Model)]


class Kernels(LabHandler):
    """`/api/kernels`"""

    @allowed
    async def get(self) -> None:
        self.answer(await there(self.lab))

    @allowed
    async def post(self) -> None:
        self.answer(await joined(self.lab), 201)


class Kernel(LabHandler):
    """`/api/kernels/{id}`"""

    @allowed
    async def get(self, id: str) -> None:
        self.answer(await checked(self.lab, id))

    @allowed
    async def delete(self, id: str) -> None:
        await checked(self.lab, id)
        self.answer(None, 204)


class KernelAction(LabHandler):
    """`/api/kernels/{id}/interrupt` and `restart`"""

    @allowed
    async def post(self, id: str, action: str) -> None:
        await checked(self.lab, id)
        done = await self.lab.get("POST", self.lab.kernel(action), object)
        self.answer(done, 204 if done is None else 200)


async def checked(lab: LabSession, id: str) -> Model:
    """The kernel, if it is the one that a page names."""
    kernel = await kernel_model(lab)
    if id != kernel["id"]:
        raise HTTPError(404, "There is no such kernel here.")
    return kernel


class Channels(LabSocket):
    """`/api/kernels/{id}/channels`"""

    async def address(self, name: str) -> str:
        await checked(self.lab, name)
        session = quoted([self.get_query_argument("session_id", "")[:200]])
        return self.lab.kernel("channels") + f"?session_id={session}"


class Specs(LabHandler):
    """`/api/kernelspecs`: the session's environment."""

    @allowed
    async def get(self, name: str | None = None) -> None:
        lab = self.lab
        if name not in (None, lab.environment):
            raise HTTPError(404, "There is no such kernelspec here.")
        spec = await lab.get("GET", "/api/kernelspecs/" + quoted([lab.environment]), Model)
        one = {"default": lab.environment, "kernelspecs": {lab.environment: spec}}
        self.answer(one if name is None else spec)


class Sessions(LabHandler):
    """`/api/sessions`"""

    @allowed
    async def get(self) -> None:
        models = [d.model(kernel) for kernel in await there(self.lab) for d in self.lab.documents.all()]
        self.answer(models)

    @allowed
    async def post(self) -> None:
        document = self.lab.documents.open(self.body_as(DocumentWanted))
        self.answer(document.model(await joined(self.lab)), 201)


class OneSession(LabHandler):
    """`/api/sessions/{id}`"""

    @allowed
    async def get(self, id: str) -> None:
        document = self.lab.documents.get(id)
        self.answer(document.model(await kernel_model(self.lab)))

    @allowed
    async def patch(self, id: str) -> None:
        document, wanted = self.lab.documents.get(id), self.body_as(DocumentWanted)
        if document is self.lab.documents.first and wanted.path not in (None, document.path):
            # The session's notebook keeps its place; what was renamed is a document of its own.
            document = self.lab.documents.open(wanted)
        else:
            for field in ("path", "name", "type"):
                setattr(document, field, getattr(wanted, field) or getattr(document, field))
        self.answer(document.model(await joined(self.lab)))

    @allowed
    async def delete(self, id: str) -> None:
        self.lab.documents.get(id)
        self.lab.documents.close(id)
        self.answer(None, 204)
