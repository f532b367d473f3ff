"""A short run of chaos in every place; `make chaos` is the long one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from chaos.violence import KINDS
from tests.conftest import KERNELS

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("runtime", "seed", "minutes"),
    [("embedded", 11, 0.5), ("docker", 12, 0.3), ("docker-attach", 13, 0.3)],
)
def test_nothing_is_lost_in_a_short_run(
    runtime: str, seed: int, minutes: float, request: pytest.FixtureRequest
) -> None:
    if runtime != "embedded":
        request.getfixturevalue("engine")
    # A short name: the kernels' sockets are below it.
    with tempfile.TemporaryDirectory(prefix="c-") as scratch:
        environ = {**os.environ, "INTERPRETER_KERNELS_DIR": KERNELS, "TMPDIR": scratch}
        command = [sys.executable, "-m", "chaos", "--runtime", runtime, "--seed", str(seed)]
        command += ["--minutes", str(minutes), "--kills", "6"]
        run = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=600)
        assert run.returncode == 0, run.stdout + run.stderr
        assert "0 violations" in run.stdout
        kinds = {name for name in KINDS if re.search(rf"{name} +\S +[1-9]", run.stdout)}
        assert kinds == set(KINDS) - ({"kill of the engine"} if runtime == "embedded" else set())
        assert not list(Path(scratch).iterdir())
