"""A kernelspec that `interpreter kernelspec install` wrote, found by every Jupyter application of the tests."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from jupyter_client.manager import KernelManager, start_new_kernel

from tests.cli.terminal import environment, interpreter
from tests.conftest import Gateway

KERNEL = "sandboxed"


@pytest.fixture(scope="session")
def kernelspecs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that has the kernelspec, and so nothing of it is in the tests' own environment."""
    prefix = tmp_path_factory.mktemp("prefix")
    options = ("--name", KERNEL, "--environment", "python", "--prefix", str(prefix))
    done = interpreter("kernelspec", "install", *options, env=environment(), cwd=prefix)
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).joinpath("kernel.json").is_file()
    return prefix / "share/jupyter"


def at(gateway: Gateway, kernelspecs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Has Jupyter applications find the kernelspec, and their kernels a gateway."""
    for name in [name for name in os.environ if name.startswith("INTERPRETER_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("JUPYTER_PATH", str(kernelspecs))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("INTERPRETER_URL", gateway.url)
    monkeypatch.setenv("INTERPRETER_DATA_DIR", str(gateway.data))


@pytest.fixture
def kernel_name(
    gateway: Gateway, kernelspecs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """The name of a kernelspec; the sessions that a test makes with it are deleted."""
    at(gateway, kernelspecs, tmp_path, monkeypatch)
    with gateway.client() as http:
        before = {s["id"] for s in http.get("/v1/sessions").json()["sessions"]}
        yield KERNEL
        for session in http.get("/v1/sessions").json()["sessions"]:
            if session["id"] not in before:
                http.delete(f"/v1/sessions/{session['id']}")


Kernel = tuple[KernelManager, Any]


@pytest.fixture
def kernel(kernel_name: str) -> Iterator[Kernel]:
    """A kernel of an application: its manager, and a client that is connected."""
    manager, client = start_new_kernel(kernel_name=kernel_name)
    yield manager, client
    client.stop_channels()
    manager.shutdown_kernel(now=True)


@pytest.fixture
def state_of(http: httpx.Client) -> Callable[[KernelManager], str]:
    def state_of(manager: KernelManager) -> str:
        provisioner: Any = manager.provisioner
        return str(http.get(f"/v1/sessions/{provisioner.session_id}").json()["state"])

    return state_of
