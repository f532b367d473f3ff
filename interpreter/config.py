"""Every setting, its default, and where its value came from.

Values come from `interpreter.toml`, then `INTERPRETER_*` in the environment, then command-line
flags; later ones win. A setting in a table is written `INTERPRETER_LIMITS__MEMORY_MB` in the
environment. `interpreter config` shows the result with the origin of each value.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from interpreter.errors import ConfigurationError
from interpreter.models import Limits, OnIdle

PREFIX = "INTERPRETER_"
FILE_NAME = "interpreter.toml"
CLIENT_VARIABLES = frozenset({"INTERPRETER_URL", "INTERPRETER_CONFIG"})
"""Read elsewhere, so not settings of the gateway."""


def default_data_dir() -> Path:
    base = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(base).expanduser() / "interpreter"


class Environment(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a session's kernel runs with."""

    packages: list[str] = []
    """Installed beside ipykernel when the environment is made."""
    preload: list[str] = []
    """Modules imported before a kernel is forked, so that its first cell has them loaded."""
    argv: list[str] | None = None
    """Another kernel's command, with `{connection_file}` in it; None forks our own ipykernel."""
    transport: Literal["ipc", "tcp"] = "ipc"
    """'tcp' for a kernel that knows no unix sockets: it listens on the sandbox's own loopback."""
    image: str | None = None
    """Docker: the image; None is `interpreter/<name of the environment>`."""
    kernel: str | None = None
    """Docker: the name of another kernelspec in the image; None forks our own ipykernel."""
    oci_runtime: str | None = None
    """Docker: another OCI runtime of the engine, such as gVisor's 'runsc'."""
    userns: bool = False
    """Docker: insist on an engine that remaps users, so that nobody in a sandbox is anybody outside."""
    mounts: list[str] = []
    """Docker: host folders to see read-only, each 'host:inside', below one of `allowed_mounts`."""
    gpus: str | int | None = None
    """Docker: 'all', a number, or device ids separated by commas."""
    pool_min: Annotated[int, Meta(ge=0, le=100)] | None = None
    """Sandboxes that always stand ready; None is `spares` for the default environment, else 0."""
    pool_max: Annotated[int, Meta(ge=0, le=100)] | None = None
    """The most that stand ready when many are wanted at once; None is 8, or 0 where none always does."""


DEFAULT_ENVIRONMENTS = {
    "python": Environment(
        packages=["numpy==2.4.6", "pandas==3.1.1", "matplotlib==3.11.2"],
        preload=["numpy", "pandas", "matplotlib.pyplot"],
    )
}


