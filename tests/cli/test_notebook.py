"""Notebook files, run cell by cell against a live gateway, and compared with what they were."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.conftest import only

from .terminal import Terminal, environment, interpreter

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

    run.env = env  # type: ignore[attr-defined]
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
    said = again.stdout.splitlines()
    assert said[:2] == ["cell 2 differs: import random", "    stdout, line 1:"]
    assert re.fullmatch(r"    -0\.\d+\n    \+0\.\d+", "\n".join(said[2:]))


def test_a_large_picture_is_written_whole_and_compared(run: Any, tmp_path: Path) -> None:
    picture = (
        "import random\nfrom IPython.display import Image\n"
        "Image(b'\\x89PNG' + random.Random(1).randbytes(3_000_000), format='png')"
    )
    file, out = written(tmp_path / "in.ipynb", picture), tmp_path / "out.ipynb"
    assert run(str(file), "-o", str(out)).returncode == 0
    shown = nbformat.read(out, as_version=4).cells[1].outputs[0]
    assert len(shown.data["image/png"]) > 4_000_000
    again = run(str(out), "--compare")
    assert (again.returncode, again.stdout) == (0, "1 cells, all outputs as they were\n")


def test_what_cannot_be_compared_is_no_difference(run: Any, tmp_path: Path) -> None:
    file = written(tmp_path / "in.ipynb", "for i in range(40): print('x' * 1024 * 1024)", "1 + 1")
    notebook = nbformat.read(file, as_version=4)
    text = ("x" * 1024 * 1024 + "\n") * 40
    notebook.cells[1].outputs = [nbformat.v4.new_output("stream", text=text)]
    notebook.cells[2].outputs = [
        nbformat.v4.new_output("execute_result", {"text/plain": "2"}, execution_count=2)
    ]
    nbformat.write(notebook, file)
    done = run(str(file), "--compare")
    assert done.returncode == 0, done.stdout
    assert "cell 1 cannot be compared" in done.stdout
    assert done.stdout.endswith("1 cells, all outputs as they were\n")


def test_what_is_not_run_stays_as_it_is(run: Any, tmp_path: Path) -> None:
    file = written(tmp_path / "in.ipynb", "print('hello')\nobject()", "")
    given = nbformat.read(file, as_version=4)
    given.metadata["kernelspec"] = {"name": "mine", "display_name": "Mine"}
    given.cells[1].metadata["tags"] = ["keep"]
    nbformat.write(given, file)
    out = tmp_path / "out.ipynb"
    assert run(str(file), "-o", str(out)).returncode == 0
    ran = nbformat.read(out, as_version=4)
    nbformat.validate(ran)
    assert ran.metadata == given.metadata
    assert [(cell.id, cell.source) for cell in ran.cells] == [
        (cell.id, cell.source) for cell in given.cells
    ]
    assert ran.cells[1].metadata.tags == ["keep"]
    assert ran.cells[1].metadata.execution["shell.execute_reply"]
    assert ran.cells[2].execution_count is None, "an empty cell is not run"
    again = run(str(out), "--compare")
    assert again.returncode == 0, again.stdout
    assert again.stdout == "1 cells, all outputs as they were\n"


def test_a_person_sees_a_bar_with_the_cell_that_runs(run: Any, tmp_path: Path) -> None:
    file = written(tmp_path / "in.ipynb", "import time", "# a slow one\ntime.sleep(2)", "1 / 0")
    with Terminal(["notebook", "run", str(file)], run.env, tmp_path) as terminal:
        terminal.expect(r"1/3 .*# a slow one")
        terminal.expect(r"\[3/3\] error")
        terminal.expect("ZeroDivisionError: division by zero")
        assert terminal.exit_code() == 1


def test_a_notebook_that_is_left_leaves_no_session(run: Any, gateway: Any, tmp_path: Path) -> None:
    file = written(tmp_path / "in.ipynb", "'begun'", "import time\ntime.sleep(600)")
    with gateway.client() as http:
        before = {session["id"] for session in http.get("/v1/sessions").json()["sessions"]}
        with Terminal(["notebook", "run", str(file)], run.env, tmp_path) as terminal:
            terminal.expect("1/2 .*import time")
            terminal.type("\x03")
            terminal.expect("interrupted")
            assert terminal.exit_code() == 130
        assert {session["id"] for session in http.get("/v1/sessions").json()["sessions"]} <= before
    kept = run(str(written(tmp_path / "in.ipynb", "x = 41")), "--keep")
    session = kept.stderr.split("--session ")[1].strip(" )\n")
    with gateway.client() as http:
        answer = http.post(f"/v1/sessions/{session}/executions", json={"code": "x + 1"})
        assert answer.json()["text"] == "42"
        http.delete(f"/v1/sessions/{session}")


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
