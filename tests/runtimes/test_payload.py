"""The code for the sandbox stands on its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from interpreter.runtimes import payload


def make(tmp_path: Path, text: str) -> Path:
    source = tmp_path / "source"
    (source / "inner").mkdir(parents=True, exist_ok=True)
    (source / "__init__.py").write_text("")
    (source / "inner" / "__init__.py").write_text("")
    (source / "inner" / "told.py").write_text(f"TEXT = {text!r}\n")
    (source / "notes.txt").write_text("not code")
    data = tmp_path / "data"
    data.mkdir(mode=0o700, exist_ok=True)
    return payload.write(data, {"sandbox": source})


def test_it_needs_nothing_of_the_gateway(tmp_path: Path) -> None:
    tree = make(tmp_path, "hello")
    code = "import interpreter.sandbox.inner.told as t; print(t.TEXT, hasattr(t, '__file__'))"
    command = [sys.executable, "-S", "-P", "-c", code]
    done = subprocess.run(command, env={"PYTHONPATH": str(tree)}, capture_output=True, text=True)
    assert done.stdout == "hello True\n", done.stderr
    assert not (tree / "interpreter" / "__init__.py").exists()
    assert not (tree / "interpreter" / "sandbox" / "notes.txt").exists()


def test_it_is_written_once_and_anew_when_the_code_changes(tmp_path: Path) -> None:
    first = make(tmp_path, "one")
    before = first.stat().st_mtime_ns
    assert make(tmp_path, "one") == first
    assert first.stat().st_mtime_ns == before
    assert make(tmp_path, "two") != first
    assert first.is_dir()
    assert not list((tmp_path / "data").glob(".payload*"))


def test_every_user_can_read_it_and_it_is_compiled(tmp_path: Path) -> None:
    tree = make(tmp_path, "one")
    for path in [tree, *tree.rglob("*")]:
        assert path.stat().st_mode & 0o777 == (0o755 if path.is_dir() else 0o644)
    assert list(tree.glob("interpreter/sandbox/inner/__pycache__/told.*.pyc"))


def test_the_kernel_host_is_in_it(tmp_path: Path) -> None:
    tree = payload.write(tmp_path)
    assert (tree / "interpreter" / "sandbox" / "__main__.py").is_file()
    assert list((tree / "interpreter" / "link").glob("*.py"))
