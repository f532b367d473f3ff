"""Named workspaces: files that outlive the sessions that use them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from interpreter.models.basics import MOST, Owner, WorkspaceName

DEFAULT_OWNER = "default"
DiskMb = Annotated[int, Meta(ge=16, le=MOST)]


class WorkspaceCreate(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request for a new workspace."""

    name: WorkspaceName
    owner: Owner = DEFAULT_OWNER
    disk_mb: DiskMb | None = None
    """What it may hold; as much as a session's own when left out."""
    from_session: str | None = None
    """The id of a session whose files it begins with; it is empty when left out."""


class WorkspaceUpdate(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to change of a workspace; what is left out stays as it is."""

    owner: Owner | UnsetType = UNSET
    disk_mb: DiskMb | UnsetType = UNSET
    """More than it holds now; less is not possible."""


class WorkspaceCopy(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request for another workspace with the same files."""

    to: WorkspaceName
    owner: Owner | None = None
    """The same as the first one's when left out."""
    disk_mb: DiskMb | None = None


class WorkspaceUse(Struct, frozen=True, kw_only=True):
    """A session that has a workspace."""

    session_id: str | None
    """Null while the session is being created and has no id yet."""
    read_only: bool


class Workspace(Struct, frozen=True, kw_only=True):
    """Files with a name and an owner. Sessions have them at `/workspace`."""

    name: str
    owner: str
    disk_mb: int
    disk_enforced_by: str
    """Who holds it to `disk_mb`: 'filesystem', or 'nothing'."""
    bytes: int | None
    """What its files take; null where that is not known."""
    in_use_by: list[WorkspaceUse]
    created_at: datetime
    last_used: datetime


class WorkspaceList(Struct, frozen=True, kw_only=True):
    """Workspaces in the order of their names."""

    workspaces: list[Workspace]


class WorkspaceDeleted(Struct, frozen=True, kw_only=True):
    """What deleting a workspace removed."""

    name: str
    bytes: int
