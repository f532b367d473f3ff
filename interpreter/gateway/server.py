"""`interpreter serve`: from settings to a listening gateway, and back to nothing."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import structlog
from rich.console import Console
from rich.panel import Panel
from tornado.netutil import bind_sockets

from interpreter import __version__
from interpreter.config import Config, LoadedConfig
from interpreter.errors import ConfigurationError, InterpreterError
from interpreter.gateway.application import Gateway, Server, make_application
from interpreter.gateway.auth import is_loopback, load_token
from interpreter.orchestrator import Orchestrator
from interpreter.runtimes import Runtime, prepared
from interpreter.store import Store

log = structlog.get_logger()
MAX_HEADER = 64 * 1024
NO_LIMIT = 2**62
"""Bodies are bounded by the handlers, who can say so in words."""


def serve(loaded: LoadedConfig) -> int:
    """Runs the gateway until it is told to stop; returns the exit code of the process."""
    _set_up_logging()
    console = Console(stderr=True, highlight=False)
    try:
        with _only_gateway(loaded.config.data_path):
            asyncio.run(_serve(loaded.config, console))
    except InterpreterError as e:
        console.print("error:", style="bold red", end=" ")
        console.print(f"{e.message}\n{e.hint}", markup=False, soft_wrap=True)
        return 3
    return 0


async def _serve(config: Config, console: Console) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopping.set)
    runtime = await _prepare(config, console)
    token = load_token(config.token, config.token_path)
    sockets = _bind(config)
    store = await Store.open(config.data_path / "interpreter.db")
    orchestrator = Orchestrator(config, store, runtime)
    try:
        await orchestrator.start()
        application = make_application(Gateway(config, orchestrator, token))
        server = Server(
            application,
            max_body_size=NO_LIMIT,
            max_buffer_size=2**24,
            max_header_size=MAX_HEADER,
            idle_connection_timeout=3600,
            xheaders=False,
        )
        server.add_sockets(sockets)
        port = sockets[0].getsockname()[1]
        _greet(console, config, port, token, runtime, orchestrator.workspaces.describe())
        await stopping.wait()
        server.stop()
    finally:
        running = orchestrator.session_count
        await orchestrator.close()
        await store.close()
        await runtime.close()
    if running and config.on_shutdown == "keep":
        what = "1 session keeps" if running == 1 else f"{running} sessions keep"
        console.print(f"{what} running and will be there at the next start.")


async def _prepare(config: Config, console: Console) -> Runtime:
    """Makes what sandboxes need, telling what takes so long."""
    with console.status("starting") as status:

        def progress(sentence: str) -> None:
            status.update(sentence)
            if not console.is_terminal:
                console.print(sentence, markup=False, soft_wrap=True)

        runtime = await prepared(config, progress)
    if runtime.isolation == "none" and not is_loopback(config.host):
        raise ConfigurationError(
            f"Sessions are not isolated here, so the gateway does not listen on {config.host}.",
            "Install bubblewrap ('apt install bubblewrap'), or use --host 127.0.0.1.",
        )
    return runtime


def _bind(config: Config) -> list[socket.socket]:
    try:
        return bind_sockets(config.port, config.host)
    except OSError as e:
        raise ConfigurationError(
            f"Cannot listen on {config.host}:{config.port}: {e.strerror}.",
            "Is another gateway running? Choose another port with --port.",
        ) from None


def _greet(console: Console, config: Config, port: int, token: str, runtime: Runtime, disk: str) -> None:
    host = f"[{config.host}]" if ":" in config.host else config.host
    where = "from the settings" if config.token else f"kept in {config.token_path}"
    console.print(f"Interpreter {__version__}", style="bold")
    for line in (
        f"url       http://{host}:{port}  (try /docs)",
        f"token     {token}  ({where})",
        f"sessions  {runtime.describe()}",
        f"disk      {disk}",
    ):
        console.print(f"  {line}", markup=False, soft_wrap=True)
    if runtime.isolation == "none":
        warning = (
            "SESSIONS ARE NOT ISOLATED. Code that runs in them can read and change everything "
            "that you can, and reach the network. Use this only with code you trust.\n"
            "Install bubblewrap ('apt install bubblewrap') and start again."
        )
        console.print(Panel(warning, title="WARNING", border_style="bold red", style="red"))


@contextlib.contextmanager
def _only_gateway(data: Path) -> Iterator[None]:
    """One data directory has one gateway."""
    try:
        data.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(data / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as e:
        raise ConfigurationError(f"The data directory {data} cannot be used: {e.strerror}.") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise ConfigurationError(
            f"Another gateway already uses the data directory {data}.",
            "Stop it first, or choose another directory with --data-dir.",
        ) from None
    try:
        yield
    finally:
        os.close(lock)


def _set_up_logging() -> None:
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            # Not the tracebacks that show every variable: the token is in one of them.
            structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
            ),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    # Tornado's own loggers speak of malformed requests, which are answered and no fault of ours.
    for name in ("tornado.access", "tornado.general"):
        logging.getLogger(name).setLevel(logging.ERROR)