DEFAULT_MAXIMUMS = Limits(
    memory_mb=16384,
    cpus=8.0,
    processes=4096,
    file_mb=16384,
    disk_mb=102400,
    cell_seconds=86400.0,
    queued_cells=1000,
    recorded_mb=16384,
    idle_seconds=30 * 86400.0,
    lifetime_seconds=30 * 86400.0,
    executions=10_000_000,
    contexts=64,
    commands=256,
)


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The gateway's settings. Sizes are bytes and times are seconds unless the name says else."""

    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535)] = 8888
    allowed_hosts: list[str] = []
    """Names by which it may be asked for besides those of this machine itself; none for whatever name
    leads to it, if it listens on more than loopback."""
    data_dir: str = msgspec.field(default_factory=lambda: str(default_data_dir()))
    kernels_dir: str | None = None
    """Where kernel environments are made; `kernels` in the data directory when not set."""
    runtime: Literal["auto", "docker", "embedded"] = "auto"
    link: Literal["auto", "socket", "attach"] = "auto"
    """Docker: how the gateway reaches into a container; 'auto' finds out what works."""
    engine_timeout: Annotated[float, Meta(gt=0)] = 60.0
    """Docker: how long the engine may take to start a container before that is an error."""
    allowed_mounts: list[str] = []
    """Docker: the host folders that environments may mount from."""
    isolation: Literal["auto", "bubblewrap", "none"] = "auto"
    jupyter_delete: Literal["stop", "detach", "delete"] = "stop"
    """What a Jupyter client's deleting of a kernel does: end the sandbox, only let go of it, or delete
    the session with its files, if it was a Jupyter client that made it."""
    token: str | None = None
    """None makes one at first start and keeps it in the data directory."""
    on_shutdown: Literal["keep", "stop"] = "keep"
    """Whether sessions go on when the gateway stops, and are there at its next start."""
    drain_seconds: Annotated[float, Meta(ge=0)] = 10.0
    """How long a gateway that is told to stop waits for the cells that run."""

    reconcile_seconds: Annotated[float, Meta(gt=0)] = 300.0
    """How often sessions, sandboxes and workspaces are compared with each other."""

    default_environment: str = "python"
    environments: dict[str, Environment] = msgspec.field(
        default_factory=lambda: dict(DEFAULT_ENVIRONMENTS)
    )
    spares: Annotated[int, Meta(ge=0, le=100)] = 1
    """Sandboxes of the default environment that always stand ready; each is used once."""

    limits: Limits = Limits()
    """What a session gets unless it asks for something else."""
    maximums: Limits = DEFAULT_MAXIMUMS
    """The most a session may ask for."""
    on_idle: OnIdle = "pause"
    """What happens to a session that nobody used for its `idle_seconds`, unless it says else."""
    datasets_mb: Annotated[int, Meta(ge=1)] = 20_000
    """What all datasets together may take of the disk, in MB as limits count them."""
    owner_disk_mb: Annotated[int, Meta(ge=0)] = 1_000_000
    """What all workspaces and sessions of one owner may hold together; 0 is no limit."""
    max_sessions: Annotated[int, Meta(ge=1)] = 64
    """Sessions with a sandbox at once; stopped ones do not count."""
    max_creating: Annotated[int, Meta(ge=1)] = 4
    """Sandboxes that are started at once."""
    memory_overcommit: Annotated[float, Meta(gt=0)] = 4.0
    """How many times the machine's memory the limits of all sessions together may be."""
    cpu_overcommit: Annotated[float, Meta(gt=0)] = 32.0
    queue_seconds: Annotated[float, Meta(ge=0)] = 60.0
    """How long a request for a session waits for room."""
    max_queued_sessions: Annotated[int, Meta(ge=0)] = 100
    max_code_bytes: Annotated[int, Meta(ge=1)] = 4 * 1024 * 1024
    max_output_bytes: Annotated[int, Meta(ge=1024)] = 4 * 1024 * 1024
    """Outputs of one result beyond this are cut in the middle."""
    max_message_bytes: Annotated[int, Meta(ge=1024 * 1024, le=64 * 1024 * 1024)] = 32 * 1024 * 1024
    """A single kernel message beyond this is replaced by a note that says so. Four of them may arrive
    from a sandbox at once."""
    cell_timeout: Annotated[float, Meta(gt=0)] = 30.0
    interrupt_grace: Annotated[float, Meta(gt=0)] = 3.0
    """How long an interrupted cell has to yield before its kernel is killed."""

    @property
    def data_path(self) -> Path:
        return Path(self.data_dir).expanduser()

    @property
    def kernels_path(self) -> Path:
        return Path(self.kernels_dir).expanduser() if self.kernels_dir else self.data_path / "kernels"

    @property
    def token_path(self) -> Path:
        return self.data_path / "token"


class LoadedConfig(Struct, frozen=True):
    """The settings together with the origin of every value that is not a default."""

    config: Config
    origins: dict[str, str]
    """Dotted setting name → 'interpreter.toml', the variable's name, or the flag's."""


def load(
    flags: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    file: Path | None = None,
) -> LoadedConfig:
    """Reads all three sources. Flags that are None were not given."""
    environ = os.environ if environ is None else environ
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    path = file or Path(environ.get("INTERPRETER_CONFIG") or FILE_NAME)
    if path.is_file():
        try:
            table = tomllib.loads(path.read_text())
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as e:
            raise ConfigurationError(f"{path} is not valid TOML: {e}") from None
        _merge(values, origins, table, str(path))
    elif file is not None or "INTERPRETER_CONFIG" in environ:
        raise ConfigurationError(f"There is no configuration file at {path}.")
    for name in sorted(environ):
        if name.startswith(PREFIX) and name not in CLIENT_VARIABLES:
            keys = name.removeprefix(PREFIX).lower().split("__")
            nested: Any = environ[name]
            for key in reversed(keys):
                nested = {key: nested}
            _merge(values, origins, nested, name)
    given = {k: v for k, v in (flags or {}).items() if v is not None}
    for name, value in given.items():
        _merge(values, origins, {name: value}, "--" + name.replace("_", "-"))
    # What is said of these tables is added to the defaults, not put in their place.
    for name, default in (("environments", DEFAULT_ENVIRONMENTS), ("maximums", DEFAULT_MAXIMUMS)):
        values[name] = {**msgspec.to_builtins(default), **values.get(name, {})}
    try:
        config = msgspec.convert(values, Config, strict=False)
    except msgspec.ValidationError as e:
        raise ConfigurationError(f"A setting is wrong: {e}") from None
    if config.default_environment not in config.environments:
        raise ConfigurationError(
            f"default_environment is '{config.default_environment}', which is not configured.",
            f"Configured are: {', '.join(config.environments)}.",
        )
    return LoadedConfig(config, origins)


def _merge(
    values: dict[str, Any], origins: dict[str, str], new: Mapping[str, Any], origin: str, at: str = ""
) -> None:
    for key, value in new.items():
        name = f"{at}{key}"
        if isinstance(value, Mapping):
            below = values.setdefault(key, {})
            if not isinstance(below, dict):
                raise ConfigurationError(f"'{name}' is not a table, but {origin} gives it one.")
            _merge(below, origins, value, origin, name + ".")
        else:
            values[key] = value
            origins[name] = origin
