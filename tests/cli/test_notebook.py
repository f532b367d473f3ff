"""Notebook files, run cell by cell against a live gateway, and compared with what they were."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.conftest import only

from .terminal import environment, interpreter

pytestmark = only("embedded")


def written(file: Path, *sources: str) -> Path:
    cells = [nbformat.v4.new_markdown_cell("# Words"), *map(nbformat.v4.new_code_cell, sources)]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), file)
    return file


@pytest.fixture
def run(gateway: Any, tmp_path: Path) -> Any:
    env = environment(
        INTERPRETER_URL=gateway.url,
        INTERPRETER_TOKEN=gateway.token,
        INTERPRETER_DATA_DIR=str(tmp_path / "data"),
    )

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return interpreter("notebook", "run", *arguments, env=env, cwd=tmp_path)

    return run


def test_a_notebook_is_run_written_and_compared(run: Any, tmp_path: Path) -> None:
    file = written(tmp_path / "in.ipynb", "x = 20", "import random\nprint(random.random())", "x + 1")
    out = tmp_path / "out.ipynb"
    done = run(str(file), "-o", str(out))
    assert done.returncode == 0, done.stderr
    assert "[3/3] ok" in done.stderr
    notebook = nbformat.read(out, as_version=4)
    nbformat.validate(notebook)
    assert notebook.cells[0].source == "# Words"
    assert [cell.get("execution_count") for cell in notebook.cells] == [None, 1, 2, 3]
    assert notebook.cells[3].outputs[0].data["text/plain"] == "21"
    again = run(str(out), "--compare")
    assert again.returncode == 1, again.stderr
    assert again.stdout == "cell 2 differs: import random\n"


def test_a_notebook_that_fails_says_where(run: Any, tmp_path: Path) -> None:
    file = written(tmp_path / "in.ipynb", "1 / 0", "'after'")
    stopped = run(str(file), "-o", "out.ipynb")
    assert stopped.returncode == 1
    assert "[1/2] error" in stopped.stderr
    assert "ZeroDivisionError" in stopped.stderr
    assert "[2/2]" not in stopped.stderr
    assert json.loads((tmp_path / "out.ipynb").read_text())["cells"][1]["outputs"]
    on = run(str(file), "--keep-going")
    assert on.returncode == 1
    assert "[2/2] ok" in on.stderr


def test_what_is_no_notebook_is_refused(run: Any, tmp_path: Path) -> None:
    (tmp_path / "no.ipynb").write_text("{}")
    assert run("no.ipynb").returncode == 2
    assert run("missing.ipynb").returncode == 2
