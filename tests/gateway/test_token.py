"""The start of a gateway: its token, what it says, and when it refuses to start at all."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.conftest import KERNELS, Gateway

Start = Callable[..., Gateway]


@pytest.fixture
def data(data_root: Path) -> Path:
    """A data directory that does not exist yet."""
    return Path(tempfile.mkdtemp(dir=data_root)) / "data"


@pytest.fixture
def start(data: Path) -> Iterator[Start]:
    """Starts a gateway without spares on the test's data directory."""
    started: list[Gateway] = []

    def start(*flags: str, **settings: str) -> Gateway:
        gateway = Gateway(data, *flags, spares="0", **settings)
        started.append(gateway)
        return gateway.start()

    yield start
    for gateway in started:
        end(gateway)


def end(gateway: Gateway) -> None:
    """Stops a gateway that has no sessions, whatever its token is."""
    if gateway.process is not None and gateway.process.poll() is None:
        gateway.process.send_signal(signal.SIGTERM)
        assert gateway.process.wait(30) == 0


def refuse(data: Path, *flags: str, **settings: str) -> str:
    """What a gateway says that does not start."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("INTERPRETER_")}
    environment |= {f"INTERPRETER_{k.upper()}": v for k, v in settings.items()}
    environment |= {"INTERPRETER_KERNELS_DIR": KERNELS, "INTERPRETER_SPARES": "0"}
    environment |= {"INTERPRETER_RUNTIME": "embedded"}
    ended = subprocess.run(
        [sys.executable, "-m", "interpreter.cli", "serve", "--data-dir", str(data), *flags],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        cwd=data.parent,
    )
    said = ended.stdout + ended.stderr
    assert ended.returncode == 3, said
    assert "error: " in said
    assert "Traceback" not in said
    return " ".join(said.split())


def knows(gateway: Gateway, token: str) -> bool:
    headers = {"Authorization": f"Bearer {token}"}
    answer = httpx.get(f"{gateway.url}/v1/sessions", headers=headers, trust_env=False)
    return answer.status_code == 200


def test_the_token_is_made_at_first_start_and_kept(start: Start, data: Path) -> None:
    gateway = start()
    token = gateway.token
    assert len(token) >= 40
    assert stat.S_IMODE((data / "token").stat().st_mode) == 0o600
    assert stat.S_IMODE(data.stat().st_mode) == 0o700
    assert knows(gateway, token)
    end(gateway)
    (data / "token").chmod(0o644)
    gateway = start()
    assert gateway.token == token
    assert knows(gateway, token)
    assert stat.S_IMODE((data / "token").stat().st_mode) == 0o600


def test_a_token_from_the_settings_is_used_and_not_kept(start: Start, data: Path) -> None:
    gateway = start(token="from-the-environment")
    assert knows(gateway, "from-the-environment")
    assert not (data / "token").exists()
    end(gateway)
    gateway = start("--token", "from-the-flag-[red]", token="from-the-environment")
    assert knows(gateway, "from-the-flag-[red]")
    assert not knows(gateway, "from-the-environment")
    assert "from-the-flag-[red]" in gateway.log.read_text()


def test_the_greeting_says_where_who_and_how_isolated(start: Start) -> None:
    gateway = start()
    said = gateway.log.read_text().splitlines()
    (where,) = [line for line in said if line.strip().startswith("url")]
    (who,) = [line for line in said if gateway.token in line]
    assert f"{gateway.url}/?token={gateway.token} " in who, "an address that logs in"
    (isolation,) = [line for line in said if line.strip().startswith("sessions")]
    assert gateway.url in where
    assert str(gateway.data / "token") in who
    kind = httpx.get(f"{gateway.url}/healthz", trust_env=False).json()["isolation"]
    assert ("isolated by bubblewrap" if kind == "bubblewrap" else "not isolated") in isolation.lower()


def test_the_token_is_in_the_log_once(start: Start) -> None:
    gateway = start("--token", "a-token-to-look-for")
    with httpx.Client(base_url=gateway.url, trust_env=False) as client:
        client.get("/v1/sessions", params={"token": "a-token-to-look-for"})
        client.get("/nothing", params={"token": "a-token-to-look-for"})
        client.get("/v1/sessions", headers={"Authorization": "Bearer a-token-to-look-fo"})
        (gateway.data / "workspaces").touch()
        query = {"token": "a-token-to-look-for"}
        assert client.post("/v1/sessions", params=query).status_code == 500
    end(gateway)
    log = gateway.log.read_text()
    assert "request failed" in log
    assert log.count("a-token-to-look-fo") == 1


def test_a_gateway_without_isolation_warns_in_words_nobody_can_miss(start: Start) -> None:
    gateway = start(isolation="none")
    said = gateway.log.read_text()
    assert "WARNING" in said
    assert "SESSIONS ARE NOT ISOLATED" in said
    assert httpx.get(f"{gateway.url}/healthz", trust_env=False).json()["isolation"] == "none"


def test_a_gateway_without_isolation_stays_on_loopback(data: Path) -> None:
    said = refuse(data, "--host", "0.0.0.0", "--port", "0", isolation="none")
    assert "not isolated" in said
    assert "0.0.0.0" in said
    assert "--host 127.0.0.1" in said


def test_a_data_directory_has_one_gateway(start: Start, data: Path) -> None:
    gateway = start()
    said = refuse(data, "--port", "0")
    assert "Another gateway already uses" in said
    assert "--data-dir" in said
    assert knows(gateway, gateway.token), "the first one does not notice"


def test_a_port_in_use_is_a_clear_error(data: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = refuse(data, "--port", str(port))
    assert f"127.0.0.1:{port}" in said
    assert "in use" in said
    assert "--port" in said


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--token", "short"], "at least 8"),
        (["--token", "not-äscii-token"], "ASCII"),
        (["--host", "no.such.host.invalid"], "no.such.host.invalid"),
        (["--port", "70000"], "port"),
    ],
)
def test_a_setting_that_cannot_work_is_a_clear_error(data: Path, flags: list[str], words: str) -> None:
    assert words in refuse(data, *flags)


def test_an_empty_token_file_is_a_clear_error(data: Path) -> None:
    data.mkdir(mode=0o700)
    (data / "token").touch()
    assert "Delete it" in refuse(data, "--port", "0")
