"""A session as a notebook: valid, complete, with what each cell showed."""

from __future__ import annotations

import re
from datetime import datetime

import httpx
import nbformat
import pytest

from tests.conftest import only
from tests.e2e.test_restart_of_the_gateway import wait_for

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
    assert notebook.metadata == {
        "kernelspec": {"name": "python", "display_name": "python", "language": "python"},
        "language_info": {"name": "python", "file_extension": ".py", "mimetype": "text/x-python"},
    }
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


EVERY_KIND = {
    "stream": "import sys\nprint('out')\nprint('err', file=sys.stderr)",
    "result": "6 * 7",
    "error": "1 / 0",
    "image": "import matplotlib.pyplot as plt\n_ = plt.plot([1, 3, 2])\nplt.show()",
    "html": "from IPython.display import HTML, JSON, Markdown, SVG, clear_output, display\ndisplay(HTML('<b>bold</b>'))",
    "json": "display(JSON({'a': [1, None, {'b': True}]}), Markdown('*words*'), SVG('<svg xmlns=\"http://www.w3.org/2000/svg\"/>'))",
    "custom": "display({'application/vnd.own+json': {'deep': [1.5]}, 'text/plain': 'own'}, raw=True)",
    "update": "shown = display('before', display_id=True)\nshown.update('after')",
    "cleared": "print('gone')\nclear_output()\nprint('left')",
    "long": "x = '''" + "x" * 1_000_000 + "'''\nlen(x)",
}


@only("embedded")
def test_a_session_is_a_valid_notebook_whatever_its_cells_showed_and_however_they_ended(
    http: httpx.Client, session: str
) -> None:
    path = f"/v1/sessions/{session}"
    for code in EVERY_KIND.values():
        run(http, session, code)
    run(http, session, "import time\ntime.sleep(600)", timeout=0.5)
    http.post(f"{path}/commands", json={"command": "echo no cell"})
    run(http, session, "import os\nos._exit(1)")
    run(http, session, "x  # of the kernel that is gone")
    running = http.post(
        f"{path}/executions", json={"code": "import time\nprint('on')\ntime.sleep(600)", "wait": False}
    ).json()["id"]
    wait_for(lambda: http.get(f"{path}/executions/{running}").json()["text"] == "on\n")
    for number in range(2):
        queued = http.post(f"{path}/executions", json={"code": f"{number}", "wait": False}).json()["id"]
    http.delete(f"{path}/executions/{queued}")
    notebook = nbformat.reads(http.get(f"{path}/notebook").text, as_version=4)
    nbformat.validate(notebook)
    cells = dict(zip(EVERY_KIND, notebook.cells, strict=False))
    assert [cell.source for cell in cells.values()] == list(EVERY_KIND.values())
    ends = [cell.metadata.interpreter.status for cell in notebook.cells]
    assert ends[-6:] == ["timeout", "lost", "error", "running", "queued", "cancelled"]
    assert len(notebook.cells) == len(EVERY_KIND) + 6, "a command is no cell"
    assert len({cell.id for cell in notebook.cells}) == len(notebook.cells)
    for cell in notebook.cells:
        assert re.fullmatch("[a-zA-Z0-9-_]{1,64}", cell.id)
        times = cell.metadata.get("execution", {})
        ran = cell.metadata.interpreter.status not in ("queued", "cancelled")
        ended = ran and cell.metadata.interpreter.status != "running"
        assert ("iopub.execute_input" in times, "shell.execute_reply" in times) == (ran, ended)
        if ended:
            began, over = map(
                datetime.fromisoformat, (times["iopub.execute_input"], times["shell.execute_reply"])
            )
            assert (over - began).total_seconds() * 1000 == pytest.approx(
                cell.metadata.interpreter.duration_ms, abs=1
            )
    shown = {kind: cell.outputs for kind, cell in cells.items()}
    assert {(o.name, o.text) for o in shown["stream"]} == {("stdout", "out\n"), ("stderr", "err\n")}
    assert shown["result"][0].execution_count == cells["result"].execution_count == 2
    assert shown["error"][0].ename == "ZeroDivisionError"
    assert shown["image"][0].data["image/png"]
    assert shown["html"][0].data["text/html"] == "<b>bold</b>"
    assert shown["json"][0].data["application/json"] == {"a": [1, None, {"b": True}]}
    assert [set(o.data) - {"text/plain"} for o in shown["json"][1:]] == [
        {"text/markdown"},
        {"image/svg+xml"},
    ]
    assert shown["custom"][0].data["application/vnd.own+json"] == {"deep": [1.5]}
    assert [o.data["text/plain"] for o in shown["update"]] == ["'after'"]
    assert [o.text for o in shown["cleared"]] == ["left\n"]
    assert shown["long"][0].data["text/plain"] == "1000000"
    assert notebook.cells[-3].outputs[0].text == "on\n"


@only("embedded")
def test_a_session_that_has_run_nothing_is_an_empty_notebook(http: httpx.Client, session: str) -> None:
    notebook = nbformat.reads(http.get(f"/v1/sessions/{session}/notebook").text, as_version=4)
    nbformat.validate(notebook)
    assert notebook.cells == []
    assert http.get("/v1/sessions/s-none/notebook").status_code == 404
