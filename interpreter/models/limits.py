"""What a session may use, what it uses, and what is left of it."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from interpreter.models.basics import MOST

OnIdle = Literal["pause", "stop", "nothing"]
"""What happens to a session that nobody used for its `idle_seconds`."""


class Limits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a session may use. Every limit binds; none is off by default."""

    memory_mb: Annotated[int, Meta(ge=128, description="memory of the sandbox")] = 2048
    cpus: Annotated[float, Meta(ge=0.1, description="processor cores the sandbox may use")] = 1.0
    processes: Annotated[int, Meta(ge=32, description="processes and threads at once")] = 256
    file_mb: Annotated[int, Meta(ge=1, description="size of one file")] = 1024
    disk_mb: Annotated[int, Meta(ge=16, description="what the workspace may hold")] = 4096
    cell_seconds: Annotated[float, Meta(gt=0, description="longest timeout of a cell")] = 600.0
    queued_cells: Annotated[int, Meta(ge=1, description="cells waiting their turn")] = 100
    recorded_mb: Annotated[int, Meta(ge=1, description="output recorded of one cell")] = 1024
    idle_seconds: Annotated[float, Meta(gt=0, description="time without use, then on_idle")] = 3600.0
    lifetime_seconds: Annotated[float, Meta(gt=0, description="age of the sandbox")] = 86400.0
    executions: Annotated[int, Meta(ge=1, description="cells in the session's whole life")] = 100_000
    contexts: Annotated[int, Meta(ge=1, description="kernels at once")] = 8
    commands: Annotated[int, Meta(ge=1, description="commands at once; as many terminals")] = 16


class LimitsRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits other than the default; what is left out stays as it is."""

    memory_mb: Annotated[int, Meta(ge=128, le=MOST)] | None = None
    cpus: Annotated[float, Meta(ge=0.1)] | None = None
    processes: Annotated[int, Meta(ge=32, le=MOST)] | None = None
    file_mb: Annotated[int, Meta(ge=1, le=MOST)] | None = None
    disk_mb: Annotated[int, Meta(ge=16, le=MOST)] | None = None
    cell_seconds: Annotated[float, Meta(gt=0)] | None = None
    queued_cells: Annotated[int, Meta(ge=1, le=MOST)] | None = None
    recorded_mb: Annotated[int, Meta(ge=1, le=MOST)] | None = None
    idle_seconds: Annotated[float, Meta(gt=0)] | None = None
    lifetime_seconds: Annotated[float, Meta(gt=0)] | None = None
    executions: Annotated[int, Meta(ge=1, le=MOST)] | None = None
    contexts: Annotated[int, Meta(ge=1, le=MOST)] | None = None
    commands: Annotated[int, Meta(ge=1, le=MOST)] | None = None


class Usage(Struct, frozen=True, kw_only=True):
    """What a sandbox uses now. Processor time, peak and transfers count since it started.

    A figure that nobody counts on this machine is null. Without control groups only the first
    three are known, and only of processes that still run.
    """

    cpu_seconds: float
    memory_bytes: int
    """Without the file cache that can be given back."""
    processes: int
    memory_peak_bytes: int | None = None
    """The most it held at once, file cache included, as its limit counts it."""
    read_bytes: int | None = None
    """From block devices: what came from the file cache or a file system in memory is not counted."""
    written_bytes: int | None = None
    """To block devices: a write counts when it leaves the file cache, which may be later."""


class Remaining(Struct, frozen=True, kw_only=True):
    """What is left of a session's limits on time and number."""

    executions: int
    lifetime_seconds: float | None = None
    """Until it is stopped; null when it has no sandbox."""
    idle_seconds: float | None = None
    """Until `on_idle` if nobody uses it; null when that is nothing, or it is not waiting for anyone."""
