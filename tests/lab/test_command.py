"""`interpreter lab` where something is missing."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.conftest import Gateway, only


@pytest.mark.parametrize("missing", ["jupyterlab", "jupyter_server"])
def test_without_the_extra_it_says_what_to_install(missing: str) -> None:
    program = f"import sys; sys.modules[{missing!r}] = None; from interpreter.cli import main; main()"
    ended = subprocess.run([sys.executable, "-c", program, "lab"], capture_output=True, text=True)
    assert ended.returncode == 2
    assert "pip install 'interpreter[lab]'" in ended.stderr


@only("embedded")
def test_a_session_that_is_not_there_is_said(gateway: Gateway) -> None:
    settings = {"INTERPRETER_URL": gateway.url, "INTERPRETER_TOKEN": gateway.token}
    ended = subprocess.run(
        [sys.executable, "-m", "interpreter.cli", "lab", "none"],
        env=settings,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 3
    assert "There is no session 'none'." in ended.stderr
