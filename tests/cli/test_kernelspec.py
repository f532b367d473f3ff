"""`interpreter kernelspec install`: what is written, and where."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .terminal import environment, interpreter


def test_a_kernelspec_names_the_provisioner_and_no_secret(tmp_path: Path) -> None:
    env = environment(INTERPRETER_URL="http://127.0.0.1:1", INTERPRETER_TOKEN="a-secret-token")
    options = ("--prefix", str(tmp_path), "--environment", "datascience")
    done = interpreter("kernelspec", "install", *options, env=env, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "share/jupyter/kernels/interpreter"
    assert done.stdout == f"{folder}\n"
    text = (folder / "kernel.json").read_text()
    spec = json.loads(text)
    provisioner = {"provisioner_name": "interpreter", "config": {"environment": "datascience"}}
    assert spec["metadata"]["kernel_provisioner"] == provisioner
    assert spec["display_name"] == "datascience (Interpreter)"
    assert "secret" not in text


def test_it_can_be_for_a_user(tmp_path: Path) -> None:
    env = environment(JUPYTER_DATA_DIR=str(tmp_path))
    options = ("--user", "--name", "mine", "--display-name", "Mine")
    done = interpreter("kernelspec", "install", *options, env=env, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    spec = json.loads((tmp_path / "kernels/mine/kernel.json").read_text())
    assert spec["display_name"] == "Mine"


@pytest.mark.parametrize(
    "options", [("--user", "--prefix", "x"), ("--prefix", "x", "--name", "no/name")], ids=["two", "name"]
)
def test_what_cannot_be_is_refused(tmp_path: Path, options: tuple[str, ...]) -> None:
    done = interpreter("kernelspec", "install", *options, env=environment(), cwd=tmp_path)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())
