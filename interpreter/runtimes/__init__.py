"""Where sandboxes run: one contract (`base`), and the places that keep it."""

from __future__ import annotations

from interpreter.config import Config
from interpreter.errors import ConfigurationError
from interpreter.runtimes.base import Progress, Runtime
from interpreter.runtimes.embedded import EmbeddedRuntime

__all__ = ["EmbeddedRuntime", "Runtime", "prepared"]


async def prepared(config: Config, progress: Progress) -> Runtime:
    """The runtime that the settings ask for, ready to start sandboxes.

    'auto' is Docker where an engine answers and has, or can be given, what it takes; else the
    embedded one, which then says why. Raises ConfigurationError.
    """
    if config.runtime == "embedded":
        return await _embedded(config, progress, None)
    # Only whoever uses Docker pays for loading its SDK.
    from interpreter.runtimes.docker import DockerRuntime

    runtime = DockerRuntime(config)
    try:
        await runtime.prepare(progress)
        return runtime
    except ConfigurationError as e:
        await runtime.close()
        if config.runtime == "docker":
            raise
        return await _embedded(config, progress, e.message)


async def _embedded(config: Config, progress: Progress, why: str | None) -> Runtime:
    runtime = EmbeddedRuntime(config)
    runtime.not_docker_because = why
    await runtime.prepare(progress)
    return runtime
