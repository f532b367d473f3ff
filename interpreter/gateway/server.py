"""`interpreter serve`: from settings to a listening gateway, and back to nothing."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import resource
import signal
import socket
from urllib.parse import quote

from rich.console import Console
from rich.panel import Panel
from tornado.netutil import bind_sockets

from interpreter import __version__
from interpreter.config import Config, LoadedConfig
from interpreter.errors import ConfigurationError, InterpreterError
from interpreter.gateway import logs, memory
from interpreter.gateway.application import Gateway, Server, make_application
from interpreter.gateway.auth import is_loopback, load_token
from interpreter.gateway.ownership import owned
from interpreter.orchestrator import Orchestrator
from interpreter.runtimes import Runtime, prepared
from interpreter.store import Store

MAX_HEADER = 64 * 1024
BESIDES = 1024 * 1024
"""Room for what arrives together with a message of a WebSocket: a connection that has no more is cut."""
NO_LIMIT = 2**62
"""Bodies are bounded by the handlers, who can say so in words."""
ANSWER_SECONDS = 5.0
"""How long a gateway that stops waits for its clients to take their answers."""


def serve(loaded: LoadedConfig) -> int:
    """Runs the gateway until it is told to stop; returns the exit code of the process."""
    logs.set_up()
    memory.give_back()
    _open_as_many_as_allowed()
    console = Console(file=logs.stderr(), highlight=False)
    try:
        with owned(loaded.config.data_path):
            asyncio.run(_serve(loaded.config, console))
    except InterpreterError as e:
        return _refuse(console, e)
    except OSError as e:
        if e.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        where = loaded.config.data_path
        return _refuse(
            console,
            ConfigurationError(
                f"The gateway cannot run: there is no space left for {where}.",
                "Free some space and start it again. Sessions that run go on meanwhile.",
            ),
        )
    return 0


def _open_as_many_as_allowed() -> None:
    """Every connection, sandbox and file that arrives takes a descriptor, and the usual limit is meant
    for programs that wait for few of them. Sandboxes have one of their own."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _refuse(console: Console, error: InterpreterError) -> int:
    console.print("error:", style="bold red", end=" ")
    console.print(f"{error.message}\n{error.hint}", markup=False, soft_wrap=True)
    return 3


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
        gateway = Gateway(config, orchestrator, token)
        application = make_application(gateway)
        server = Server(
            application,
            max_body_size=NO_LIMIT,
            max_buffer_size=config.max_message_bytes + BESIDES,
            max_header_size=MAX_HEADER,
            idle_connection_timeout=3600,
            xheaders=False,
        )
        server.add_sockets(sockets)
        port = sockets[0].getsockname()[1]
        _greet(console, config, port, token, runtime, orchestrator.workspaces.describe())
        await stopping.wait()
        await _drain(orchestrator, console, stopping, config.drain_seconds)
        gateway.jupyter.close()
        await _send_answers(gateway)
        server.stop()
    finally:
        running = orchestrator.session_count
        await orchestrator.close()
        await store.close()
        await runtime.close()
    if running and config.on_shutdown == "keep":
        what = "1 session keeps" if running == 1 else f"{running} sessions keep"
        console.print(f"{what} running and will be there at the next start.")


async def _drain(
    orchestrator: Orchestrator, console: Console, stopping: asyncio.Event, seconds: float
) -> None:
    """Waits for the cells that run, unless it is told to stop once more."""
    stopping.clear()
    draining = asyncio.create_task(orchestrator.drain())
    again = asyncio.create_task(stopping.wait())
    done, _ = await asyncio.wait({draining, again}, timeout=0.2, return_when="FIRST_COMPLETED")
    if not done:
        console.print(f"waiting up to {seconds:g} s for the cells that run; once more ends that")
        await asyncio.wait({draining, again}, return_when="FIRST_COMPLETED")
    for task in (draining, again):
        task.cancel()


async def _send_answers(gateway: Gateway) -> None:
    """Answers that were given reach their clients, unless those do not read them."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(ANSWER_SECONDS):
            while gateway.answering:
                await asyncio.wait(set(gateway.answering))


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
        f"url       http://{host}:{port}  (the API; try /docs)",
        f"page      http://{host}:{port}/?token={quote(token, safe='[]')}  (the token is {where})",
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
