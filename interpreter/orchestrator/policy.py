"""Which limits a session gets and which timeout a cell gets: decided here and nowhere else."""

from __future__ import annotations

import msgspec

from interpreter.config import Config
from interpreter.errors import (
    CodeTooLong,
    InvalidCommand,
    LimitFixed,
    LimitTooHigh,
    UnknownEnvironment,
)
from interpreter.models import ExecutionCreate, Limits, LimitsRequest, SessionCreate
from interpreter.models.commands import CommandCreate

MOST_VARIABLES = 16 * 1024
POOL_MAX = 8


def environment(config: Config, request: SessionCreate) -> str:
    name = request.environment or config.default_environment
    if name not in config.environments:
        known = ", ".join(config.environments)
        raise UnknownEnvironment(f"There is no environment '{name}'. There are: {known}.")
    return name


def session_limits(config: Config, request: LimitsRequest, now: Limits | None = None) -> Limits:
    """What there is now, or the defaults, with what was asked for: none of it above the operator's
    maximums."""
    asked = {k: v for k, v in msgspec.structs.asdict(request).items() if v is not None}
    for name, value in asked.items():
        most = getattr(config.maximums, name)
        if value > most:
            raise LimitTooHigh(f"{name} may be at most {most:g}, not {value:g}.")
    return msgspec.structs.replace(now or config.limits, **asked)


def in_workspace(limits: Limits, request: LimitsRequest, name: str, disk_mb: int) -> Limits:
    """The same limits with the disk of a named workspace, which is not the session's to choose."""
    if request.disk_mb not in (None, disk_mb):
        raise LimitFixed(
            f"disk_mb is that of the workspace '{name}', {disk_mb:,}.",
            "Leave it out, or change it in the workspace while no session uses that.",
        )
    return msgspec.structs.replace(limits, disk_mb=disk_mb)


def variables(request: SessionCreate) -> dict[str, str]:
    """The environment variables of a session's kernels, which travel in one packet."""
    _check_size(request.env)
    return dict(request.env)


def _check_size(variables: dict[str, str]) -> None:
    size = sum(len(name) + len(value.encode()) for name, value in variables.items())
    if size > MOST_VARIABLES:
        raise LimitTooHigh(f"env has {size:,} bytes; at most {MOST_VARIABLES:,} are taken.")


def pool_size(config: Config, environment: str) -> tuple[int, int]:
    """How many sandboxes of an environment stand ready: at least, and at most."""
    configured = config.environments[environment]
    least = configured.pool_min
    if least is None:
        least = config.spares if environment == config.default_environment else 0
    most = configured.pool_max
    if most is None:
        # Whoever wants none ready, and says no more, wants none when many are asked for, either.
        most = POOL_MAX if least else 0
    return least, max(least, most)


def cell_timeout(config: Config, limits: Limits, asked: float | None) -> float:
    if asked is None:
        return min(config.cell_timeout, limits.cell_seconds)
    if asked > limits.cell_seconds:
        raise LimitTooHigh(
            f"A cell may run at most {limits.cell_seconds:g} s here, not {asked:g} s.",
            "Give the session a higher limits.cell_seconds.",
        )
    return asked


def output_limit(config: Config, request: ExecutionCreate | CommandCreate) -> int:
    """How much of a cell's output its result carries."""
    if request.max_output_bytes is None:
        return config.max_output_bytes
    if request.max_output_bytes > config.max_message_bytes:
        raise LimitTooHigh(
            f"max_output_bytes may be at most {config.max_message_bytes:,}.",
            "Stream the cell, or fetch its whole output afterwards.",
        )
    return request.max_output_bytes


def check_code(config: Config, code: str) -> None:
    size = len(code.encode("utf-8", "surrogatepass"))
    if size > config.max_code_bytes:
        raise CodeTooLong(f"The code has {size:,} bytes; at most {config.max_code_bytes:,} are taken.")


def check_command(config: Config, request: CommandCreate) -> None:
    """Whether it says what to run, and nothing that cannot be said to a program."""
    if (request.command is None) == (request.argv is None):
        raise InvalidCommand("A command is either 'command' or 'argv'.")
    said = [*(request.argv or [request.command or ""]), request.cwd or ""]
    said += (text for pair in request.env.items() for text in pair)
    if any("\0" in text for text in said):
        raise InvalidCommand("A command cannot have a zero byte in it.")
    if any(not name or "=" in name for name in request.env):
        raise InvalidCommand("A variable needs a name, without '='.")
    check_code(config, "".join(said))
    _check_size(request.env)


def command_timeout(config: Config, limits: Limits, request: CommandCreate) -> float:
    if request.background and request.timeout is None:
        return limits.cell_seconds
    return cell_timeout(config, limits, request.timeout)
