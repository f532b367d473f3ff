"""Datasets on the command line."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .terminal import Terminal, environment, interpreter

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def env(gateway: Any, tmp_path: Path) -> dict[str, str]:
    return environment(
        INTERPRETER_URL=gateway.url,
        INTERPRETER_TOKEN=gateway.token,
        INTERPRETER_DATA_DIR=str(tmp_path / "data"),
    )


@pytest.fixture
def run(env: dict[str, str], tmp_path: Path) -> Run:
    return lambda *arguments: interpreter(*arguments, env=env, cwd=tmp_path)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "table.csv"
    path.write_text("city,people\nKöln,1073096\nBonn,\n")
    return path


def test_a_dataset_is_added_seen_described_and_removed(run: Run, table: Path) -> None:
    assert "There are no datasets." in run("datasets").stderr
    added = run("datasets", "add", "cities", str(table))
    assert added.stdout == "cities: 1 file, 32 bytes; sessions see it at /data/input/cities\n"
    assert "cities" in run("datasets").stdout
    assert json.loads(run("datasets", "--json").stdout)[0]["bytes"] == 32
    assert "table.csv" in run("datasets", "show", "cities").stdout
    code = "print(open('/data/input/cities/table.csv').read())"
    ran = run("run", code, "--input", "cities", "--name", "with-cities")
    assert "Bonn" in ran.stdout
    described = run("describe", "with-cities", "/data/input/cities/table.csv").stdout
    assert described.startswith("csv, 2 rows, 2 columns\n")
    assert "Köln, Bonn" in described
    detached = run("detach", "with-cities", "cities")
    assert detached.returncode == 0
    assert "it is at /data/input/cities" in run("attach", "with-cities", "cities").stdout
    assert run("run", code, "-s", "with-cities", "--input", "cities").returncode == 0
    assert run("datasets", "rm", "cities").stdout == "deleted cities\n"
    assert run("run", code, "-s", "with-cities").returncode == 0, "who has it keeps it"
    gone = run("datasets", "rm", "cities")
    assert (gone.returncode, "dataset_not_found" in gone.stderr or "no dataset" in gone.stderr) == (
        3,
        True,
    )
    run("delete", "with-cities")


def test_a_folder_is_added_as_it_is(run: Run, table: Path) -> None:
    (table.parent / "more" / "sub").mkdir(parents=True)
    (table.parent / "more" / "sub" / "b.txt").write_text("b")
    run("datasets", "add", "more", "more")
    assert "sub/b.txt" in run("datasets", "show", "more").stdout
    run("datasets", "rm", "more")


def test_a_bar_shows_how_far_an_upload_is(env: dict[str, str], run: Run, tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(200_000_000)
    with Terminal(("datasets", "add", "large", "large"), env, tmp_path) as terminal:
        terminal.expect("uploading")
        terminal.expect("MB/s")
        terminal.expect("large: 1 file, 200.0 MB")
    run("datasets", "rm", "large")
