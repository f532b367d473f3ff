"""Live gateways for the tests: real processes, real sandboxes, nothing left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import docker
import httpx
import psutil
import pytest

import tests.engine
from interpreter.config import DEFAULT_ENVIRONMENTS

PLACES = {
    "embedded": {"runtime": "embedded"},
    "docker": {"runtime": "docker", "link": "socket"},
    "docker-attach": {"runtime": "docker", "link": "attach"},
}
"""Where sandboxes can run, as settings; what is promised of sessions holds in all of them."""
BY_ATTACHING = {
    "test_endings.py",
    "test_execution.py",
    "test_hostile_kernel.py",
    "test_large_output.py",
    "test_lifecycle.py",
    "test_reconnect.py",
    "test_restart_of_the_gateway.py",
    "test_commands_go_on_while_there_is_no_gateway",
    "test_a_flood_costs_no_memory_and_ctrl_c_is_answered",
    "test_a_terminal_outlives_the_gateway",
}
"""What goes through the second link and might go wrong there, files and tests. Named on the command
line, all of it is run on either link: 'python -m pytest tests'."""
NOTHING_LOADED = f"[environments.python]\npackages = {DEFAULT_ENVIRONMENTS['python'].packages}\n"
"""An interpreter.toml: the packages of the default environment, none of them loaded before it is used."""
ABOVE = {"cli", "client", "gateway"}
"""Folders of layers that do not see where sandboxes run. On Docker, too, when named on the command line."""
KERNELS = os.environ.get("INTERPRETER_KERNELS_DIR") or str(Path(sys.prefix) / "kernels")


class Gateway:
    """A gateway in a process of its own, on a free port, with a data directory of its own."""

    def __init__(self, data: Path, *flags: str, **settings: str) -> None:
        self.data = data
        self.flags = flags
        self.settings = settings
        self.environ: dict[str, str] = {}
        """What it has in its environment besides what the tests have."""
        self.python = sys.executable
        """Where it is installed."""
        self.process: subprocess.Popen[bytes] | None = None
        self.log = data.parent / f"{data.name}.log"
        self.url = ""

    def start(self) -> Gateway:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("INTERPRETER_")}
        environment |= {
            "INTERPRETER_KERNELS_DIR": KERNELS,
            "INTERPRETER_DATA_DIR": str(self.data),
            "INTERPRETER_PORT": self.url.rpartition(":")[2] or "0",
            "INTERPRETER_RUNTIME": "embedded",
            **{f"INTERPRETER_{k.upper()}": v for k, v in self.settings.items()},
            **self.environ,
        }
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [self.python, "-m", "interpreter.cli", "serve", *self.flags],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        # The gateway says where it listens when it does.
        with open(self.log) as lines:
            deadline = time.monotonic() + 600
            while True:
                line = lines.readline()
                if "url " in line:
                    self.url = line.split()[1]
                if "sessions " in line:
                    return self
                if not line:
                    if self.process.poll() is not None or time.monotonic() > deadline:
                        raise RuntimeError(f"no gateway: {self.log.read_text()}")
                    time.sleep(0.02)

    @property
    def token(self) -> str:
        return (self.data / "token").read_text().strip()

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    def client(self) -> httpx.Client:
        return httpx.Client(base_url=self.url, headers=self.headers, timeout=120, trust_env=False)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        """Ends it as an operator would; sessions stay."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)

    def stop(self) -> None:
        """Deletes every session, then ends the gateway as an operator would."""
        assert self.process is not None
        if self.process.poll() is None:
            with self.client() as client:
                for session in client.get("/v1/sessions").json()["sessions"]:
                    client.delete(f"/v1/sessions/{session['id']}")
            self.end()

    def memory(self) -> int:
        assert self.process is not None
        return int(psutil.Process(self.process.pid).memory_info().rss)

    def peak_memory(self) -> int:
        """The most it ever had."""
        assert self.process is not None
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) * 1024


