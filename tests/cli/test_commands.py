"""What a command says and how it ends where there is no gateway to be asked."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from .terminal import COMMAND, ROOT, environment, interpreter

NOWHERE = environment(INTERPRETER_URL="http://127.0.0.1:9", INTERPRETER_TOKEN="t")


@pytest.mark.parametrize(
    "command",
    [
        ["run", "1"],
        ["sessions"],
        ["sessions", "delete", "x"],
        ["delete", "x"],
        ["logs", "x"],
        ["interrupt", "x"],
        ["restart", "x"],
        ["pause", "x"],
        ["resume", "x"],
        ["stop", "x"],
        ["start", "x"],
        ["contexts", "x"],
        ["exec", "x", "--", "ls", "-l"],
        ["shell", "x"],
        ["workspaces"],
        ["workspaces", "create", "x"],
        ["workspaces", "rm", "x"],
        ["workspaces", "copy", "x", "y"],
        ["workspaces", "archive", "x"],
        ["status"],
    ],
)
def test_without_a_gateway_every_command_says_how_to_start_one(
    command: list[str], tmp_path: Path
) -> None:
    done = interpreter(*command, env=NOWHERE, cwd=tmp_path)
    assert done.returncode == 3
    assert done.stdout == ""
    assert done.stderr.startswith("error: No gateway answers at http://127.0.0.1:9.\n")
    assert "interpreter serve" in done.stderr


@pytest.mark.parametrize(
    "command",
    [
        ["run"],
        ["run", "1", "-f", "x.py"],
        ["run", "-f", "missing.py"],
        ["run", "1", "--timeout", "soon"],
        ["run", "1", "--env", "A"],
        ["sessions", "--state", "asleep"],
        ["sessions", "--label", "a"],
        ["repl"],
        ["nonsense"],
        ["serve", "--runtime", "nonsense"],
    ],
)
def test_wrong_usage_is_told_apart(command: list[str], tmp_path: Path) -> None:
    done = interpreter(*command, env=NOWHERE, cwd=tmp_path)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_every_command_has_help(tmp_path: Path) -> None:
    listed = interpreter("--help", env=NOWHERE, cwd=tmp_path).stdout
    for command in (
        "serve",
        "repair",
        "run",
        "repl",
        "sessions",
        "delete",
        "logs",
        "interrupt",
        "restart",
        "pause",
        "resume",
        "stop",
        "start",
        "contexts",
        "exec",
        "shell",
        "status",
        "images",
        "config",
    ):
        assert command in listed
        assert interpreter(command, "--help", env=NOWHERE, cwd=tmp_path).returncode == 0


def test_config_shows_every_setting_and_its_origin(tmp_path: Path) -> None:
    (tmp_path / "interpreter.toml").write_text("port = 1234\n[limits]\ncpus = 2\n")
    env = environment(INTERPRETER_TOKEN="secret", INTERPRETER_SPARES="3")
    done = interpreter("config", "--json", env=env, cwd=tmp_path)
    shown = json.loads(done.stdout)
    assert shown["port"] == {"value": 1234, "origin": "interpreter.toml"}
    assert shown["limits.cpus"] == {"value": 2.0, "origin": "interpreter.toml"}
    assert shown["spares"] == {"value": 3, "origin": "INTERPRETER_SPARES"}
    assert shown["host"] == {"value": "127.0.0.1", "origin": "default"}
    assert "secret" not in done.stdout

    table = interpreter("config", env=env, cwd=tmp_path).stdout
    assert "limits.cpus" in table
    assert "secret" not in table


def test_a_wrong_setting_is_one_sentence(tmp_path: Path) -> None:
    done = interpreter("config", env=environment(INTERPRETER_PORT="none"), cwd=tmp_path)
    assert done.returncode == 3
    assert done.stderr.startswith("error: A setting is wrong:")


def test_version_is_printed(tmp_path: Path) -> None:
    assert interpreter("version", env=NOWHERE, cwd=tmp_path).stdout.strip()


def test_a_cell_does_not_wait_for_the_imports_of_the_gateway() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *COMMAND[1:], "run", "1"],
        env=NOWHERE,
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    loaded = {line.rsplit("|", 1)[-1].strip() for line in done.stderr.splitlines()}
    assert "httpx" in loaded
    assert not loaded & {
        "tornado",
        "zmq",
        "structlog",
        "prompt_toolkit",
        "asyncio",
        "rich",
        "pygments",
        "docker",
    }
