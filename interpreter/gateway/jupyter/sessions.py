"""Jupyter's own sessions: a document that is open, and the kernel it is open with.

Every kernel has one, so that clients which list sessions to find kernels find those of agents, too. What
a client calls its document is remembered as long as the gateway runs.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from interpreter.errors import NotFound
from interpreter.gateway.handler import ApiHandler
from interpreter.gateway.jupyter.kernels import Jupyter, KernelCreate, kernel_id
from interpreter.gateway.operation import Operation
from interpreter.orchestrator.session import LiveSession

Text = Annotated[str, Meta(max_length=4000)]


class Document(Struct, frozen=True):
    """What a session is open for."""

    path: Text
    name: Text = ""
    type: Text = "notebook"
    id: str | None = None
    """That it has had since before it got another kernel."""


class SessionWanted(Struct):
    """A session to make, or what to change of one; everything can be left out."""

    path: Text | None = None
    name: Text | None = None
    type: Text | None = None
    kernel: KernelCreate | None = None


def _document(jupyter: Jupyter, session: LiveSession) -> Document:
    known: Document | None = jupyter.documents.get(session.id)
    if known is not None:
        return known
    return Document(path=f"{session.id}/{session.record.name or session.id}.ipynb")


def _id(jupyter: Jupyter, session: LiveSession) -> str:
    """The kernel's own, unless a document had another, or keeps this one with another kernel."""
    document, own = jupyter.documents.get(session.id), kernel_id(session.id)
    if document is not None and document.id is not None:
        return str(document.id)
    taken = any(document.id == own for document in jupyter.documents.values())
    return kernel_id(f"{session.id} without its document") if taken else own


def _model(jupyter: Jupyter, session: LiveSession) -> dict[str, Any]:
    document = _document(jupyter, session)
    model = {
        "id": _id(jupyter, session),
        "path": document.path,
        "name": document.name or document.path.rpartition("/")[2],
        "type": document.type,
        "kernel": jupyter.model(session),
    }
    if document.type == "notebook":
        model["notebook"] = {"path": document.path, "name": model["name"]}
    return model


def _remember(
    jupyter: Jupyter, session: LiveSession, wanted: SessionWanted, id: str | None = None
) -> None:
    before = _document(jupyter, session)
    there = {s.id for s in jupyter.sessions()}
    jupyter.documents = {id: d for id, d in jupyter.documents.items() if id in there}
    jupyter.documents[session.id] = Document(
        path=before.path if wanted.path is None else wanted.path,
        name=before.name if wanted.name is None else wanted.name,
        type=before.type if wanted.type is None else wanted.type,
        id=before.id if id is None else id,
    )


def _session(call: ApiHandler) -> LiveSession:
    id, jupyter = call.path["session_id"], call.gateway.jupyter
    for session in jupyter.sessions():
        if _id(jupyter, session) == id:
            return session
    try:
        return jupyter.session(id)
    except NotFound:
        raise NotFound(
            f"Session not found: {id[:100]}", "GET /api/sessions lists those there are."
        ) from None


async def list_jupyter_sessions(call: ApiHandler) -> Any:
    jupyter = call.gateway.jupyter
    return [_model(jupyter, session) for session in jupyter.sessions()]


async def create_jupyter_session(call: ApiHandler) -> Any:
    jupyter, wanted = call.gateway.jupyter, call.body(SessionWanted)
    session = _open_for(jupyter, wanted.path)
    if session is None:
        session = await jupyter.create(wanted.kernel or KernelCreate())
    _remember(jupyter, session, wanted)
    call.set_header("Location", f"/api/sessions/{_id(jupyter, session)}")
    return _model(jupyter, session)


def _open_for(jupyter: Jupyter, path: str | None) -> LiveSession | None:
    """The session that is open for a document already."""
    for session in jupyter.sessions():
        known = jupyter.documents.get(session.id)
        if path and known is not None and known.path == path:
            return session
    return None


async def read_jupyter_session(call: ApiHandler) -> Any:
    return _model(call.gateway.jupyter, _session(call))


async def change_jupyter_session(call: ApiHandler) -> Any:
    """With a kernel's name it gets a new one, and the former is ended as when it is deleted."""
    jupyter, wanted, session = call.gateway.jupyter, call.body(SessionWanted), _session(call)
    former, kernel, id = session, wanted.kernel, None
    if kernel is not None and (kernel.id or kernel.kernel_id or kernel.name):
        before = _document(jupyter, session)
        wanted = SessionWanted(
            path=wanted.path or before.path,
            name=wanted.name or before.name,
            type=wanted.type or before.type,
        )
        session = await jupyter.create(kernel)
    if session is not former:
        id = _id(jupyter, former)
        jupyter.documents.pop(former.id, None)
    _remember(jupyter, session, wanted, id)
    if session is not former:
        await jupyter.delete(former)
    return _model(jupyter, session)


async def delete_jupyter_session(call: ApiHandler) -> Any:
    jupyter, session = call.gateway.jupyter, _session(call)
    jupyter.documents.pop(session.id, None)
    await jupyter.delete(session)


ONE = "/api/sessions/{session_id}"

OPERATIONS = [
    Operation("GET", "/api/sessions", "All of them", list_jupyter_sessions, answers={200: list}),
    Operation("POST", "/api/sessions", "Open one", create_jupyter_session, answers={201: dict}),
    Operation("GET", ONE, "One of them", read_jupyter_session, answers={200: dict}),
    Operation("PATCH", ONE, "Change it", change_jupyter_session, answers={200: dict}),
    Operation("DELETE", ONE, "Close it", delete_jupyter_session, answers={204: None}),
]
