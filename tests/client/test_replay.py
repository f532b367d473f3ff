"""Sessions that are created with a notebook, from the SDK."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

from interpreter.client import AsyncClient, Client
from interpreter.errors import InvalidNotebook
from interpreter.models import ReplayState
from tests.conftest import Gateway, only

pytestmark = only("embedded")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    cells = [
        nbformat.v4.new_markdown_cell("# Words"),
        nbformat.v4.new_code_cell("x = 20"),
        nbformat.v4.new_code_cell("print('hello')\nx + 1"),
        nbformat.v4.new_code_cell("1 / 0"),
        nbformat.v4.new_code_cell("x + 2"),
    ]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "in.ipynb")
    return tmp_path / "in.ipynb"


def test_a_notebook_is_followed_cell_by_cell(gateway: Gateway, file: Path) -> None:
    with Client(gateway.url, gateway.token) as client:
        with client.session(notebook=file) as s:
            results = list(s.replay())
            assert [result.text for result in results[:2]] == ["", "hello\n21"]
            assert [result.ok for result in results] == [True, True, False]
            assert s.info.replay is not None
            assert (s.info.replay.state, s.info.replay.error_cell) == (ReplayState.failed, 3)
            assert s.run("x").text == "20"
            assert [result.id for result in s.replay()] == [result.id for result in results], "once more"
        as_read = nbformat.read(file, as_version=4)
        s = client.create_session(notebook=as_read, keep_going=True, wait=False)
        assert [result.status.value for result in s.replay()] == ["ok", "ok", "error", "ok"]
        s.delete()
        with client.session() as s:
            assert list(s.replay()) == []


async def test_the_same_with_await(gateway: Gateway, file: Path) -> None:
    async with (
        AsyncClient(gateway.url, gateway.token) as client,
        client.session(notebook=str(file)) as s,
    ):
        texts = [result.text async for result in s.replay()]
        assert texts[:2] == ["", "hello\n21"]
        assert s.info.replay is not None
        assert s.info.replay.done == 3


def test_what_is_no_notebook_is_told_before_anything_is_sent(gateway: Gateway, tmp_path: Path) -> None:
    (tmp_path / "no.ipynb").write_text("x = 1")
    with Client(gateway.url, gateway.token) as client:
        before = len(client.sessions())
        for given in (tmp_path / "no.ipynb", {"nbformat": 4, "cells": [{}]}):
            with pytest.raises(InvalidNotebook, match="not a notebook"):
                client.create_session(notebook=given)
        with pytest.raises(InvalidNotebook, match="version 3"):
            client.create_session(notebook={"nbformat": 3, "worksheets": []})
        with pytest.raises(FileNotFoundError):
            client.create_session(notebook=tmp_path / "missing.ipynb")
        assert len(client.sessions()) == before
