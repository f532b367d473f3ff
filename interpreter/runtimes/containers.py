"""The containers that one gateway has in one engine: made, started, looked at, removed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import time
from collections.abc import Coroutine
from typing import Any, TypeVar
from urllib.parse import quote

from docker.errors import APIError, DockerException, NotFound

from interpreter.errors import SandboxFailed
from interpreter.models import Limits, Usage
from interpreter.runtimes import attach, container
from interpreter.runtimes.container import Blueprint
from interpreter.runtimes.engine import Engine, explain
from interpreter.runtimes.question import EngineRefused, answer, ask

START_SECONDS = 60
GLANCE_SECONDS = 1.0
SILENT_SECONDS = 5.0
FREEZE_TRIES = 20
"""Each takes a third of a second when it fails; seen were three."""

T = TypeVar("T")


class Refused(SandboxFailed):
    """The engine said no."""


class Containers:
    """What the runtime does with containers; ids and names both tell which one."""

    def __init__(self, engine: Engine, owner: str) -> None:
        self._engine = engine
        self._api = engine.api
        self._owner = owner
        self._silent_until = 0.0
        self._out_of_memory: dict[str, int] = {}

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
            exited: asyncio.Task[int] | None = None
            try:
                await self.start(id)
                exited = asyncio.create_task(self.exit_code(id))
                await asyncio.wait({handing, exited}, return_when="FIRST_COMPLETED")
                if handing.done():
                    await handing
                    return None
                return await exited
            finally:
                tasks = [task for task in (handing, exited) if task is not None]
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def exit_code(self, id: str) -> int:
        """Waits until a container has ended; -1 when it is not there any more."""
        code = await attach.exit_code(self._engine, id)
        return -1 if code is None else code

    async def inspect(self, id: str) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = await self._engine.call(self._api.inspect_container, id)
        except NotFound:
            return None
        return found

    async def state(self, id: str) -> dict[str, Any] | None:
        """How a container is; None when there is none. Holds no thread. Raises OSError."""
        found = await ask(self._engine, "GET", f"/containers/{id}/json")
        if found is None:
            return None
        if not isinstance(found, dict) or not isinstance(found.get("State"), dict):
            raise EngineRefused("the engine does not say how the container is")
        return dict(found["State"])

    async def last_words(self, id: str) -> bytes:
        """The last that a container's first process wrote to stderr, where the engine keeps it."""
        with contextlib.suppress(DockerException, OSError):
            said: bytes = await self._engine.call(self._api.logs, id, stdout=False, stderr=True, tail=5)
            return said
        return b""

    async def usage(self, id: str) -> Usage | None:
        path = f"/containers/{id}/stats?stream=false&one-shot=true"
        stats = await self._glance(ask(self._engine, "GET", path))
        return container.usage(stats) if isinstance(stats, dict) else None

    async def out_of_memory(self, id: str) -> int:
        """How many times memory ran out, as far as the engine remembers, or did when last asked."""
        filters = quote(json.dumps({"container": [id], "event": ["oom"]}))
        # With a fraction, so that the engine need not wait for the second to be over.
        path = f"/events?since=0&until={time.time():.6f}&filters={filters}"
        events = await self._glance(answer(self._engine, "GET", path))
        if events is not None:
            self._out_of_memory[id] = len(events.split()) or await self._killed(id)
        return self._out_of_memory.get(id, 0)

    async def _killed(self, id: str) -> int:
        """What the engine remembers of a container that has ended, if it missed the moment."""
        found = await self._glance(ask(self._engine, "GET", f"/containers/{id}/json"))
        return int(isinstance(found, dict) and bool(found.get("State", {}).get("OOMKilled")))

    async def _glance(self, question: Coroutine[Any, Any, T]) -> T | None:
        """What the engine says if it says it now. Whoever reads a session does not wait for it.

        An engine that did not answer in time is not asked again for a while.
        """
        loop = asyncio.get_running_loop()
        if loop.time() < self._silent_until:
            question.close()
            return None
        try:
            async with asyncio.timeout(GLANCE_SECONDS):
                return await question
        except TimeoutError:
            self._silent_until = loop.time() + SILENT_SECONDS
        except OSError:
            pass
        return None

    async def limit(self, id: str, limits: Limits) -> None:
        """Applies other limits to a container that runs. Raises Refused when the engine refuses, OSError
        when it does not answer."""

        def update() -> None:
            # The SDK's own method knows nothing of a limit on processes.
            path = self._api._url("/containers/{0}/update", id)
            answer = self._api._post_json(path, data=container.update_for_engine(limits))
            self._api._raise_for_status(answer)

        try:
            await self._engine.call(update)
        except APIError as e:
            raise Refused(f"The engine refused: {explain(e)}") from e

    async def freeze(self, id: str, frozen: bool) -> None:
        """Freezes a container or lets it go on; one that is so already is fine. Raises Refused
        when the engine refuses, OSError when it does not answer."""
        do = self._api.pause if frozen else self._api.unpause
        for tries_left in reversed(range(FREEZE_TRIES)):
            try:
                await self._engine.call(do, id)
                return
            except APIError as e:
                if ("is already paused" if frozen else "is not paused") in explain(e):
                    return
                # Said while processes are being made or wait for a disk, as when modules are loaded.
                if "unable to freeze" not in explain(e) or not tries_left:
                    raise Refused(f"The engine refused: {explain(e)}") from e

    async def remove(self, id: str) -> None:
        """Ends a container and removes it; one that is not there is fine. Raises OSError."""
        self._out_of_memory.pop(id, None)
        try:
            await self._engine.call(self._api.remove_container, id, force=True, v=True)
        except NotFound:
            pass
        except APIError as e:
            if "already in progress" not in explain(e):
                raise

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
