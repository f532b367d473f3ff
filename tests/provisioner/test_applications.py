"""Jupyter's own programs, as they come, with their kernels in sessions."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import httpx
import nbformat
from nbclient import NotebookClient

from tests.conftest import only

ROOT = Path(__file__).parents[2]


def test_jupyters_own_tests_for_kernels_pass(kernel_name: str) -> None:
    command = [sys.executable, "-m", "unittest", "-v", "tests.provisioner.kernel_suite"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert "Ran 13 tests" in done.stderr
    assert "skipped" not in done.stderr


def notebook() -> nbformat.NotebookNode:
    sources = [
        "x = 40",
        "print('on stdout')\nx + 2",
        "import socket; socket.gethostname(), open('made', 'w').write('here')",
    ]
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])


def test_nbclient_runs_a_notebook_in_a_session_that_stops_with_it(
    kernel_name: str, http: httpx.Client, tmp_path: Path
) -> None:
    before = {session["id"] for session in http.get("/v1/sessions").json()["sessions"]}
    ran = NotebookClient(notebook(), kernel_name=kernel_name).execute()
    assert [output["output_type"] for output in ran.cells[1].outputs] == ["stream", "execute_result"]
    assert ran.cells[1].outputs[1]["data"]["text/plain"] == "42"
    assert not Path("made").exists(), "it ran elsewhere"
    (session,) = [s for s in http.get("/v1/sessions").json()["sessions"] if s["id"] not in before]
    assert (session["state"], session["environment"]) == ("stopped", "python")
    assert http.get(f"/v1/sessions/{session['id']}/files/made").text == "here"
    told = http.get(f"/v1/sessions/{session['id']}/executions").json()["executions"]
    assert [execution["code"] for execution in told] == [cell.source for cell in notebook().cells]


@only("embedded")
def test_papermill_runs_a_notebook_with_parameters(kernel_name: str, tmp_path: Path) -> None:
    given = notebook()
    given.cells[0].metadata["tags"] = ["parameters"]
    given.metadata["kernelspec"] = {"name": kernel_name, "display_name": "", "language": "python"}
    nbformat.write(given, tmp_path / "in.ipynb")
    command = [sys.executable, "-m", "papermill", "in.ipynb", "out.ipynb", "-p", "x", "98"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    ran = nbformat.read(tmp_path / "out.ipynb", as_version=4)
    assert ran.cells[2].outputs[1]["data"]["text/plain"] == "100"
