"""A gateway that is not root keeps the same promises, with one stage of bubblewrap.

When the tests are run by root, the promises are checked once more by a user without rights, who
also may not make control groups. That user is given a view of the machine in which it can read
the Python and the project even where they lie in a folder of root's.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from probing import HERE, KERNELS

import interpreter

NOBODY = 65534


def readable_to_all(paths: list[Path]) -> list[str]:
    """Arguments of bwrap that open the way to these paths."""
    words: list[str] = []
    opened: set[Path] = set()
    for path in sorted({p.resolve() for p in paths}):
        closed = next((p for p in reversed(path.parents) if not p.stat().st_mode & 0o001), None)
        if closed is not None:
            if closed not in opened:
                words += ["--tmpfs", str(closed)]
                opened.add(closed)
            words += ["--dir", str(path), "--ro-bind", str(path), str(path)]
    return words


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder of that user's; not in pytest's own, which is closed to others."""
    with tempfile.TemporaryDirectory(prefix="interpreter-tests-", dir="/tmp") as folder:
        os.chown(folder, NOBODY, NOBODY)
        yield Path(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="this is the unprivileged run")
async def test_the_promises_hold_for_a_gateway_that_is_not_root(home: Path) -> None:
    project = Path(next(iter(interpreter.__path__))).parent
    needed = [Path(sys.base_prefix), Path(sys.prefix), project, Path(KERNELS), HERE]
    view = ["bwrap", "--dev-bind", "/", "/", *readable_to_all(needed), "--chdir", str(home)]
    view += ["--setenv", "HOME", str(home), "--setenv", "PYTHONPATH", str(project)]
    view += ["--setenv", "INTERPRETER_KERNELS_DIR", KERNELS]
    user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--inh-caps=-all"]
    tests = sorted(str(p) for p in HERE.glob("test_sandbox_*.py"))
    check = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    check += ["-c", str(project / "setup.cfg"), "--basetemp", str(home / "tmp")]
    run = await asyncio.create_subprocess_exec(
        *view, "--", *user, "--", *check, stdout=asyncio.subprocess.PIPE, stderr=-2
    )
    said, _ = await run.communicate()
    assert run.returncode == 0, said.decode()
    assert b" passed" in said
