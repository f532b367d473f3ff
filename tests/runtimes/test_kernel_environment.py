"""Kernel environments are made once, whole, and apart from the gateway's own packages."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest
from probing import KERNELS, prepared

from interpreter.config import DEFAULT_ENVIRONMENTS, Environment
from interpreter.errors import ConfigurationError
from interpreter.runtimes import kernel_environment
from interpreter.runtimes.kernel_environment import KernelEnvironment, ensure


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> Environment:
    """An environment that is quickly made, for it has no packages, not even a kernel's."""
    monkeypatch.setattr(kernel_environment, "KERNEL_REQUIREMENTS", ["pip"])
    return Environment()


def succeeds(environment: KernelEnvironment, code: str) -> bool:
    done = subprocess.run([environment.python, "-c", code], capture_output=True)
    return done.returncode == 0


async def test_the_default_environment_has_its_packages_and_not_the_gateways(tmp_path: Path) -> None:
    await prepared(tmp_path / "data")
    told: list[str] = []
    default = DEFAULT_ENVIRONMENTS["python"]
    environment = await ensure(Path(KERNELS), "python", default, told.append)
    assert told == []
    assert await asyncio.to_thread(succeeds, environment, "import ipykernel, numpy, pandas, matplotlib")
    assert not await asyncio.to_thread(succeeds, environment, "import msgspec")
    assert environment.matplotlib_cache is not None
    assert list(environment.matplotlib_cache.glob("fontlist*"))
    for package in ("numpy", "ipykernel"):
        assert list(environment.path.glob(f"lib/python*/site-packages/{package}/__pycache__/*.pyc"))


async def test_a_half_made_one_is_made_again_and_by_one_gateway_only(
    tmp_path: Path, bare: Environment
) -> None:
    (tmp_path / "bare" / "bin").mkdir(parents=True)
    (tmp_path / "bare" / "rubbish").touch()
    given_up = asyncio.create_task(ensure(tmp_path, "bare", bare, print))
    await asyncio.sleep(0.2)
    given_up.cancel()
    with pytest.raises(asyncio.CancelledError):
        await given_up
    assert not (tmp_path / "bare" / ".complete").exists()
    told: list[str] = []
    one, other = await asyncio.gather(*(ensure(tmp_path, "bare", bare, told.append) for _ in range(2)))
    assert one == other
    assert not (tmp_path / "bare" / "rubbish").exists()
    assert await asyncio.to_thread(succeeds, one, "pass")
    assert sum("making a virtual environment" in line for line in told) == 1
    assert any("another gateway" in line for line in told)
    assert all(line.startswith("making the kernel environment bare: ") for line in told)


async def test_what_cannot_be_installed_is_told_in_pips_words(tmp_path: Path, bare: Environment) -> None:
    with pytest.raises(ConfigurationError, match="no-such-wheel"):
        await ensure(tmp_path, "bare", Environment(packages=["/no-such-wheel.whl"]), print)
    assert not (tmp_path / "bare" / ".complete").exists()


def test_other_packages_are_another_environment() -> None:
    fingerprint = kernel_environment._fingerprint
    assert fingerprint(Environment()) == fingerprint(Environment(preload=["json"]))
    assert fingerprint(Environment()) != fingerprint(Environment(packages=["numpy"]))
