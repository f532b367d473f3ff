"""The folders of kernel-images agree with each other, with the settings, and with the wheel."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from interpreter.config import DEFAULT_ENVIRONMENTS
from interpreter.runtimes import images
from interpreter.runtimes.kernel_environment import KERNEL_REQUIREMENTS

ROOT = Path(__file__).parents[2]
FOLDERS = [images.folder() / name for name in images.names()]


def lines(path: Path) -> list[str]:
    return [line for line in path.read_text().splitlines() if line and not line.startswith("#")]


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def wanted(path: Path) -> list[str]:
    """The lines of a packages.txt and of those it refers to."""
    found = []
    for line in lines(path):
        if line.startswith("-r "):
            found += wanted(path.parent / line.removeprefix("-r "))
        else:
            found.append(line)
    return found


def test_there_are_the_images_that_are_promised() -> None:
    assert images.names() == ["datascience", "python"]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda f: f.name)
def test_every_package_is_pinned_to_what_was_wanted(folder: Path) -> None:
    pins = {}
    for line in lines(folder / "requirements.txt"):
        match = re.fullmatch(r"([a-z0-9-]+)==([\w.+]+)", line)
        assert match, line
        pins[match[1]] = match[2]
    for package in wanted(folder / "packages.txt"):
        name, _, version = package.partition("==")
        assert plain(name) in pins, package
        assert version in ("", pins[plain(name)]), package


def test_the_python_image_is_the_default_environment() -> None:
    default = DEFAULT_ENVIRONMENTS["python"]
    folder = images.folder() / "python"
    assert wanted(folder / "packages.txt") == [*KERNEL_REQUIREMENTS, *default.packages]
    preload = f'{images.PRELOAD_LABEL}="{" ".join(default.preload)}"'
    assert preload in (folder / "Dockerfile").read_text()


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda f: f.name)
def test_a_dockerfile_asks_for_nothing_that_an_old_engine_lacks(folder: Path) -> None:
    text = (folder / "Dockerfile").read_text()
    assert "ARG BASE=python:3.11-slim\n" in text
    assert f'{images.NAME_LABEL}="{folder.name}"' in text
    assert not re.search(r"^# *syntax|<<|--mount", text, re.M)
    # After the first stage nothing is copied but what that installed.
    last = text.rpartition("\nFROM ")[2]
    assert all(line.startswith("COPY --from=installed ") for line in re.findall(r"^COPY.*", last, re.M))
    assert "/build" not in last


def test_the_wheel_brings_the_folders_along(tmp_path: Path) -> None:
    # From a copy, because a build leaves its work beside the source.
    source = tmp_path / "source"
    tracked = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout.split("\0")  # fmt: skip
    for name in filter(None, tracked):
        if (ROOT / name).is_file() and not name.startswith("tests/"):
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "-w",
        str(tmp_path),
        str(source),
    ]
    subprocess.run(command, check=True, capture_output=True)
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        names = {name.partition(".data/data/share/interpreter/")[2] for name in packed.namelist()}
    for path in images.folder().rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            assert str(path.relative_to(ROOT)) in names
