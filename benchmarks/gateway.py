"""A gateway of ours as a user would start it: a process, a port, nothing left afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from benchmarks import kernels
from benchmarks.plain_http import Address, Connection

STOP_SECONDS = 60.0
START_SECONDS = 900.0
"""The first start on a machine installs the kernel environment."""


class Gateway:
    """A running gateway and one plain connection to it."""

    def __init__(self, process: subprocess.Popen[bytes], url: str, token: str) -> None:
        self.pid = process.pid
        self.url, self.token = url, token
        self.address = Address(url, token)
        self._connection = Connection(self.address)

    def close(self) -> None:
        self._connection.close()

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        return self._connection.ask(self.address.request(method, path, body))

    def create(self, **wanted: Any) -> str:
        """A new session's id."""
        return str(self.ask("POST", "/v1/sessions", wanted)["id"])

    def delete(self, session: str) -> None:
        self.ask("DELETE", f"/v1/sessions/{session}")

    def run(self, session: str, code: str) -> Any:
        return self._connection.ask(self.cell(session, code))

    def cell(self, session: str, code: str) -> bytes:
        """The request that runs a cell."""
        return self.address.request("POST", f"/v1/sessions/{session}/executions", {"code": code})


@contextmanager
def folder(settings_file: str = "") -> Iterator[str]:
    """A folder for a gateway's data, with a settings file in it."""
    with tempfile.TemporaryDirectory(prefix="interpreter-bench-") as place:
        Path(place, "interpreter.toml").write_text(settings_file)
        yield place


@contextmanager
def running(settings_file: str = "", **settings: str) -> Iterator[Gateway]:
    """A gateway whose sessions end with it, so that stopping it is all there is to clean up."""
    with (
        folder(settings_file) as place,
        _process(Path(place), on_shutdown="stop", **settings) as gateway,
    ):
        yield gateway


class Restarted:
    """A gateway that is started again and again; its sessions stay."""

    def __init__(self, place: Path) -> None:
        self._place = place

    @contextmanager
    def started(self) -> Iterator[Gateway]:
        with _process(self._place, on_shutdown="keep") as gateway:
            yield gateway


@contextmanager
def _process(place: Path, **settings: str) -> Iterator[Gateway]:
    data, log = place / "data", place / "log"
    environ = {k: v for k, v in os.environ.items() if not k.startswith("INTERPRETER_")}
    places = {"kernels_dir": str(kernels.folder()), "data_dir": str(data), "port": "0"}
    given = {"runtime": "embedded", **places, **settings}
    environ |= {f"INTERPRETER_{name.upper()}": value for name, value in given.items()}
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "interpreter.cli", "serve"],
            env=environ, cwd=place, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=file, stderr=file,
        )  # fmt: skip
    try:
        url = _url(process, log)
        with closing(Gateway(process, url, (data / "token").read_text().strip())) as gateway:
            yield gateway
    except Exception as e:
        e.add_note(f"The gateway's log:\n{log.read_text()[-8000:]}")
        raise
    finally:
        stop(process)


def stop(process: subprocess.Popen[bytes]) -> None:
    """Asks a server to end, and makes it end when it does not."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _url(process: subprocess.Popen[bytes], log: Path) -> str:
    """Where it listens: it says so when it does."""
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        for line in log.read_text().splitlines():
            if line.startswith("  url "):
                return line.split()[1]
        time.sleep(0.02)
    raise RuntimeError(f"the gateway did not start: {log.read_text()}")
