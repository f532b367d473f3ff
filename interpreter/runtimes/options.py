"""What an environment can ask of the engine besides the ordinary, and whether the engine has it.

All of it is looked at before the first session: what is wrong is an error at start. The trial of a
container then shows what an engine's own words do not, such as a GPU that is not there.
"""

from __future__ import annotations

import os
from typing import Any

from docker.types import DeviceRequest, Mount

from interpreter.config import Environment
from interpreter.errors import ConfigurationError
from interpreter.runtimes import payload
from interpreter.runtimes.base import INPUTS
from interpreter.runtimes.run_directory import IN_CONTAINER

OWN_PLACES = (
    "/workspace",
    "/mnt/data",
    INPUTS,
    "/tmp",
    payload.IN_SANDBOX,
    IN_CONTAINER,
    "/proc",
    "/sys",
    "/dev",
)
"""Where a sandbox has something of its own, which a mount would hide."""


def check(name: str, environment: Environment, allowed: list[str], info: dict[str, Any]) -> None:
    """Raises ConfigurationError for an option that cannot work with the engine."""
    _check_runtime(name, environment, info)
    if environment.userns and not remaps_users(info):
        raise ConfigurationError(
            f"The environment '{name}' wants users remapped, and the engine does not do that.",
            'Start the engine with "userns-remap", or leave userns out.',
        )
    for mount in environment.mounts:
        _check_mount(name, mount, allowed)
    _check_gpus(name, environment.gpus)


def _check_runtime(name: str, environment: Environment, info: dict[str, Any]) -> None:
    runtimes = info.get("Runtimes", {})
    if environment.oci_runtime and environment.oci_runtime not in runtimes:
        raise ConfigurationError(
            f"The environment '{name}' wants the OCI runtime '{environment.oci_runtime}', "
            f"and the engine has {', '.join(sorted(runtimes))}.",
            "Add it to the engine's daemon.json, or leave oci_runtime out.",
        )


def is_gvisor(environment: Environment, info: dict[str, Any]) -> bool:
    """Whether containers run under gVisor, whatever its runtime is called in this engine."""
    chosen = environment.oci_runtime or ""
    described = info.get("Runtimes", {}).get(chosen) or {}
    words = [chosen, str(described.get("path", "")), str(described.get("runtimeType", ""))]
    return any("runsc" in os.path.basename(word) for word in words)


def remaps_users(info: dict[str, Any]) -> bool:
    """Whether an engine gives users in containers other numbers outside."""
    return any("name=userns" in option for option in info.get("SecurityOptions") or ())


def first_mapped(info: dict[str, Any]) -> int:
    """The user outside that an engine's root inside is; its data directory is named after it."""
    if not remaps_users(info):
        return 0
    first = os.path.basename(info.get("DockerRootDir", "")).partition(".")[0]
    if not first.isdecimal():
        raise ConfigurationError("The engine remaps users and does not say to whom.")
    return int(first)


# -- mounts


def mounts(environment: Environment) -> list[Mount]:
    """The host folders that an environment sees.

    What is mounted is what was checked, not a link that may lead elsewhere by now. File systems
    below a folder are not brought along, for an engine may leave those writable.
    """
    found = []
    for mount in environment.mounts:
        host, inside = _halves(mount)
        made = Mount(inside, os.path.realpath(host), type="bind", read_only=True)
        made["BindOptions"] = {"NonRecursive": True}
        found.append(made)
    return found


def _check_mount(name: str, mount: str, allowed: list[str]) -> None:
    host, inside = _halves(mount)
    if not host.startswith("/") or not inside.startswith("/") or ":" in inside:
        raise ConfigurationError(
            f"The environment '{name}' has the mount '{mount}', which is not of the form /host:/inside."
        )
    folders = [os.path.realpath(folder) for folder in allowed]
    real = os.path.realpath(host)
    if not any(_is_below(real, folder) for folder in folders):
        leads = f" (which leads to {real})" if real != host else ""
        raise ConfigurationError(
            f"The environment '{name}' mounts {host}{leads}, which is below none of allowed_mounts.",
            "Add the folder to allowed_mounts, or take the mount away.",
        )
    place = os.path.normpath("/" + inside.lstrip("/"))
    if any(_is_below(place, own) or _is_below(own, place) for own in OWN_PLACES):
        raise ConfigurationError(
            f"The environment '{name}' mounts {host} as {inside}, where a session has something else.",
            "Choose another place inside, such as /data/public.",
        )


def _halves(mount: str) -> tuple[str, str]:
    host, _, inside = mount.partition(":")
    return host, inside or host


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


# -- GPUs


def device_requests(gpus: str | int | None) -> list[DeviceRequest] | None:
    """What the engine is asked for."""
    if gpus is None:
        return None
    wanted = str(gpus)
    if wanted == "all":
        return [DeviceRequest(count=-1, capabilities=[["gpu"]])]
    if wanted.isdecimal():
        return [DeviceRequest(count=int(wanted), capabilities=[["gpu"]])]
    return [DeviceRequest(device_ids=wanted.split(","), capabilities=[["gpu"]])]


def _check_gpus(name: str, gpus: str | int | None) -> None:
    wanted = str(gpus)
    if not all(wanted.split(",")) or (wanted.lstrip("-").isdecimal() and int(wanted) < 1):
        raise ConfigurationError(
            f"The environment '{name}' has gpus = '{gpus}'.",
            "Say 'all', or how many, or which by their ids with commas between.",
        )
