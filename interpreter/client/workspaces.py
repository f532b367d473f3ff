"""Named workspaces: files that outlive the sessions that use them."""

from __future__ import annotations

import builtins
import os
from pathlib import Path

from interpreter import models
from interpreter.client import workspace_requests as requests
from interpreter.client.carrier import Carrier
from interpreter.client.local_files import Progress, replacing
from interpreter.client.workspace_requests import Unpacked


class Workspaces:
    """The workspaces of a gateway. A session has one with `client.session(workspace=NAME)`."""

    def __init__(self, carrier: Carrier) -> None:
        self._carrier = carrier

    def create(
        self,
        name: str,
        *,
        owner: str | None = None,
        disk_mb: int | None = None,
        from_session: str | None = None,
    ) -> models.Workspace:
        """Empty, or with what the session of the id `from_session` has in its own workspace."""
        return self._carrier.send(requests.create(name, owner, disk_mb, from_session))

    def list(self, owner: str | None = None) -> builtins.list[models.Workspace]:
        """All of them, or those of one owner, by name."""
        return self._carrier.send(requests.listing(owner)).workspaces

    def get(self, name: str) -> models.Workspace:
        return self._carrier.send(requests.get(name))

    def update(
        self, name: str, *, owner: str | None = None, disk_mb: int | None = None
    ) -> models.Workspace:
        """Gives it another owner, or lets it hold more."""
        return self._carrier.send(requests.update(name, owner, disk_mb))

    def delete(self, name: str) -> models.WorkspaceDeleted:
        """With its files."""
        return self._carrier.send(requests.delete(name))

    def copy(
        self, name: str, to: str, *, owner: str | None = None, disk_mb: int | None = None
    ) -> models.Workspace:
        """Makes another one with the same files."""
        return self._carrier.send(requests.copy(name, to, owner, disk_mb))

    def archive(self, name: str, to: str | Path, *, progress: Progress | None = None) -> Path:
        """Writes all files into one compressed tar file, which is there only if it is whole."""
        target = Path(to)
        with (
            replacing(target) as file,
            self._carrier.opened(requests.archive(name)) as answer,
        ):
            unpacked = Unpacked(answer.headers, progress)
            for piece in answer.iter_raw():
                file.write(piece)
                unpacked.advance(piece)
            unpacked.finish()
        return target

    def restore(
        self,
        name: str,
        source: str | Path,
        *,
        owner: str | None = None,
        disk_mb: int | None = None,
        progress: Progress | None = None,
    ) -> models.Workspace:
        """Makes a workspace from such a file."""
        with open(source, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            return self._carrier.send(requests.restore(name, owner, disk_mb, file, size, progress))
