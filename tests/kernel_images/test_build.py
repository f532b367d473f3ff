"""Kernel images: built with what this machine needs for it, and nothing of that is in them."""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from interpreter.errors import ConfigurationError
from interpreter.runtimes import base_image, debian_base, images
from interpreter.runtimes.build_steps import Step
from interpreter.runtimes.images import KernelImage
from tests.cli.terminal import Terminal, environment, interpreter
from tests.kernel_images.containers import SavedImage, run
from tests.kernel_images.mirror import Mirror


@pytest.fixture
def tiny(
    engine: docker.APIClient, tmp_path: Path, mirror: Mirror, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """The Python image's own Dockerfile with next to nothing to install, from a mirror."""
    root = tmp_path / "kernel-images"
    shutil.copytree(images.folder() / "python", root / "tiny")
    dockerfile = root / "tiny" / "Dockerfile"
    dockerfile.write_text(dockerfile.read_text().replace('build="python"', 'build="tiny"'))
    (root / "tiny" / "requirements.txt").write_text("matplotlib==0.0.1\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", mirror.url)
    monkeypatch.setenv("PIP_CERT", str(mirror.certificate))
    monkeypatch.setenv("PIP_TRUSTED_HOST", "secret-host.invalid")
    monkeypatch.setenv("no_proxy", "127.0.0.1,secret-proxy.invalid")
    yield root
    for left in engine.images(filters={"label": "org.interpreter.build=tiny", "dangling": True}):
        engine.remove_image(left["Id"])


def test_the_python_image_works_for_a_user_without_network_or_a_writable_root(
    engine: docker.APIClient, python_image: KernelImage
) -> None:
    code = """
import getpass, json, os, shutil, sys
import ipykernel, matplotlib.pyplot, numpy, pandas
from jupyter_client.kernelspec import KernelSpecManager
print(json.dumps({
    "user": [os.getuid(), getpass.getuser()],
    "python": [shutil.which("python"), *sys.version_info[:2]],
    "kernelspec": KernelSpecManager().get_kernel_spec("python3").argv[0],
    "compiled": all(os.path.exists(m.__cached__) for m in (numpy, pandas, ipykernel, json)),
    "fonts": bool(os.listdir("/opt/kernel/matplotlib-cache")),
}))
"""
    assert json.loads(run(engine, python_image.id, "python", "-c", code)) == {
        "user": [1000, "sandbox"],
        "python": ["/opt/kernel/bin/python", 3, 11],
        "kernelspec": "python",
        "compiled": True,
        "fonts": True,
    }
    assert "No broken requirements" in run(engine, python_image.id, "pip", "check")
    assert (
        run(engine, python_image.id, "find", "/usr", "/opt", "-xdev", "-perm", "/6000", "-type", "f")
        == ""
    )


def test_its_layers_hold_the_kernel_and_little_else(
    engine: docker.APIClient, python_image: KernelImage
) -> None:
    saved = SavedImage(engine, python_image.tags[0])
    base = saved.files_of_the_base()
    added = {
        name
        for name in saved.files_over_the_base() - base
        if not name.startswith(("opt/kernel/", "usr/lib/python3"))
    }
    assert added == set()
    # What mmdebstrap copies from the machine it runs on is gone from the base.
    assert not base & {"etc/hostname", "etc/resolv.conf", "etc/apt/apt.conf.d/99mmdebstrap"}


def test_a_mirror_of_the_host_is_used_and_leaves_no_trace(
    engine: docker.APIClient, tiny: Path, mirror: Mirror
) -> None:
    image = images.build(engine, "tiny", "debian", print, tiny)
    try:
        assert any(path.endswith("matplotlib-0.0.1-py3-none-any.whl") for path in mirror.asked)
        saved = SavedImage(engine, "interpreter/tiny:latest")
        described = json.dumps([engine.inspect_image(image.id), engine.history(image.id)])
        assert saved.contains("# from the mirror")
        address = mirror.url.split("/")[2]
        for trace in ("secret", address, "/build"):
            assert trace not in described, trace
        certificate = mirror.certificate.read_text().splitlines()[5]
        for trace in ("secret-index", "secret-host", "secret-proxy", address, certificate):
            assert not saved.contains(trace), trace
    finally:
        for tag in image.tags:
            engine.remove_image(tag)


def test_a_build_that_fails_says_why(engine: docker.APIClient, tiny: Path) -> None:
    (tiny / "tiny" / "requirements.txt").write_text("no-such-package==1.0\n")
    with pytest.raises(ConfigurationError) as failed:
        images.build(engine, "tiny", "debian", print, tiny)
    assert "No matching distribution found for no-such-package==1.0" in failed.value.message
    assert "It returned a non-zero code: 1" in failed.value.message
    assert "PIP_INDEX_URL" in failed.value.hint
    assert engine.containers(all=True, filters={"label": "org.interpreter.build=tiny"}) == []
    with pytest.raises(ConfigurationError, match=r"FROM \$BASE[^$]*no-such.invalid"):
        images.build(engine, "python", "no-such.invalid/base", print)
    with pytest.raises(ConfigurationError, match="There is no kernel image 'nonsense'"):
        images.build(engine, "nonsense", "debian", print)


def test_a_build_tells_how_far_it_is(engine: docker.APIClient, python_image: KernelImage) -> None:
    told: list[Step] = []
    again = images.build(engine, "python", "debian", told.append)
    assert again.id == python_image.id
    assert [step.number for step in told] == list(range(told[0].of))
    assert "installing packages" in {step.doing for step in told}


def test_an_image_that_is_replaced_is_removed(
    engine: docker.APIClient, python_image: KernelImage, tmp_path: Path
) -> None:
    shutil.copytree(images.folder() / "python", tmp_path / "replaced")
    dockerfile = tmp_path / "replaced" / "Dockerfile"
    text = dockerfile.read_text()
    built = []
    for title in ("first", "second"):
        dockerfile.write_text(text.replace("Interpreter: Python", title))
        built.append(images.build(engine, "replaced", "debian", print, tmp_path))
    try:
        there = {image["Id"] for image in engine.images(all=True)}
        assert [image.id in there for image in (*built, python_image)] == [False, True, True]
    finally:
        for tag in built[-1].tags:
            engine.remove_image(tag)


def test_a_registry_that_does_not_answer_is_given_up(engine: docker.APIClient) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        registry = f"127.0.0.1:{silent.getsockname()[1]}/python"
        assert not base_image.pull(engine, registry, "3.11-slim", print, silence=1)


def test_the_base_that_was_made_is_used_again(
    engine: docker.APIClient, python_image: KernelImage
) -> None:
    told: list[str] = []
    assert base_image.choose(engine, "debian", told.append) == debian_base.IMAGE
    assert base_image.choose(engine, "auto", told.append) in (debian_base.IMAGE, base_image.PYTHON)
    assert base_image.choose(engine, "own/base", told.append) == "own/base"
    assert told == []


def test_a_missing_mmdebstrap_is_told(engine: docker.APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debian_base, "IMAGE", "interpreter/base:none")
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(ConfigurationError) as missing:
        base_image.choose(engine, "debian", print)
    assert "apt install mmdebstrap" in missing.value.hint


def test_commands_build_and_list(python_image: KernelImage, tmp_path: Path) -> None:
    built = interpreter("images", "build", "python", "--base", "debian", env=environment(), cwd=tmp_path)
    assert built.stdout.startswith("built interpreter/python, ")
    assert "python 5/" in built.stderr

    listed = json.loads(interpreter("images", "list", "--json", env=environment(), cwd=tmp_path).stdout)
    [image] = [one for one in listed["images"] if one["id"] == python_image.id]
    assert image["name"] == "python"
    assert "interpreter/python:latest" in image["tags"]
    assert image["base"] == debian_base.IMAGE
    assert image["preload"] == ["numpy", "pandas", "matplotlib.pyplot"]
    table = interpreter("images", "list", env=environment(), cwd=tmp_path).stdout
    assert "interpreter/python:latest" in table

    with Terminal(
        ["images", "build", "python", "--base", "debian"], environment(), tmp_path
    ) as terminal:
        terminal.expect("built interpreter/python")
        assert "━" in terminal.raw


@pytest.mark.parametrize("command", [["build"], ["list"]])
def test_without_an_engine_commands_say_so(command: list[str], tmp_path: Path) -> None:
    env = environment(DOCKER_HOST="unix:///nonexistent/docker.sock")
    done = interpreter("images", *command, env=env, cwd=tmp_path)
    assert done.returncode == 3
    assert done.stderr.startswith("error: No Docker engine answers")
    assert "DOCKER_HOST" in done.stderr
    assert "Traceback" not in done.stderr
