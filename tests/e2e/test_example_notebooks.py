"""The notebooks that teach run through a live gateway, and show what they say they show."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from interpreter.client import Client
from tests.conftest import Gateway, only

FOLDER = Path(__file__).parents[2] / "notebooks"
Check = Callable[[list[Any]], None]


def text_of(cells: list[Any]) -> str:
    """Everything that the code cells printed or showed as text."""
    outputs = [output for cell in cells for output in cell["outputs"]]
    return "\n".join(o["text"] if "text" in o else o["data"]["text/plain"] for o in outputs)


def shown(cells: list[Any], mime: str) -> list[str]:
    data = [output.get("data", {}) for cell in cells for output in cell["outputs"]]
    return [bundle[mime] for bundle in data if mime in bundle]


def first_steps(cells: list[Any]) -> None:
    text = text_of(cells)
    for line in (
        "hello from a session",
        "'HELLO'",
        "caught: invalid literal",
        "['notes.txt']",
        "5 notes.txt",
    ):
        assert line in text
    assert "no network" in text
    assert "<td>Venus</td>" in shown(cells, "text/html")[0]


def data_analysis(cells: list[Any]) -> None:
    text = text_of(cells)
    assert "365 days" in text
    assert "Lyon: best in Apr" in text
    assert len(shown(cells, "text/html")) == 2
    (plot,) = shown(cells, "image/png")
    assert base64.b64decode(plot).startswith(b"\x89PNG")
    for name in ("months.csv", "sales.csv", "sales.png"):
        assert name in text


def long_job(cells: list[Any]) -> None:
    text = text_of(cells)
    assert text.startswith("ready\n")
    assert "step 5 of 20" in text
    assert "20 lines, each once; the last is 'step 20 of 20'" in text
    assert "s: 'finished'" in text


def agent_loop(cells: list[Any]) -> None:
    text = text_of(cells)
    for line in ("turn 1: error  KeyError: 'price'", "turn 2: ok     city;price", "turn 3: ok     11.0"):
        assert line in text
    assert "The mean price is 11.00." in text
    assert "error | df['price'].mean()" in text


IN_A_SESSION = {"1-first-steps.ipynb": first_steps, "2-data-analysis.ipynb": data_analysis}
WITH_THE_SDK = {"3-long-job.ipynb": long_job, "4-agent-loop.ipynb": agent_loop}


def test_no_notebook_is_forgotten() -> None:
    assert {file.name for file in FOLDER.iterdir()} == {*IN_A_SESSION, *WITH_THE_SDK}
    for file in FOLDER.iterdir():
        notebook = nbformat.read(file, as_version=4)
        nbformat.validate(notebook)
        assert notebook.cells[0].source.startswith("# ")
        assert all(not cell.get("outputs") for cell in notebook.cells), "they are kept without outputs"


@only("embedded")
@pytest.mark.parametrize("name", IN_A_SESSION)
def test_a_notebook_that_runs_in_a_session_shows_what_it_says(gateway: Gateway, name: str) -> None:
    with Client(gateway.url, gateway.token) as client, client.session(notebook=FOLDER / name) as session:
        results = list(session.replay())
        assert [result.text for result in results if not result.ok] == []
        assert session.info.replay is not None
        assert session.info.replay.done == session.info.replay.cells == len(results)
        IN_A_SESSION[name]([{"outputs": result.outputs} for result in results])


@only("embedded")
@pytest.mark.parametrize("name", WITH_THE_SDK)
def test_a_notebook_that_uses_the_sdk_shows_what_it_says(
    gateway: Gateway, name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("INTERPRETER_URL", gateway.url)
    monkeypatch.setenv("INTERPRETER_TOKEN", gateway.token)
    notebook = nbformat.read(FOLDER / name, as_version=4)
    runner = NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}})
    runner.execute()  # raises if a cell does not end well
    WITH_THE_SDK[name]([cell for cell in notebook.cells if cell.cell_type == "code"])
    with Client(gateway.url, gateway.token) as client:
        assert client.sessions(labels={"example": name[2:].removesuffix(".ipynb")}) == [], "it tidies up"
