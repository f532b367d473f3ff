"""Sessions as the kernels of a Jupyter Server: specifications, kernels, and what the server says of
itself.

A kernel's id is made from its session's, because clients expect a UUID; either can be used to name it.
"""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from interpreter import __version__
from interpreter.config import Config
from interpreter.errors import InvalidRequest, NotFound, UnknownEnvironment
from interpreter.gateway.handler import ApiHandler
from interpreter.gateway.jupyter.chunks import Chunks
from interpreter.gateway.jupyter.door import Door
from interpreter.gateway.operation import Operation
from interpreter.models import SessionCreate, SessionState
from interpreter.orchestrator import Orchestrator
from interpreter.orchestrator.live_sandbox import DEFAULT
from interpreter.orchestrator.session import LiveSession
from interpreter.orchestrator.states import WITH_SANDBOX

if TYPE_CHECKING:
    from interpreter.gateway.application import Gateway
    from interpreter.gateway.jupyter.client import Client

NAMESPACE = uuid.UUID("5b0c6f0e-58e4-4a3c-9a0e-6d2f5a1c7e21")
USUAL_NAME = "python3"
"""What clients call the kernel that they want when they do not care."""
MADE_BY = "made_by"
"""A label, by which sessions are known that no agent made."""
STATES = {
    SessionState.creating: "starting",
    SessionState.ready: "idle",
    SessionState.busy: "busy",
    SessionState.paused: "idle",
}


@lru_cache(maxsize=100_000)
def kernel_id(session_id: str) -> str:
    return str(uuid.uuid5(NAMESPACE, session_id))


def moment(when: datetime) -> str:
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class KernelCreate(Struct):
    """What a client says of the kernel it wants; everything can be left out."""

    name: str | None = None
    path: str | None = None
    kernel_id: str | None = None
    """One that is there already and is to be joined."""
    id: str | None = None
    env: dict[str, str] = {}
    """Of its kernel; names with `KERNEL_` are for gateways of another kind."""


class Jupyter:
    """What the Jupyter door knows besides the sessions: who is connected to which."""

    def __init__(self, config: Config, orchestrator: Orchestrator) -> None:
        self.gateway: Gateway
        self.config = config
        self.started = datetime.now(UTC)
        self.sockets: set[Client] = set()
        self.documents: dict[str, Any] = {}
        """Session → what a client has opened with it."""
        self.chunks = Chunks()
        self._orchestrator = orchestrator
        self._doors: dict[str, Door] = {}

    def session(self, id: str) -> LiveSession:
        """The session of a kernel that is there."""
        session = self.find(id)
        if session is None or session.state not in WITH_SANDBOX or session.elsewhere is not None:
            hint = "GET /api/kernels lists those there are."
            raise NotFound(f"Kernel does not exist: {id[:100]}", hint)
        return session

    def find(self, id: str) -> LiveSession | None:
        """The session that a kernel's id, or its own, stands for."""
        for session in self._orchestrator.all():
            if id in (session.id, kernel_id(session.id)):
                return session
        return None

    def sessions(self) -> list[LiveSession]:
        """All that have a kernel, oldest first."""
        there = self._orchestrator.all()
        return [s for s in reversed(there) if s.state in WITH_SANDBOX and s.elsewhere is None]

    def door(self, id: str) -> Door:
        session = self.session(id)
        door = self._doors.get(session.id)
        if door is None or door.session is not session:
            self._forget_unused()
            door = self._doors[session.id] = Door(session, self._orchestrator)
        return door

    def _forget_unused(self) -> None:
        there = {session.id: session for session in self._orchestrator.all()}
        for id, door in list(self._doors.items()):
            unused = not door.clients and door.session.state not in WITH_SANDBOX
            if unused or there.get(id) is not door.session:
                del self._doors[id]
                door.close()

    def connections(self, session: LiveSession) -> int:
        door = self._doors.get(session.id)
        return 0 if door is None else len(door.clients)

    def environment(self, name: str | None) -> str:
        """The environment that a kernelspec's name stands for."""
        if name in self.config.environments:
            return str(name)
        if name in (None, "", USUAL_NAME):
            return self.config.default_environment
        raise UnknownEnvironment(f"There is no kernelspec '{str(name)[:100]}'.")

    def language(self, environment: str) -> str:
        """What an environment's cells are written in. Of a kernel that is not ours that is known when
        there has been one."""
        configured = self.config.environments[environment]
        if configured.argv is None and configured.kernel is None:
            return "python"
        of_it = (s.record for s in self._orchestrator.all() if s.record.environment == environment)
        return next((record.language.name for record in of_it if record.language is not None), "")

    async def create(self, wanted: KernelCreate, name: str | None = None) -> LiveSession:
        """A new session, or the one that is to be joined, with a sandbox either way."""
        joined = wanted.kernel_id or wanted.id
        if joined is not None:
            session = self.find(joined)
            if session is None:
                raise NotFound(f"Kernel does not exist: {joined[:100]}")
            return await self._orchestrator.start_session(session.id)
        request = {
            "name": name,
            "environment": self.environment(wanted.name),
            "labels": {MADE_BY: "jupyter"},
            "env": {k: v for k, v in wanted.env.items() if not k.startswith("KERNEL_")},
        }
        try:
            return await self._orchestrator.create(msgspec.convert(request, SessionCreate))
        except msgspec.ValidationError as e:
            raise InvalidRequest(f"The kernel cannot have this: {e}.") from None

    async def delete(self, session: LiveSession) -> None:
        """What the settings say that deleting a kernel does."""
        match self.config.jupyter_delete:
            case "delete" if session.record.labels.get(MADE_BY) == "jupyter":
                await self._orchestrator.delete(session.id)
            case "stop" | "delete":
                await self._orchestrator.stop_session(session.id)

    def model(self, session: LiveSession) -> dict[str, Any]:
        return {
            "id": kernel_id(session.id),
            "name": session.record.environment,
            "last_activity": moment(session.last_activity),
            "execution_state": STATES.get(session.state, "dead"),
            "connections": self.connections(session),
            "session": session.id,
        }

    def close(self) -> None:
        """The gateway stops: clients are told to come back later."""
        for socket in list(self.sockets):
            socket.close(1001, "the gateway stops")


