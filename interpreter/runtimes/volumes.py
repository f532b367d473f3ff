"""Workspaces as volumes of the engine, where it does not see the gateway's files.

Each session has one, named and labelled after the gateway and the session. The engine makes it with
the container, owned by whom the image says owns `/workspace`. It outlives the container, as a folder
would, and is removed with the session.
"""

from __future__ import annotations

import contextlib

from docker.errors import NotFound

from interpreter.errors import SandboxFailed
from interpreter.runtimes import container
from interpreter.runtimes.base import FilesElsewhere
from interpreter.runtimes.chores import Chores
from interpreter.runtimes.engine import Engine

REMOVE_SECONDS = 10.0


class Volumes(FilesElsewhere):
    """The volumes of one gateway in one engine."""

    why = "the engine does not see the gateway's files: workspaces are volumes of the engine"

    def __init__(self, engine: Engine, owner: str, chores: Chores) -> None:
        self._engine = engine
        self._owner = owner
        self._chores = chores

    async def remove(self, id: str) -> None:
        name = container.name_of(self._owner, id)
        await self._chores.see_to(f"the volume {name}", lambda: self._remove(name), REMOVE_SECONDS)

    async def _remove(self, name: str) -> None:
        with contextlib.suppress(NotFound):
            await self._engine.call(self._engine.api.remove_volume, name)

    async def ids(self) -> set[str]:
        filters = {"label": f"{container.OWNER}={self._owner}"}
        try:
            found = await self._engine.call(self._engine.api.volumes, filters)
        except OSError as e:
            raise SandboxFailed(f"The engine does not list its volumes: {e}.") from e
        return {one["Labels"][container.SANDBOX] for one in found["Volumes"] or ()}
