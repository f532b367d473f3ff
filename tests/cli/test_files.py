"""`interpreter cp`, `ls` and `rm` against a live gateway."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from interpreter import Client, Session
from tests.conftest import Gateway

from .terminal import Terminal, environment, interpreter

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def env_of(gateway: Gateway, folder: Path) -> dict[str, str]:
    return environment(
        INTERPRETER_URL=gateway.url,
        INTERPRETER_TOKEN=gateway.token,
        INTERPRETER_DATA_DIR=str(folder / "data"),
    )


@pytest.fixture
def run(gateway: Gateway, tmp_path: Path) -> Run:
    env = env_of(gateway, tmp_path)
    return lambda *arguments: interpreter(*arguments, env=env, cwd=tmp_path)


@pytest.fixture
def session(gateway: Any) -> Iterator[Session]:
    with Client(gateway.url, gateway.token) as client, client.session(name="cli-files") as session:
        yield session


def test_a_file_goes_in_and_comes_out(run: Run, session: Session, tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("a,b\n")
    done = run("cp", "data.csv", "cli-files:")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert session.files.read("data.csv") == b"a,b\n"
    run("cp", "data.csv", "cli-files:in/other.csv")
    run("cp", "data.csv", "cli-files:in")
    assert [e.name for e in session.files.list("in")] == ["data.csv", "other.csv"]
    assert run("cp", f"{session.id}:in/other.csv", ".").returncode == 0
    assert run("cp", "cli-files:data.csv", "renamed").returncode == 0
    assert (tmp_path / "other.csv").read_text() == (tmp_path / "renamed").read_text() == "a,b\n"
    assert run("cp", "cli-files:data.csv", "cli-files:copy").returncode == 0
    assert session.files.read("copy") == b"a,b\n"
    missing = run("cp", "cli-files:none", ".")
    assert missing.returncode == 3
    assert "'none'" in missing.stderr
    assert "interpreter ls" in missing.stderr
    for wrong in (("data.csv", "x"), ("none", "cli-files:"), (".", "cli-files:"), ("cli-files:in", "x")):
        assert run("cp", *wrong).returncode == 2, wrong


def test_a_folder_goes_in_and_comes_out(run: Run, session: Session, tmp_path: Path) -> None:
    source = tmp_path / "folder"
    (source / "sub/empty").mkdir(parents=True)
    (source / "one").write_bytes(os.urandom(100_000))
    (source / "sub/zwei ü").write_text("2")
    assert run("cp", "-r", "folder", "cli-files:").returncode == 0
    assert run("cp", "-r", "folder", "cli-files:other/name").returncode == 0
    assert [e.name for e in session.files.list("other/name/sub")] == ["empty", "zwei ü"]
    assert run("cp", "-r", "cli-files:folder", "back").returncode == 0
    compared = subprocess.run(["diff", "-r", source, tmp_path / "back"], capture_output=True)
    assert compared.returncode == 0, compared.stdout
    assert run("cp", "-r", "cli-files:", "all").returncode == 0
    assert sorted(p.name for p in (tmp_path / "all").iterdir()) == ["folder", "other"]
    session.run("import os; os.symlink('/etc', 'folder/link'); open(b'folder/\\xff', 'w').close()")
    partly = run("cp", "-r", "cli-files:folder", "partly")
    assert partly.returncode == 3
    assert "link is left out" in partly.stderr
    assert sorted(p.name for p in (tmp_path / "partly").iterdir()) == ["one", "sub"]


def test_files_are_listed_and_removed(run: Run, session: Session) -> None:
    session.files.write("d/a\x1b[31m", "red")
    session.files.write("f", "12345")
    listed = run("ls", "cli-files")
    assert [line.split()[0] for line in listed.stdout.splitlines()] == ["name", "d/", "f"]
    assert "\x1b" not in run("ls", "cli-files:d").stdout
    only = json.loads(run("ls", "cli-files:f", "--json").stdout)
    assert [(e["name"], e["size"]) for e in only["entries"]] == [("f", 5)]
    assert run("ls", "cli-files:none").returncode == 3
    refused = run("rm", "cli-files:d", "cli-files:f")
    assert refused.returncode == 3
    assert "'-r'" in refused.stderr
    assert [e.name for e in session.files.list()] == ["d"]
    assert run("rm", "-r", "cli-files:d").returncode == 0
    assert session.files.list() == []
    assert run("rm", "cli-files").returncode == 2


def test_a_terminal_shows_how_far_it_is(gateway: Gateway, session: Session, tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(bytes(100 << 20))
    arguments = ("cp", "large", "cli-files:")
    with Terminal(arguments, env_of(gateway, tmp_path), tmp_path) as terminal:
        terminal.expect(r"large .*MB")
        assert terminal.exit_code() == 0
    assert session.files.list()[0].size == 100 << 20