@pytest.fixture(scope="session")
def data_root() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="interpreter-tests-") as root:
        yield Path(root)


@pytest.fixture(scope="session")
def engine() -> Iterator[docker.APIClient]:
    """A Docker engine that has the image of the environment `python`."""
    with tests.engine.running() as client:
        yield client


@pytest.fixture(scope="session", params=PLACES)
def place(request: pytest.FixtureRequest) -> dict[str, str]:
    """Where sandboxes run; a test that takes a gateway is run once for each place."""
    if request.param != "embedded":
        request.getfixturevalue("engine")
    return PLACES[request.param]


def pytest_configure(config: pytest.Config) -> None:
    """Ctrl-C reaches what the tests start, also where they are started in the background."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


WITH_ENGINE = {"benchmarks", "chaos", "engines", "kernel_images"}
"""Folders whose tests find an engine by themselves."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--engine",
        choices=("with", "without"),
        help="only tests that need a Docker engine, or only the others: both can run at the same time",
    )


def needs_engine(item: pytest.Item) -> bool:
    called = getattr(item, "callspec", None)
    place = "embedded" if called is None else called.params.get("place", "embedded")
    fixtures = getattr(item, "fixturenames", ())
    return place != "embedded" or "engine" in fixtures or item.path.parent.name in WITH_ENGINE


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of the second link only what goes through it: the rest is the same by either, and takes long."""
    if (engine := config.option.engine) is not None:
        wanted = {item for item in items if needs_engine(item) == (engine == "with")}
        config.hook.pytest_deselected(items=[item for item in items if item not in wanted])
        items[:] = [item for item in items if item in wanted]

    def goes_through(item: pytest.Item) -> bool:
        called = getattr(item, "callspec", None)
        place = "embedded" if called is None else called.params.get("place", "embedded")
        if place == "docker-attach":
            return bool({item.path.name, getattr(item, "originalname", item.name)} & BY_ATTACHING)
        return place == "embedded" or item.path.parent.name not in ABOVE

    left_out = [item for item in items if not goes_through(item)]
    if left_out and not config.option.file_or_dir:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if goes_through(item)]


def only(*places: str) -> pytest.MarkDecorator:
    """For tests of something that not every place has."""
    return pytest.mark.parametrize("place", places, indirect=True)


@pytest.fixture(scope="session")
def gateway(data_root: Path, place: dict[str, str]) -> Iterator[Gateway]:
    """One gateway for all tests that do not change it."""
    name = "-".join(place.values())
    gateway = Gateway(data_root / name, spares="2", **place).start()
    yield gateway
    gateway.stop()


@pytest.fixture
def own_gateway(data_root: Path, place: dict[str, str]) -> Iterator[Gateway]:
    """A gateway of the test's own, not yet started. Where sandboxes run here, nothing is loaded before it is
    used: that takes longer than what most of these tests are about."""
    data = Path(tempfile.mkdtemp(dir=data_root))
    flags: tuple[str, ...] = ()
    if place["runtime"] == "embedded":
        (file := data_root / f"{data.name}.toml").write_text(NOTHING_LOADED)
        flags = ("--config", str(file))
    gateway = Gateway(data, *flags, **place)
    yield gateway
    if gateway.process is not None:
        if gateway.process.poll() is not None:
            gateway.start()
        gateway.stop()


@pytest.fixture
def http(gateway: Gateway) -> Iterator[httpx.Client]:
    with gateway.client() as client:
        yield client


@pytest.fixture
def session(http: httpx.Client) -> Iterator[str]:
    """The id of a new session; it is deleted afterwards."""
    answer = http.post("/v1/sessions")
    assert answer.status_code == 201, answer.text
    yield answer.json()["id"]
    http.delete(f"/v1/sessions/{answer.json()['id']}")


def kill_sandbox(session: str) -> None:
    """Ends every process of a session's sandbox, as nobody would who means well."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("INTERPRETER_SANDBOX") == session:
                process.kill()
