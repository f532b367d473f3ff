"""`interpreter workspaces` against a live gateway, on pipes and on a terminal."""

from __future__ import annotations

import json
import secrets
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from interpreter import Client
from tests.conftest import only

from .terminal import Terminal, environment, interpreter

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def env(gateway: Any, tmp_path: Path) -> dict[str, str]:
    return environment(INTERPRETER_URL=gateway.url, INTERPRETER_TOKEN=gateway.token)


@pytest.fixture
def run(env: dict[str, str], tmp_path: Path) -> Run:
    return lambda *arguments: interpreter(*arguments, env=env, cwd=tmp_path)


@pytest.fixture
def name(gateway: Any) -> Iterator[str]:
    name = f"cli-{secrets.token_hex(4)}"
    yield name
    with Client(gateway.url, gateway.token) as client:
        for workspace in client.workspaces.list():
            if workspace.name.startswith(name):
                client.workspaces.delete(workspace.name)


@only("embedded")
def test_a_workspace_from_its_making_to_its_end(run: Run, name: str, tmp_path: Path) -> None:
    made = run("workspaces", "create", name, "--owner", "ann", "--disk-mb", "64")
    assert (made.returncode, made.stderr) == (0, "")
    assert (
        made.stdout
        == f"{name}, 0.0 MB of 64 MB; use it with 'interpreter run CODE --workspace {name}'\n"
    )
    assert run("run", "open('kept', 'w').write('yes')", "-w", name, "--delete").returncode == 0
    read = run("run", "open('kept').read()", "--workspace", name, "--delete")
    assert read.stdout == "'yes'\n"
    refused = run("run", "open('new', 'w')", "--workspace", name, "--read-only", "--delete")
    assert refused.returncode == 1
    assert "Read-only file system" in refused.stderr
    assert run("run", "open('own', 'w').write('x')", "--name", name).returncode == 0
    assert run("workspaces", "create", f"{name}-own", "--from-session", name).returncode == 0
    assert run("delete", name).returncode == 0
    assert run("run", "open('own').read()", "-w", f"{name}-own", "--delete").stdout == "'x'\n"
    listed = run("workspaces", "--owner", "ann").stdout
    assert name in listed
    assert "64 MB" in listed
    found = json.loads(run("workspaces", "--json").stdout)["workspaces"]
    assert [w["owner"] for w in found if w["name"] == name] == ["ann"]
    assert run("workspaces", "archive", name).stdout.startswith(f"archived {name} as {name}.tar.gz")
    assert run("workspaces", "archive", name, "other.tgz").returncode == 0
    restored = run("workspaces", "restore", f"{name}-2", f"{name}.tar.gz", "--json")
    assert json.loads(restored.stdout)["name"] == f"{name}-2"
    assert run("workspaces", "copy", name, f"{name}-3", "--disk-mb", "32").returncode == 0
    gone = run("workspaces", "rm", name, "none", f"{name}-2", f"{name}-3")
    assert gone.returncode == 3
    assert [line.split(",")[0] for line in gone.stdout.splitlines()] == [
        f"deleted {one}" for one in (name, f"{name}-2", f"{name}-3")
    ]
    assert gone.stderr.startswith("error: There is no workspace 'none'.\n  'interpreter workspaces'")
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([f"{name}.tar.gz", "other.tgz"])


@only("embedded")
def test_what_is_wrong_is_said(run: Run, name: str, tmp_path: Path) -> None:
    run("workspaces", "create", name, "--disk-mb", "64")
    first = run("run", "1", "--workspace", name)
    session = first.stderr.split()[1]
    second = run("run", "1", "--workspace", name)
    assert second.returncode == 3
    assert second.stderr == (
        f"error: The workspace '{name}' is used by session {session}, which writes.\n"
        "  Stop that session with 'interpreter stop SESSION', or use --read-only.\n"
    )
    joined = run("run", "1", "--session", session, "--workspace", name)
    assert (joined.returncode, "from the start" in joined.stderr) == (2, True)
    assert run("run", "1", "--read-only").returncode == 2
    assert run("workspaces", "restore", "x", "no-such-file").returncode == 2
    assert run("workspaces", "archive", name, "no/such/folder").returncode == 2
    assert run("workspaces", "archive", "none").returncode == 3
    assert run("run", "1", "--workspace", "none").returncode == 3
    assert run("delete", session).returncode == 0
    assert list(tmp_path.iterdir()) == []


@only("embedded")
def test_a_terminal_shows_how_far_it_is(
    run: Run, env: dict[str, str], name: str, tmp_path: Path
) -> None:
    run("workspaces", "create", name, "--disk-mb", "64")
    noise = "import os; open('noise', 'wb').write(os.urandom(50_000_000))"
    assert run("run", noise, "--workspace", name, "--delete").returncode == 0
    with Terminal(["workspaces", "archive", name], env, tmp_path) as terminal:
        terminal.expect("archiving")
        terminal.expect("archived")
        assert terminal.exit_code() == 0
    with Terminal(["workspaces", "restore", f"{name}-2", f"{name}.tar.gz"], env, tmp_path) as terminal:
        terminal.expect("restoring")
        terminal.expect("use it with")
        assert terminal.exit_code() == 0
