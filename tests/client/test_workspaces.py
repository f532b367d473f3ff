"""Named workspaces with the SDK, against a live gateway."""

from __future__ import annotations

import secrets
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interpreter import AsyncClient, Client
from interpreter.errors import InvalidArchive, WorkspaceExists, WorkspaceInUse, WorkspaceNotFound
from tests.conftest import only
from tests.workspace.archives import archive, entry


@pytest.fixture
def client(gateway: Any) -> Iterator[Client]:
    with Client(gateway.url, gateway.token) as client:
        yield client


@pytest.fixture
def name(client: Client) -> Iterator[str]:
    """A workspace with files in it; it and what is named after it is deleted afterwards."""
    name = f"sdk-{secrets.token_hex(4)}"
    made = client.workspaces.create(name, owner="ann", disk_mb=64)
    assert (made.name, made.owner, made.disk_mb, made.bytes) == (name, "ann", 64, 0)
    with client.session(workspace=name) as s:
        s.run("import os; open('data', 'wb').write(os.urandom(5_000_000))").raise_for_error()
        s.run("open('zeros', 'wb').write(bytes(5_000_000))").raise_for_error()
    yield name
    for workspace in client.workspaces.list():
        if workspace.name.startswith(name):
            client.workspaces.delete(workspace.name)


def test_a_workspace_begins_with_the_files_of_a_session(client: Client, name: str) -> None:
    with client.session() as s:
        s.files.write("kept", "yes")
        made = client.workspaces.create(f"{name}-kept", from_session=s.id)
    assert made.bytes
    with client.session(workspace=f"{name}-kept", workspace_read_only=True) as s:
        assert s.files.read("kept") == b"yes"


def test_a_session_has_a_workspace_by_its_name(client: Client, name: str) -> None:
    with client.session(workspace=name) as s:
        assert (s.info.workspace, s.info.workspace_read_only) == (name, False)
        assert s.run("import os; sorted(os.listdir())").text == "['data', 'zeros']"
        with pytest.raises(WorkspaceInUse, match=s.id):
            client.create_session(workspace=name)
        with client.session(workspace=name, workspace_read_only=True) as reader:
            error = reader.run("open('new', 'w')").error
            assert error is not None
            assert error.ename == "OSError"
        (use,) = client.workspaces.get(name).in_use_by
        assert (use.session_id, use.read_only) == (s.id, False)
        with pytest.raises(WorkspaceInUse):
            client.workspaces.delete(name)
    assert name in [workspace.name for workspace in client.workspaces.list("ann")]
    assert client.workspaces.update(name, owner="bob", disk_mb=96).owner == "bob"
    assert client.workspaces.get(name).disk_mb == 96
    assert client.workspaces.copy(name, f"{name}-copy", owner="eve").owner == "eve"
    with pytest.raises(WorkspaceExists):
        client.workspaces.create(name)
    with pytest.raises(WorkspaceNotFound):
        client.workspaces.get("none")


@only("embedded")
def test_archives_come_and_go_with_progress(client: Client, name: str, tmp_path: Path) -> None:
    steps: list[tuple[int, int]] = []
    file = client.workspaces.archive(
        name, tmp_path / "kept.tar.gz", progress=lambda *step: steps.append(step)
    )
    assert_progress(steps, 10_000_000)
    assert [path.name for path in tmp_path.iterdir()] == ["kept.tar.gz"]
    with tarfile.open(file) as tar:
        assert sorted(tar.getnames()) == ["data", "zeros"]
    steps.clear()
    made = client.workspaces.restore(
        f"{name}-2", file, owner="eve", disk_mb=32, progress=lambda *step: steps.append(step)
    )
    assert_progress(steps, file.stat().st_size)
    assert (made.owner, made.disk_mb) == ("eve", 32)
    with client.session(workspace=f"{name}-2") as s:
        assert s.run("import os; os.path.getsize('data')").text == "5000000"


def assert_progress(steps: list[tuple[int, int]], least: int) -> None:
    assert len(steps) > 2
    done, total = zip(*steps, strict=True)
    assert list(done) == sorted(done)
    assert len(set(total)) == 1
    assert done[-1] == total[-1] >= least


@only("embedded")
def test_what_cannot_be_had_leaves_no_file(client: Client, tmp_path: Path) -> None:
    with pytest.raises(WorkspaceNotFound):
        client.workspaces.archive("none", tmp_path / "file")
    assert list(tmp_path.iterdir()) == []
    bad = tmp_path / "bad"
    bad.write_bytes(archive(entry("/etc/evil", b"x" * 5_000_000)))
    with pytest.raises(InvalidArchive, match="absolute"):
        client.workspaces.restore("evil", bad)
    with pytest.raises(WorkspaceNotFound):
        client.workspaces.get("evil")


@only("embedded")
async def test_the_same_with_await(gateway: Any, name: str, tmp_path: Path) -> None:
    async with AsyncClient(gateway.url, gateway.token) as client:
        workspaces = client.workspaces
        steps: list[tuple[int, int]] = []
        file = await workspaces.archive(
            name, tmp_path / "kept", progress=lambda *step: steps.append(step)
        )
        assert_progress(steps, 10_000_000)
        steps.clear()
        await workspaces.restore(f"{name}-2", file, progress=lambda *step: steps.append(step))
        assert_progress(steps, file.stat().st_size)
        assert (await workspaces.copy(name, f"{name}-3")).name == f"{name}-3"
        assert (await workspaces.update(f"{name}-3", owner="eve")).owner == "eve"
        assert [w.name for w in await workspaces.list("eve")] == [f"{name}-3"]
        async with client.session(workspace=f"{name}-2", workspace_read_only=True) as s:
            assert (await s.run("len(open('data', 'rb').read())")).text == "5000000"
            assert (await workspaces.get(f"{name}-2")).in_use_by[0].session_id == s.id
        assert (await workspaces.delete(f"{name}-2")).bytes > 5_000_000
        created = await workspaces.create(f"{name}-4", owner="eve", disk_mb=16)
        assert created.disk_mb == 16
