"""The containers that one gateway has in one engine: made, started, looked at, removed."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from typing import Any

from docker.errors import APIError, DockerException, NotFound

from interpreter.errors import SandboxFailed
from interpreter.models import Limits, Usage
from interpreter.runtimes import attach, container
from interpreter.runtimes.container import Blueprint
from interpreter.runtimes.engine import Engine, explain

START_SECONDS = 60


class Containers:
    """What the runtime does with containers; ids and names both tell which one."""

    def __init__(self, engine: Engine, owner: str) -> None:
        self._engine = engine
        self._api = engine.api
        self._owner = owner

    async def create(self, blueprint: Blueprint) -> str:
        arguments = blueprint.to_engine(self._api)
        made = await self._engine.call(lambda: self._api.create_container(**arguments))
        return str(made["Id"])

    async def start(self, id: str) -> None:
        await self._engine.call(self._api.start, id)

    async def start_and_hand_over(
        self, id: str, listener: socket.socket, handed: socket.socket
    ) -> int | None:
        """Starts a container and gives a socket to the first in it that asks at `listener`.

        None when that is done, or the exit code of a container that ended without having asked.
        """
        async with asyncio.timeout(START_SECONDS):
            handing = asyncio.create_task(_hand_over(listener, handed))
            exited: asyncio.Task[int | None] | None = None
            try:
                await self.start(id)
                exited = asyncio.create_task(attach.exit_code(self._engine, id))
                await asyncio.wait({handing, exited}, return_when="FIRST_COMPLETED")
                if handing.done():
                    await handing
                    return None
                code = await exited
                return -1 if code is None else code
            finally:
                tasks = [task for task in (handing, exited) if task is not None]
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def inspect(self, id: str) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = await self._engine.call(self._api.inspect_container, id)
        except NotFound:
            return None
        return found

    async def last_words(self, id: str) -> bytes:
        """The last that a container's first process wrote to stderr, where the engine keeps it."""
        with contextlib.suppress(DockerException):
            said: bytes = await self._engine.call(self._api.logs, id, stdout=False, stderr=True, tail=5)
            return said
        return b""

    async def usage(self, id: str) -> Usage | None:
        try:
            stats = await self._engine.call(self._api.stats, id, stream=False, one_shot=True)
        except DockerException:
            return None
        return container.usage(stats)

    async def out_of_memory(self, id: str) -> int:
        """How many times memory ran out, as far as the engine remembers."""

        def count() -> int:
            filters = {"container": id, "event": "oom"}
            return sum(1 for _ in self._api.events(0, int(time.time()) + 1, filters))

        with contextlib.suppress(DockerException):
            return await self._engine.call(count)
        return 0

    async def limit(self, id: str, limits: Limits) -> bool:
        """Applies other limits to a container that runs; False if that cannot be done."""

        def update() -> None:
            # The SDK's own method knows nothing of a limit on processes.
            path = self._api._url("/containers/{0}/update", id)
            answer = self._api._post_json(path, data=container.update_for_engine(limits))
            self._api._raise_for_status(answer)

        try:
            await self._engine.call(update)
        except DockerException:
            return False
        return True

    async def remove(self, id: str) -> None:
        """Ends a container and removes it; one that is not there is fine."""
        try:
            await self._engine.call(self._api.remove_container, id, force=True, v=True)
        except NotFound:
            pass
        except APIError as e:
            if "already in progress" not in explain(e):
                raise SandboxFailed(f"A container could not be removed: {explain(e)}") from e

    async def owned(self) -> list[tuple[str, str]]:
        """Id and sandbox of every container of this gateway."""
        filters = {"label": f"{container.OWNER}={self._owner}"}
        found = await self._engine.call(self._api.containers, all=True, filters=filters)
        return [(one["Id"], one["Labels"].get(container.SANDBOX, "")) for one in found]


async def _hand_over(listener: socket.socket, handed: socket.socket) -> None:
    """Gives the socket to the first that comes: cells do not run yet, so it is the kernel host."""
    connection, _ = await asyncio.get_running_loop().sock_accept(listener)
    with connection:
        socket.send_fds(connection, [b"\n"], [handed.fileno()])
