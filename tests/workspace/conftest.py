"""Real workspaces of real file systems. Where they cannot be capped these tests fail."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from interpreter.workspace import Workspaces
from tests.mounts import loop_devices_of, mounts_of, soon


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "workspaces"


@pytest.fixture
async def workspaces(root: Path) -> AsyncIterator[Workspaces]:
    workspaces = Workspaces(root)
    await workspaces.prepare()
    assert workspaces.not_enforced_because is None
    assert workspaces.disk_enforced_by == "filesystem"
    assert not root.exists(), "the trial leaves nothing"
    yield workspaces
    await workspaces.sweep(lambda id: False)
    assert mounts_of(root.parent) == []
    assert soon(lambda: loop_devices_of(root.parent) == [])
    assert [path for path in root.parent.rglob("*") if path != root] == []