# -- the server itself


async def version(call: ApiHandler) -> Any:
    return {"version": __version__}


async def server_status(call: ApiHandler) -> Any:
    jupyter = call.gateway.jupyter
    sessions = jupyter.sessions()
    return {
        "connections": len(jupyter.sockets),
        "kernels": len(sessions),
        "last_activity": moment(max([s.last_activity for s in sessions], default=jupyter.started)),
        "started": moment(jupyter.started),
    }


async def me(call: ApiHandler) -> Any:
    name = "interpreter"
    identity = {
        "username": name,
        "name": name,
        "display_name": name,
        "initials": name[:1].upper(),
        "avatar_url": None,
        "color": None,
    }
    return {"identity": identity, "permissions": {}}


# -- specifications


def _spec(name: str, display_name: str, language: str) -> dict[str, Any]:
    spec = {
        "argv": [],
        "env": {},
        "display_name": display_name,
        "language": language,
        "interrupt_mode": "message",
        "metadata": {},
    }
    return {"name": name, "spec": spec, "resources": {}}


def _specs(jupyter: Jupyter) -> dict[str, Any]:
    specs = {
        name: _spec(name, f"{name} (Interpreter)", jupyter.language(name))
        for name in jupyter.config.environments
    }
    if USUAL_NAME not in specs:
        language = jupyter.language(jupyter.config.default_environment)
        specs[USUAL_NAME] = _spec(USUAL_NAME, "Python 3 (Interpreter)", language)
    return specs


async def list_specs(call: ApiHandler) -> Any:
    jupyter = call.gateway.jupyter
    return {"default": jupyter.config.default_environment, "kernelspecs": _specs(jupyter)}


async def read_spec(call: ApiHandler) -> Any:
    specs = _specs(call.gateway.jupyter)
    if call.path["name"] not in specs:
        raise NotFound(f"There is no kernelspec '{call.path['name'][:100]}'.")
    return specs[call.path["name"]]


# -- kernels


async def list_kernels(call: ApiHandler) -> Any:
    jupyter = call.gateway.jupyter
    return [jupyter.model(session) for session in jupyter.sessions()]


async def create_kernel(call: ApiHandler) -> Any:
    jupyter = call.gateway.jupyter
    session = await jupyter.create(call.body(KernelCreate))
    call.set_header("Location", f"/api/kernels/{kernel_id(session.id)}")
    return jupyter.model(session)


async def read_kernel(call: ApiHandler) -> Any:
    jupyter = call.gateway.jupyter
    return jupyter.model(jupyter.session(call.path["kernel_id"]))


async def delete_kernel(call: ApiHandler) -> Any:
    jupyter = call.gateway.jupyter
    await jupyter.delete(jupyter.session(call.path["kernel_id"]))


async def interrupt_kernel(call: ApiHandler) -> Any:
    session = call.gateway.jupyter.session(call.path["kernel_id"])
    await session.wake()
    await session.context(DEFAULT).interrupt_anything()


async def restart_kernel(call: ApiHandler) -> Any:
    jupyter = call.gateway.jupyter
    session = jupyter.session(call.path["kernel_id"])
    await session.restart(DEFAULT)
    return jupyter.model(session)


KERNEL = "/api/kernels/{kernel_id}"

OPERATIONS = [
    Operation("GET", "/api", "The version", version, answers={200: dict}, public=True),
    Operation("GET", "/api/status", "How busy it is", server_status, answers={200: dict}),
    Operation("GET", "/api/me", "Who asks", me, answers={200: dict}),
    Operation("GET", "/api/kernelspecs", "All kernelspecs", list_specs, answers={200: dict}),
    Operation("GET", "/api/kernelspecs/{name}", "One kernelspec", read_spec, answers={200: dict}),
    Operation("GET", "/api/kernels", "All kernels", list_kernels, answers={200: list}),
    Operation("POST", "/api/kernels", "A new kernel", create_kernel, answers={201: dict}),
    Operation("GET", KERNEL, "One kernel", read_kernel, answers={200: dict}),
    Operation("DELETE", KERNEL, "End it", delete_kernel, answers={204: None}),
    Operation("POST", KERNEL + "/interrupt", "Interrupt it", interrupt_kernel, answers={204: None}),
    Operation("POST", KERNEL + "/restart", "Restart it", restart_kernel, answers={200: dict}),
]
