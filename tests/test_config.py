"""Settings from three sources, and where each value came from."""

from __future__ import annotations

from pathlib import Path

import pytest

from interpreter.config import load
from interpreter.errors import ConfigurationError


def test_flags_win_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "interpreter.toml"
    file.write_text('port = 1\nhost = "::1"\n[limits]\nmemory_mb = 200\ncpus = 2.0\n')
    environ = {"INTERPRETER_PORT": "2", "INTERPRETER_LIMITS__CPUS": "3", "INTERPRETER_URL": "ignored"}
    loaded = load({"port": 3, "token": None}, environ, file)
    assert (loaded.config.port, loaded.config.host) == (3, "::1")
    assert (loaded.config.limits.memory_mb, loaded.config.limits.cpus) == (200, 3.0)
    assert loaded.config.limits.processes == 256, "what is not said stays at its default"
    assert loaded.origins == {
        "port": "--port",
        "host": str(file),
        "limits.memory_mb": str(file),
        "limits.cpus": "INTERPRETER_LIMITS__CPUS",
    }


def test_a_maximum_leaves_the_others_as_they_are(tmp_path: Path) -> None:
    config = load({}, {"INTERPRETER_MAXIMUMS__CPUS": "16"}).config
    assert (config.maximums.cpus, config.maximums.memory_mb) == (16.0, 16384)
    assert (config.limits.disk_mb, config.maximums.disk_mb) == (4096, 102400)


def test_environments_of_the_file_are_added_to_the_built_in_ones(tmp_path: Path) -> None:
    file = tmp_path / "interpreter.toml"
    file.write_text('[environments.small]\npackages = ["numpy"]\n')
    config = load({}, {}, file).config
    assert set(config.environments) == {"python", "small"}
    assert config.environments["small"].packages == ["numpy"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("port = 99999", "port"),
        ("prot = 1", "prot"),
        ('runtime = "cloud"', "cloud"),
        ("[limits]\nmemory_mb = 1", "memory_mb"),
        ("[limits]\ndisk_mb = 15", "disk_mb"),
        ('default_environment = "r"', "default_environment"),
        ("port = [", "not valid TOML"),
    ],
)
def test_a_wrong_setting_is_named(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "interpreter.toml"
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=words) as caught:
        load({}, {}, file)
    assert caught.value.hint


def test_a_file_that_was_asked_for_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no configuration file"):
        load({}, {"INTERPRETER_CONFIG": str(tmp_path / "none.toml")})
