"""Jupyter's own programs, as they come, with their kernels in sessions."""

from __future__ import annotations

import subprocess
import sys
import unittest
from pathlib import Path

import httpx
import jupyter_kernel_test
import nbformat
from nbclient import NotebookClient

from tests.conftest import only

SUITE = 13
"""Tests that the suite has."""


def stock_tests(name: str) -> unittest.TestSuite:
    """All of the tests that Jupyter has for kernels; none of them is left out."""

    class Kernel(jupyter_kernel_test.KernelTests):
        kernel_name = name
        language_name = "python"
        file_extension = ".py"
        code_hello_world = "print('hello, world')"
        code_stderr = "import sys; print('wrong', file=sys.stderr)"
        completion_samples = [{"text": "zi", "matches": {"zip"}}]
        complete_code_samples = ["1", "print('hello, world')", "def f(x):\n  return x * 2\n\n"]
        incomplete_code_samples = ["print('''hello", "def f(x):\n  x * 2"]
        invalid_code_samples = ["import = 7q"]
        code_page_something = "zip?"
        code_generate_error = "raise"
        code_execute_result = [
            {"code": "1 + 2 + 3", "result": "6"},
            {"code": "[n * n for n in range(1, 4)]", "result": "[1, 4, 9]"},
        ]
        code_display_data = [
            {
                "code": "from IPython.display import HTML, display; display(HTML('<b>b</b>'))",
                "mime": "text/html",
            },
            {
                "code": "import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()",
                "mime": "image/png",
            },
        ]
        supported_history_operations = ("tail", "range", "search")
        code_history_pattern = "1 + ?*"
        code_inspect_sample = "zip"
        code_clear_output = "from IPython.display import clear_output; clear_output()"

    class Welcome(jupyter_kernel_test.IopubWelcomeTests):
        kernel_name = name
        support_iopub_welcome = True

    load = unittest.defaultTestLoader.loadTestsFromTestCase
    return unittest.TestSuite([load(Kernel), load(Welcome)])


def test_jupyters_own_tests_for_kernels_pass(kernel_name: str) -> None:
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(stock_tests(kernel_name))
    assert result.wasSuccessful()
    assert (result.testsRun, result.skipped) == (SUITE, [])


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
