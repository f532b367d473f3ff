"""Runs a Jupyter application's kernel in a session of a gateway.

The application has sockets on its own machine, as with any kernel, and what goes over them is carried to
the session and back. The session is what a kernel's process would be: it is made when the kernel is
launched, its kernel is replaced when that is restarted, and when it is shut down it is stopped, with its
files and its history kept, or left running if the gateway's setting `jupyter_delete` says so.
"""

from __future__ import annotations

import signal
from typing import Any

from jupyter_client.connect import KernelConnectionInfo
from jupyter_client.provisioning.provisioner_base import KernelProvisionerBase
from traitlets import Unicode

from interpreter.client import requests
from interpreter.client.aio import AsyncClient
from interpreter.client.async_session import AsyncSession
from interpreter.client.place import locate
from interpreter.errors import InterpreterError, SessionNotFound
from interpreter.models import SessionState
from interpreter.provisioner.bridge import Bridge
from interpreter.provisioner.frames import Signer
from interpreter.provisioner.sockets import KINDS, Address
from interpreter.provisioner.worker import Worker

GONE = (SessionState.stopped, SessionState.failed)


class SandboxProvisioner(KernelProvisionerBase):
    """The entry point `interpreter` of the group `jupyter_client.kernel_provisioners`."""

    environment = Unicode(None, allow_none=True, config=True, help="Of the session; else the default.")

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.connection_info: KernelConnectionInfo = {}
        self.session_id: str | None = None
        self._worker: Worker | None = None
        self._bridge: Bridge | None = None
        self._has_process = False

    @property
    def has_process(self) -> bool:
        return self._has_process

    # -- it begins

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        kwargs.pop("extra_arguments", None)
        return await super().pre_launch(cmd=[], **kwargs)

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> KernelConnectionInfo:
        """At the first time in a new session, then in the same one."""
        given = {name: kwargs["env"][name] for name in self.kernel_spec.env}
        if self._bridge is None:
            manager: Any = self.parent
            address = Address(
                transport=manager.transport,
                ip=manager.ip,
                ports={
                    channel: getattr(manager, f"{channel}_port") or _own_port(manager.transport, number)
                    for number, channel in enumerate(KINDS, 1)
                },
            )
            await self._begin(address, manager.session.key, manager.session.signature_scheme)
        assert self._worker is not None
        try:
            await self._worker.do(self._launch(given))
        except BaseException:
            if not self._has_process:
                await self._end()
            raise
        self._has_process = True
        return self.connection_info

    async def _begin(self, address: Address, key: bytes, scheme: str) -> None:
        self._worker = Worker(f"interpreter-kernel-{self.kernel_id}")
        try:
            await self._worker.do(self._make(address, key, scheme))
        except BaseException:
            self._worker.end()
            self._worker = None
            raise
        assert self._bridge is not None
        bound = self._bridge.address
        self.connection_info = {
            "transport": bound.transport,
            "ip": bound.ip,
            **{f"{channel}_port": port for channel, port in bound.ports.items()},  # type: ignore[typeddict-item]
            "key": key,
            "signature_scheme": scheme,
        }

    # In the worker's thread from here on.

    async def _make(self, address: Address, key: bytes, scheme: str) -> None:
        self._client = AsyncClient(by="jupyter")
        try:
            self._bridge = Bridge(locate(), address, Signer(key, scheme))
        except BaseException:
            await self._client.close()
            raise

    async def _launch(self, given: dict[str, str]) -> None:
        session = None if self.session_id is None else await self._again(self.session_id)
        if session is None:
            session = await self._client.create_session(
                environment=self.environment, labels={"made_by": "jupyter"}, env=given
            )
        self.session_id = session.id
        assert self._bridge is not None
        await self._bridge.open(session.id)

    async def _again(self, session_id: str) -> AsyncSession | None:
        """The session with a fresh kernel; None if it was deleted."""
        try:
            session = await self._client.session(session_id)
            await (session.start() if session.info.state in GONE else session.restart())
            return session
        except SessionNotFound:
            return None

    async def _interrupt(self) -> None:
        await (await self._client.session(self.session_id)).interrupt()

    async def _stop(self) -> None:
        assert self._bridge is not None
        await self._bridge.close()
        if self.session_id is not None:
            try:
                await self._client._carrier.send(requests.delete_kernel(self.session_id))
            except InterpreterError as e:
                # It is gone already, or the gateway is: its limits on idle sessions end it then.
                self.log.debug("the session %s was not stopped: %s", self.session_id, e)
        await self._client.close()

    # In the application's thread again.

    # -- it goes on

    async def poll(self) -> int | None:
        return 0 if self._bridge is None else self._bridge.exit_code

    async def wait(self) -> int | None:
        if self._bridge is not None and self._worker is not None:
            await self._worker.do(_wait(self._bridge))
        self._has_process = False
        return await self.poll()

    async def send_signal(self, signum: int) -> None:
        if signum == signal.SIGINT:
            if self._worker is not None:
                await self._worker.do(self._interrupt())
        elif signum in (signal.SIGTERM, signal.SIGKILL):
            await self.kill()
        elif signum != 0:
            self.log.warning("A session takes no signal %d.", signum)

    # -- it ends

    async def kill(self, restart: bool = False) -> None:
        """The session itself is stopped by `cleanup`, or its kernel replaced by the next launch."""
        if self._bridge is not None and self._worker is not None:
            await self._worker.do(_end(self._bridge))

    async def terminate(self, restart: bool = False) -> None:
        await self.kill(restart)

    async def shutdown_requested(self, restart: bool = False) -> None:
        await self.kill(restart)

    async def cleanup(self, restart: bool = False) -> None:
        if not restart:
            await self._end()

    async def _end(self) -> None:
        if self._worker is not None:
            worker, self._worker = self._worker, None
            try:
                await worker.do(self._stop())
            finally:
                worker.end()
                self._bridge = None
                self._has_process = False

    # -- another application goes on with it

    async def get_provisioner_info(self) -> dict[str, Any]:
        info = await super().get_provisioner_info()
        key = self.connection_info.get("key", b"")
        text = key.decode() if isinstance(key, bytes) else key
        return {
            **info,
            "connection_info": {**self.connection_info, "key": text},
            "session": self.session_id,
        }

    async def load_provisioner_info(self, provisioner_info: dict[str, Any]) -> None:
        """Binds the same sockets and carries on; whoever had them before has to be gone."""
        await super().load_provisioner_info(provisioner_info)
        info = provisioner_info["connection_info"]
        key = info["key"]
        address = Address(info["transport"], info["ip"], {c: info[f"{c}_port"] for c in KINDS})
        self.session_id = provisioner_info["session"]
        await self._begin(
            address, key.encode() if isinstance(key, str) else key, info["signature_scheme"]
        )
        assert self._worker is not None
        assert self._bridge is not None
        try:
            await self._worker.do(self._bridge.open(str(self.session_id)))
        except BaseException:
            self.session_id = None  # it goes on without us
            await self._end()
            raise
        self._has_process = True


async def _wait(bridge: Bridge) -> None:
    await bridge.over.wait()


async def _end(bridge: Bridge) -> None:
    bridge.end(0)


def _own_port(transport: str, number: int) -> int:
    """Sockets in the file system are numbered; a port is taken when it is bound."""
    return number if transport == "ipc" else 0
