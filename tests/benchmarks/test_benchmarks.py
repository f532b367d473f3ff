"""The benchmarks run and write down what they found; how quick anything is, is not tested here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.figures import Figure, Target
from tests.conftest import KERNELS

ROOT = Path(__file__).parents[2]


def test_a_quick_run_writes_its_numbers_and_leaves_nothing_else() -> None:
    # A short name: the kernels' sockets are below it.
    with tempfile.TemporaryDirectory(prefix="b-") as folder:
        scratch, results = Path(folder, "t"), Path(folder, "results")
        scratch.mkdir()
        environ = {**os.environ, "INTERPRETER_KERNELS_DIR": KERNELS, "TMPDIR": str(scratch)}
        command = [sys.executable, "-m", "benchmarks", "cell", "--quick", "--results", str(results)]
        run = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True)
        assert run.returncode == 0, run.stdout + run.stderr
        assert "cell over HTTP" in run.stdout
        (file,) = results.iterdir()
        found = json.loads(file.read_text())
        assert not list(scratch.iterdir())
    assert found["machine"]["cores"] >= 1
    for figure in found["figures"]["cell"]:
        assert figure["median"] > 0
        assert figure["their_median"] > 0
        assert figure["ratio"] > 0
        assert len(figure["ours"]) == len(figure["theirs"]) == 2
    assert found["figures"]["cell"][0]["met"] in (True, False)


def test_containers_are_measured_and_none_is_left() -> None:
    with tempfile.TemporaryDirectory(prefix="b-") as folder:
        results = Path(folder, "results")
        environ = {**os.environ, "INTERPRETER_KERNELS_DIR": KERNELS}
        command = [sys.executable, "-m", "benchmarks", "containers", "--quick"]
        run = subprocess.run(
            [*command, "--results", str(results)], cwd=ROOT, env=environ, capture_output=True, text=True
        )
        # The engine itself is asked afterwards whether anything is left in it.
        assert run.returncode == 0, run.stdout + run.stderr
        (file,) = results.iterdir()
        found = json.loads(file.read_text())["figures"]["containers"]
    assert [figure["met"] is not None for figure in found] == [True, True, True, False]
    assert all(figure["median"] > 0 for figure in found)
    assert len(found[-1]["ours"]) == 2, "the memory of each idle session"


def test_finding_changes_is_measured() -> None:
    with tempfile.TemporaryDirectory(prefix="b-") as folder:
        scratch, results = Path(folder, "t"), Path(folder, "results")
        scratch.mkdir()
        environ = {**os.environ, "TMPDIR": str(scratch)}
        command = [sys.executable, "-m", "benchmarks", "changes", "--quick", "--results", str(results)]
        run = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True)
        assert run.returncode == 0, run.stdout + run.stderr
        (file,) = results.iterdir()
        found = json.loads(file.read_text())["figures"]["changes"]
        assert not list(scratch.iterdir())
    assert [figure["met"] is not None for figure in found] == [True, False, False]
    assert all(figure["median"] > 0 for figure in found)


@pytest.mark.parametrize("name", ["warm", "crowd", "files", "commands", "websocket", "page"])
def test_the_others_run_too(name: str) -> None:
    with tempfile.TemporaryDirectory(prefix="b-") as folder:
        environ = {**os.environ, "INTERPRETER_KERNELS_DIR": KERNELS}
        command = [sys.executable, "-m", "benchmarks", name, "--quick", "--results", folder]
        run = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True)
        assert run.returncode == 0, run.stdout + run.stderr
        (file,) = Path(folder).iterdir()
        found = json.loads(file.read_text())["figures"][name]
    assert found
    assert run.stdout.count("missed: ") == sum(figure["met"] is False for figure in found)


def test_a_missed_target_is_told_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    figure = Figure("a thing", "ms", [3.0], [1.0], target=Target("≤", 2))
    monkeypatch.setattr("signal.signal", lambda *_: None)  # this process goes on
    monkeypatch.setattr("benchmarks.cell.measure", lambda quick: [figure])
    for options, code in (([], 1), (["--quick"], 0)):
        monkeypatch.setattr(sys, "argv", ["bench", "cell", "--results", str(tmp_path), *options])
        assert main() == code, "a quick run says nothing of how quick anything is"
        assert "missed: a thing, 3.00 instead of ≤ 2" in capsys.readouterr().out
