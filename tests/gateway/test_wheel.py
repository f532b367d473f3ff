"""Who installs the wheel has the page, and needs no Node for it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import httpx
import pytest

from interpreter.runtimes.kernel_environment import base_python
from tests.conftest import Gateway

ROOT = Path(__file__).parent.parent.parent
WEB = Path("interpreter/gateway/web")
MADE = (
    "dist",
    "node_modules",
    "__pycache__",
    ".venv",
    ".git",
    "build",
    "*.egg-info",
    ".*_cache",
    "tests",
)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made from the sources alone, on a machine that has no Node."""
    folder = tmp_path_factory.mktemp("wheel")
    shutil.copytree(ROOT, folder / "source", ignore=shutil.ignore_patterns(*MADE))
    programs = folder / "bin"
    programs.mkdir()
    (programs / "sh").symlink_to("/bin/sh")
    assert shutil.which("node", path=str(programs)) is None
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", "made", "./source"],
        cwd=folder,
        env={**os.environ, "PATH": str(programs)},
        check=True,
    )
    assert (folder / "source" / WEB / "dist" / "manifest.json").exists()
    (made,) = (folder / "made").glob("*.whl")
    return made


def test_the_built_page_is_in_the_wheel_and_its_sources_are_not(wheel: Path) -> None:
    names = [Path(name) for name in zipfile.ZipFile(wheel).namelist()]
    web = [name.relative_to(WEB) for name in names if name.is_relative_to(WEB)]
    assert {name.parts[0] for name in web} == {"dist"}
    assert {Path(f"dist/{page}") for page in ("index.html", "embed.html", "frame.html")} <= set(web)
    assert [name for name in web if name.suffix == ".br"]


def test_an_installed_wheel_serves_the_page(wheel: Path, tmp_path: Path) -> None:
    # By the same Python as ours, so that the kernels of the other tests will do for it.
    subprocess.run([base_python(), "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    (packages,) = (tmp_path / "venv").glob("lib/*/site-packages")
    python = tmp_path / "venv" / "bin" / "python"
    pip = [sys.executable, "-m", "pip", f"--python={python}", "install", "--quiet"]
    subprocess.run([*pip, "--no-deps", "--no-index", wheel], check=True)
    # What it depends on is here already. Nothing in that folder leads to the sources: it is only looked in.
    (beside,) = Path(sys.prefix).glob("lib/*/site-packages")
    (packages / "beside.pth").write_text(f"{beside}\n")
    gateway = Gateway(tmp_path / "data", spares="0")
    # Else it would find the sources, in the current folder.
    gateway.environ = {"PATH": "/nowhere", "PYTHONSAFEPATH": "1"}
    gateway.python = str(python)
    gateway.start()
    try:
        for path in ("/", "/embed/s-1", "/frame"):
            answer = httpx.get(gateway.url + path, trust_env=False)
            assert answer.status_code == 200
            assert "/assets/" in answer.text
        # And where it is not built, it says what to do.
        (packages / WEB / "dist").rename(tmp_path / "away")
        answer = httpx.get(f"{gateway.url}/", trust_env=False)
        assert answer.status_code == 503
        assert "make serve" in answer.text
        assert httpx.get(f"{gateway.url}/healthz", trust_env=False).status_code == 200
    finally:
        gateway.end()
