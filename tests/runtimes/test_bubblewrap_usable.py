"""Whether bubblewrap can be used is found out by using it, and told with a reason."""

from __future__ import annotations

from pathlib import Path

import pytest
from probing import prepared

from interpreter.errors import ConfigurationError


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the whole PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


async def test_without_bubblewrap_the_settings_cannot_be_met(programs: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="bubblewrap is not installed") as caught:
        await prepared(tmp_path / "data", "bubblewrap")
    assert "apt install bubblewrap" in caught.value.hint


async def test_without_bubblewrap_auto_means_none_and_says_why(programs: Path, tmp_path: Path) -> None:
    runtime = await prepared(tmp_path / "data", "auto")
    assert runtime.isolation == "none"
    assert runtime.not_isolated_because == "bubblewrap is not installed"


async def test_a_bubblewrap_that_fails_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "bwrap"
    program.write_text("#!/bin/sh\necho bwrap: No permissions to create new namespace >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    runtime = await prepared(tmp_path / "data", "auto")
    assert runtime.isolation == "none"
    assert runtime.not_isolated_because is not None
    assert "No permissions to create new namespace" in runtime.not_isolated_because


async def test_isolation_can_be_switched_off(tmp_path: Path) -> None:
    runtime = await prepared(tmp_path / "data", "none")
    assert runtime.isolation == "none"
    assert runtime.not_isolated_because == "isolation is switched off in the settings"


async def test_trying_leaves_nothing(tmp_path: Path) -> None:
    runtime = await prepared(tmp_path / "data", "auto")
    assert runtime.isolation == "bubblewrap"
    assert [p.name.split("-")[0] for p in (tmp_path / "data").iterdir()] == ["payload"]
