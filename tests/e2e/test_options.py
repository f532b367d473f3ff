"""Options of an environment: each does what it says, or the gateway does not start and says why."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from tests.environments import Cells, configured, refusal, session

IMAGE = 'image = "interpreter/python"\n'


@pytest.fixture(scope="module")
def folders(data_root: Path) -> Iterator[Path]:
    """`allowed` with a file, a link out of it and a file system below it; `secret` beside it."""
    root = data_root / "mounted"
    (root / "allowed/public/below").mkdir(parents=True)
    (root / "secret").mkdir()
    (root / "secret/key").write_text("not for sessions")
    (root / "allowed/public/data.csv").write_text("a,b\n1,2\n")
    (root / "allowed/public/data.csv").chmod(0o666)
    (root / "allowed/way-out").symlink_to(root / "secret")
    (root / "allowed/inner").symlink_to(root / "allowed/public")
    for path in (root, root / "allowed", root / "allowed/public", root / "secret"):
        path.chmod(0o777)
    below = root / "allowed/public/below"
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=1777", "tmpfs", below], check=True)
    yield root
    subprocess.run(["umount", below], check=True)


def mounting(folders: Path, *mounts: str) -> str:
    return (
        f'allowed_mounts = ["{folders}/allowed"]\n'
        f"[environments.mounting]\n{IMAGE}mounts = {[m.format(folders) for m in mounts]}\n"
    )


@pytest.fixture(scope="module")
def cells(engine: docker.APIClient, data_root: Path, folders: Path) -> Iterator[Cells]:
    settings = mounting(folders, "{}/allowed/inner:/data/public", "{}/allowed/public/data.csv:/data.csv")
    with configured(data_root, settings) as gateway, session(gateway, "mounting") as cells:
        yield cells


def test_a_mount_is_seen(cells: Cells) -> None:
    assert cells.text("open('/data/public/data.csv').read()") == repr("a,b\n1,2\n")
    assert cells.text("open('/data.csv').read()") == repr("a,b\n1,2\n")


def test_a_mount_cannot_be_written(cells: Cells, folders: Path) -> None:
    attempts = (
        "import os\nwritten = []\n"
        "for work in (lambda: open('/data/public/new', 'w'), lambda: open('/data/public/data.csv', 'a'),\n"
        "             lambda: os.remove('/data/public/data.csv'), lambda: open('/data.csv', 'a'),\n"
        "             lambda: open('/data/public/below/new', 'w')):\n"
        "    try: work(); written.append(1)\n"
        "    except OSError as e: assert 'Read-only' in str(e), e\n"
        "written"
    )
    assert cells.text(attempts) == "[]"
    assert sorted(os.listdir(folders / "allowed/public")) == ["below", "data.csv"]


@pytest.mark.parametrize(
    ("mount", "problem"),
    [
        ("{}/allowed/way-out:/data", "/secret), which is below none of allowed_mounts"),
        ("{}/allowed/nothing:/data/public", "bind source path does not exist"),
    ],
)
def test_a_mount_that_cannot_be_is_an_error_at_start(
    engine: docker.APIClient, data_root: Path, folders: Path, mount: str, problem: str
) -> None:
    said = refusal(data_root, mounting(folders, mount))
    assert "The environment 'mounting'" in said
    assert problem in said


def test_an_unknown_oci_runtime_is_an_error_at_start(engine: docker.APIClient, data_root: Path) -> None:
    said = refusal(data_root, f'[environments.odd]\n{IMAGE}oci_runtime = "nonsense"\n')
    assert "The environment 'odd' wants the OCI runtime 'nonsense', and the engine has " in said
    for name in engine.info()["Runtimes"]:
        assert name in said


def test_an_engine_that_does_not_remap_users_is_an_error_at_start(
    engine: docker.APIClient, data_root: Path
) -> None:
    said = refusal(data_root, f"[environments.remapped]\n{IMAGE}userns = true\n")
    assert "The environment 'remapped' wants users remapped, and the engine does not do that." in said


def test_gpus_that_the_engine_does_not_have_are_an_error_at_start(
    engine: docker.APIClient, data_root: Path
) -> None:
    """There is no GPU where the tests run; that a request is passed on shows in the engine's refusal."""
    said = refusal(data_root, f'[environments.gpu]\n{IMAGE}gpus = "all"\n')
    assert "The environment 'gpu' cannot be run here: could not select device driver" in said
    assert "[[gpu]]" in said
