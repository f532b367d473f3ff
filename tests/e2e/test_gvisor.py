"""Sessions under gVisor: the same as others, with a kernel of their own between them and the host's."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from tests.conftest import Gateway
from tests.e2e.test_inputs import zipped
from tests.environments import Cells, configured, session
from tests.read_only import CHANGES

SETTINGS = '[environments.guarded]\nimage = "interpreter/python"\noci_runtime = "runsc"\n'


@pytest.fixture(scope="module")
def guarded(engine: docker.APIClient, data_root: Path) -> Iterator[Gateway]:
    with configured(data_root, SETTINGS) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def cells(guarded: Gateway) -> Iterator[Cells]:
    with session(guarded, "guarded") as cells:
        yield cells


def test_cells_run_under_gvisor(cells: Cells) -> None:
    assert cells.created["isolation"] == "docker+runsc"
    assert cells.created["runtime"] == "docker"
    said = cells.text("import subprocess\nprint(subprocess.run('dmesg', capture_output=True).stdout)")
    assert "gVisor" in said
    assert Path("/proc/version").read_text() not in cells.text("print(open('/proc/version').read())")


def test_state_and_files_stay(cells: Cells) -> None:
    cells.text("import pandas\nx = pandas.Series([1, 2, 3])\nopen('kept.txt', 'w').write('here')")
    assert cells.text("int(x.sum()), open('kept.txt').read()") == "(6, 'here')"


def test_inputs_are_seen_and_cannot_be_changed(guarded: Gateway, cells: Cells) -> None:
    with guarded.client() as client:
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


def test_what_a_cell_changed_is_listed(cells: Cells) -> None:
    made = cells.run("import os\nos.makedirs('new/deep')\nopen('new/deep/x.csv', 'w').write('a')")
    assert [(f["path"], f["change"], f["size"]) for f in made["files"]] == [
        ("new/deep/x.csv", "created", 1)
    ]
    changed = cells.run("open('new/deep/x.csv', 'a').write('b')\nos.rename('new', 'moved')")
    assert [(f["path"], f["change"]) for f in changed["files"]] == [
        ("moved/deep/x.csv", "created"),
        ("new/deep/x.csv", "deleted"),
    ]
    assert cells.run("open('moved/deep/x.csv').read()")["files"] == []


def test_there_is_no_network(cells: Cells) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        result = cells.run(f"import socket\nsocket.create_connection(('127.0.0.1', {port}), timeout=2)")
        assert result["status"] == "error"
    assert cells.text("[name for _, name in socket.if_nameindex()]") == "['lo']"
    result = cells.run("socket.create_connection(('192.0.2.1', 80), timeout=3)")
    assert result["error"]["ename"] == "OSError", result


def test_a_cell_is_interrupted_and_memory_stays(cells: Cells) -> None:
    result = cells.run("y = 5\nimport time\ntime.sleep(60)", timeout=1)
    assert result["status"] == "timeout"
    assert "KeyboardInterrupt" in result["text"]
    assert cells.text("y") == "5"


def test_a_restart_forgets_memory_and_keeps_files(cells: Cells) -> None:
    cells.text("z = 1\nopen('file', 'w').write('data')")
    cells.restart()
    assert cells.text("'z' in globals(), open('file').read()") == "(False, 'data')"


@pytest.mark.parametrize(
    "hog",
    [
        "held = []\nwhile True: held.append(b'x' * 50_000_000)",
        "import subprocess, sys\nhog = 'held = []\\nwhile True: held.append(bytearray(10_000_000))'\n"
        "subprocess.run([sys.executable, '-c', hog])",
        "f = open('/dev/shm/x', 'wb')\nwhile True: f.write(b'x' * 10_000_000)",
    ],
    ids=["the kernel", "a child", "shared memory"],
)
def test_out_of_memory_is_named(guarded: Gateway, cells: Cells, hog: str) -> None:
    with session(guarded, "guarded", limits={"memory_mb": 400}) as small:
        result = small.run(hog)
        assert result["status"] == "lost"
        told: dict[str, Any] = small.look()
    assert told["state"] == "failed", "under gVisor it takes all of the sandbox"
    for reason in (told["reason"], result["reason"]):
        assert reason == "the sandbox ended: out of memory: the limit is 400 MB"
    assert cells.text("6 * 7") == "42", "and no other"
