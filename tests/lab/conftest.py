"""JupyterLab on a session of a live gateway, and a browser to look at it with."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.conftest import Gateway

QUIET = [
    "--no-sandbox",
    "--no-first-run",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    # The browser finds no machine but this one, whatever a page asks for.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]


class Lab:
    """`interpreter lab` in a process of its own."""

    def __init__(self, gateway: Gateway, home: Path, *arguments: str) -> None:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("INTERPRETER_", "JUPYTER_"))}
        environment = kept | {
            "INTERPRETER_URL": gateway.url,
            "INTERPRETER_DATA_DIR": str(gateway.data),
            "HOME": str(home),
            "JUPYTER_CONFIG_DIR": str(home / "config"),
            "JUPYTER_DATA_DIR": str(home / "data"),
            "JUPYTER_RUNTIME_DIR": str(home / "run"),
            "TMPDIR": str(home),
        }
        self.log = home / "lab.log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "interpreter.cli", "lab", "--no-browser", *arguments],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        deadline = time.monotonic() + 120
        while "Ctrl-C" not in (said := self.log.read_text()):
            assert self.process.poll() is None, said
            assert time.monotonic() < deadline, said
            time.sleep(0.05)
        found = re.search(r"(http://127\.0\.0\.1:\d+)(/lab/\S+)\?token=(\w+)", said)
        assert found is not None, said
        self.base, self.path, self.token = found.groups()
        self.session = self.path.rpartition("/")[2].removesuffix(".ipynb")
        """The name of the session, or its id if it has none."""
        self.url = f"{self.base}{self.path}?token={self.token}"

    def client(self, **headers: str) -> httpx.Client:
        """As the page asks."""
        given = headers or {"Authorization": f"token {self.token}"}
        return httpx.Client(base_url=self.base, headers=given, timeout=120, trust_env=False)

    def interrupt(self) -> str:
        """Ends it with Ctrl-C; what it has said."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        assert self.process.wait(60) == 0, self.log.read_text()
        return self.log.read_text()


class Labs:
    """Starts them, and ends those that are left."""

    def __init__(self, gateway: Gateway, folder: Path) -> None:
        self.gateway = gateway
        self.folder = folder
        self.started: list[Lab] = []

    def open(self, *arguments: str, home: Path | None = None) -> Lab:
        home = home or self.folder / str(len(self.started))
        home.mkdir(exist_ok=True)
        self.started.append(Lab(self.gateway, home, *arguments))
        return self.started[-1]


@pytest.fixture
def labs(gateway: Gateway, tmp_path: Path) -> Iterator[Labs]:
    labs = Labs(gateway, tmp_path)
    yield labs
    for lab in labs.started:
        lab.interrupt()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = shutil.which("chromium")
    assert path is not None, "tests/packages installs chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=QUIET)
        yield browser
        browser.close()
