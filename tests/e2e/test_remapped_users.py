"""An engine that remaps users: nobody in a session is anybody outside, and its files are still its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import docker
import psutil
import pytest

import tests.engine
from tests.conftest import Gateway
from tests.e2e.test_inputs import zipped
from tests.environments import Cells, configured, session
from tests.read_only import CHANGES

SETTINGS = '[environments.remapped]\nimage = "interpreter/python"\nuserns = true\n'


@pytest.fixture(scope="module")
def remapping(engine: docker.APIClient) -> Iterator[docker.APIClient]:
    with tests.engine.remapping("interpreter/python:latest") as client:
        yield client


@pytest.fixture(scope="module")
def remapped(remapping: docker.APIClient, data_root: Path) -> Iterator[Gateway]:
    with configured(data_root, SETTINGS) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def cells(remapped: Gateway) -> Iterator[Cells]:
    with session(remapped, "remapped") as cells:
        yield cells


def test_cells_run_and_keep_their_state(cells: Cells) -> None:
    cells.text("import os\nx = 6")
    assert cells.text("x * 7, os.getuid(), os.getgid()") == "(42, 1000, 1000)"
    assert cells.run("import time\ntime.sleep(60)", timeout=1)["status"] == "timeout"
    cells.restart()
    assert cells.text("'x' in globals()") == "False"


def test_nobody_in_a_session_is_anybody_outside(remapping: docker.APIClient, cells: Cells) -> None:
    (found,) = remapping.containers(filters={"label": f"org.interpreter.sandbox={cells.created['id']}"})
    first = psutil.Process(remapping.inspect_container(found["Id"])["State"]["Pid"])
    users = {process.uids().real for process in (first, *first.children(recursive=True))}
    assert users == {tests.engine.FIRST_REMAPPED + 1000}


def test_files_are_usable_from_both_sides(remapped: Gateway, cells: Cells) -> None:
    cells.text("import os\nos.mkdir('made'); open('made/inside.txt', 'w').write('from inside')")
    folder = remapped.data / "workspaces" / cells.created["id"]
    made = folder / "made/inside.txt"
    assert made.read_text() == "from inside"
    assert made.stat().st_uid == tests.engine.FIRST_REMAPPED + 1000
    (folder / "outside.txt").write_text("from outside")
    assert cells.text("open('outside.txt').read()") == "'from outside'"
    cells.text("os.remove('outside.txt'); os.rename('made', 'renamed')")
    assert not (folder / "outside.txt").exists()


def test_inputs_are_seen_and_cannot_be_changed(remapped: Gateway, cells: Cells) -> None:
    with remapped.client() as client:
        files = client.put("/v1/datasets/numbers?unpack=true", content=zipped({"sub/b.csv": b"deep"}))
        assert files.status_code == 201, files.text
        assert cells.text("import os\nos.listdir('/data/input')") == "[]"
        attached = client.post(f"{cells.path}/inputs", json={"dataset": "numbers"})
        assert attached.status_code == 200, attached.text
        assert cells.text("open('/data/input/numbers/sub/b.csv').read()") == "'deep'"
        assert cells.text(CHANGES) == "[]"
        assert cells.text("open('/data/input/numbers/sub/b.csv').read()") == "'deep'"
        client.delete(f"{cells.path}/inputs/numbers")
        assert cells.text("os.listdir('/data/input')") == "[]"
