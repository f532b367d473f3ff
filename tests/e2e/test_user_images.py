"""Any image with a kernel in it works: with an older ipykernel, another Python, another language."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from tests import user_images
from tests.conftest import Gateway
from tests.environments import configured, refusal, session

SETTINGS = """
[environments.older]
image = "{older}"
[environments.newer]
image = "{newer}"
[environments.bash]
image = "{older}"
kernel = "bash"
"""
PYTHONS = {"older": "(3, 11)", "newer": "(3, 13)"}


@pytest.fixture(scope="module")
def older(engine: docker.APIClient) -> str:
    return user_images.build(engine, "older", user_images.OLDER)


@pytest.fixture(scope="module")
def gateway(engine: docker.APIClient, older: str, data_root: Path) -> Iterator[Gateway]:
    newer = user_images.debian_13(engine)
    with configured(data_root, SETTINGS.format(older=older, newer=newer)) as gateway:
        yield gateway


@pytest.mark.parametrize("environment", PYTHONS)
def test_an_older_ipykernel_is_started_the_ordinary_way(gateway: Gateway, environment: str) -> None:
    with session(gateway, environment) as cells:
        cells.text("import ipykernel, os, sys\nx = 6; open('kept', 'w').write('here')")
        assert cells.text("x * 7, sys.version_info[:2]") == f"(42, {PYTHONS[environment]})"
        assert cells.text("ipykernel.__version__").startswith("'6.")
        assert cells.text("os.getuid(), os.getcwd()") == "(1000, '/workspace')"
        assert cells.text("'pandas' in sys.modules") == "False", "nothing was imported beforehand"
        result = cells.run("import time\ntime.sleep(60)", timeout=1)
        assert (result["status"], result["error"]["ename"]) == ("timeout", "KeyboardInterrupt")
        assert cells.text("x") == "6"
        cells.restart()
        assert cells.text("'x' in globals(), open('kept').read()") == "(False, 'here')"


def test_a_kernel_that_was_not_forked_says_why_it_died_and_the_session_goes_on(gateway: Gateway) -> None:
    with session(gateway, "older") as cells:
        result = cells.run("import os; os._exit(3)")
        assert result["status"] == "lost"
        assert "exited with code 3" in result["reason"]
        assert cells.text("6 * 7") == "42"


def test_another_kernel_of_an_image_by_its_name(gateway: Gateway) -> None:
    with session(gateway, "bash") as cells:
        cells.text("x=6; echo kept > file")
        assert cells.text("echo $((x * 7)) $(cat file) $PWD").strip() == "42 kept /workspace"
        assert cells.run("sleep 60", timeout=1)["status"] == "timeout"
        assert cells.text("echo $x").strip() == "6"
        assert "No such file or directory" in cells.run("cat nothing")["text"]
        cells.restart()
        assert cells.text("echo $((x + 1)) $(cat file)").strip() == "1 kept"


def test_a_kernel_that_an_image_does_not_have_is_an_error_at_start(
    engine: docker.APIClient, older: str, data_root: Path
) -> None:
    said = refusal(data_root, f'[environments.r]\nimage = "{older}"\nkernel = "ir"\n')
    assert "The image of the environment 'r' has no kernel 'ir'." in said
    assert "It has: bash, python3." in said


def test_an_image_that_is_not_there_is_an_error_at_start(
    engine: docker.APIClient, data_root: Path
) -> None:
    said = refusal(data_root, '[environments.odd]\nimage = "no-such.invalid/image:1"\n')
    assert "There is no image 'no-such.invalid/image:1' in the engine." in said
