"""A session as a notebook: valid, complete, with what each cell showed."""

from __future__ import annotations

import httpx
import nbformat

from tests.conftest import only

CELLS = [
    "x = 6 * 7\nprint('hello')",
    "x",
    "from IPython.display import HTML, display\ndisplay(HTML('<b>bold</b>'))",
    "import matplotlib.pyplot as plt\n_ = plt.plot([1, 3, 2])\nplt.show()",
    "1 / 0",
]


def run(http: httpx.Client, session: str, code: str, **more: object) -> None:
    answer = http.post(f"/v1/sessions/{session}/executions", json={"code": code, **more})
    assert answer.status_code == 200, answer.text


@only("embedded")
def test_a_session_is_a_valid_notebook(http: httpx.Client, session: str) -> None:
    for code in CELLS:
        run(http, session, code)
    for number in range(10):
        run(http, session, f"{number}")
    http.post(f"/v1/sessions/{session}/contexts", json={"name": "other"})
    run(http, session, "'elsewhere'", context="other")
    answer = http.get(f"/v1/sessions/{session}/notebook")
    assert answer.headers["Content-Disposition"].endswith(f'"{session}.ipynb"')
    notebook = nbformat.reads(answer.text, as_version=4)
    nbformat.validate(notebook)
    assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
    assert [cell.source for cell in notebook.cells] == [*CELLS, *map(str, range(10))]
    assert [cell.execution_count for cell in notebook.cells] == list(range(1, 16))
    assert len({cell.id for cell in notebook.cells}) == 15
    hello, result, html, plot, error = (cell.outputs for cell in notebook.cells[:5])
    assert hello[0].text == "hello\n"
    assert result[0].data["text/plain"] == "42"
    assert html[0].data["text/html"] == "<b>bold</b>"
    assert plot[0].data["image/png"]
    assert error[0].ename == "ZeroDivisionError"
    for cell in notebook.cells:
        assert cell.metadata.execution["iopub.execute_input"]
        assert cell.metadata.interpreter.duration_ms > 0
    other = http.get(f"/v1/sessions/{session}/notebook", params={"context": "other"}).json()
    assert [cell["source"] for cell in other["cells"]] == ["'elsewhere'"]


@only("embedded")
def test_a_session_that_has_run_nothing_is_an_empty_notebook(http: httpx.Client, session: str) -> None:
    notebook = nbformat.reads(http.get(f"/v1/sessions/{session}/notebook").text, as_version=4)
    nbformat.validate(notebook)
    assert notebook.cells == []
    assert http.get("/v1/sessions/s-none/notebook").status_code == 404
