"""What a sandbox is to the engine: the settings of its container, all in one place."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import Any

from docker.types import Mount, Ulimit

from interpreter.config import Environment
from interpreter.models import Limits, Usage
from interpreter.runtimes import options, payload
from interpreter.runtimes.base import INPUTS
from interpreter.runtimes.cgroup import MEGABYTE
from interpreter.runtimes.enforcement import OPEN_FILES
from interpreter.runtimes.run_directory import IN_CONTAINER

LABEL = "org.interpreter."
OWNER, SANDBOX = LABEL + "owner", LABEL + "sandbox"
LOG_LIMITS = {"max-size": "256k", "max-file": "1"}
PERIOD_US = 20_000
"""Short, so that a sandbox over its share of CPU pauses often and briefly, not seldom and long."""


@dataclass(frozen=True)
class Blueprint:
    """All that is decided about a container before it is made."""

    id: str
    owner: str
    """Which gateway it belongs to."""
    image: str
    command: list[str]
    environ: dict[str, str]
    user: str
    limits: Limits
    configured: Environment
    workspace: str
    run: str | None
    """The host folder with the socket for the hand-over; None for a link by attaching."""
    in_volume: bool = False
    """Whether the workspace is a volume of the engine instead of a folder."""
    inputs: str | None = None
    """The host folder that it sees at `INPUTS`."""
    read_only: bool = False
    """Whether the workspace is only read."""
    follows: bool = False
    """Whether what is mounted over the workspace later is seen in the container."""

    def to_engine(self, api: Any) -> dict[str, Any]:
        """The arguments of the SDK's `create_container`."""
        attached = self.run is None
        return {
            "image": self.image,
            "name": name_of(self.owner, self.id),
            "entrypoint": self.command[:1],
            "command": self.command[1:],
            "environment": self.environ,
            "user": self.user,
            "working_dir": "/",
            "hostname": "sandbox",
            "labels": {OWNER: self.owner, SANDBOX: self.id},
            "stdin_open": attached,
            # Else stdin would end with the first gateway that lets go of it.
            "detach": True,
            # The first process has no handler for SIGTERM, so that cells cannot end it.
            "stop_signal": "SIGKILL",
            "healthcheck": {"test": ["NONE"]},
            "host_config": self._host_config(api, attached),
        }

    def _host_config(self, api: Any, attached: bool) -> Any:
        memory = self.limits.memory_mb * MEGABYTE
        # What an attached container says on stdout is the link: nothing for a log.
        log = {"Type": "none"} if attached else {"Type": "json-file", "Config": LOG_LIMITS}
        return api.create_host_config(
            network_mode="none",
            read_only=True,
            tmpfs={"/tmp": f"rw,exec,nosuid,nodev,mode=1777,size={memory}"},
            shm_size=memory,
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
            ipc_mode="private",
            mounts=[*self._mounts()],
            ulimits=[
                Ulimit(name="nofile", soft=OPEN_FILES, hard=OPEN_FILES),
                Ulimit(name="fsize", soft=self._file_bytes, hard=self._file_bytes),
                Ulimit(name="core", soft=0, hard=0),
            ],
            log_config=log,
            runtime=self.configured.oci_runtime,
            device_requests=options.device_requests(self.configured.gpus),
            **limits_for_engine(self.limits),
        )

    @property
    def _file_bytes(self) -> int:
        return self.limits.file_mb * MEGABYTE

    def _mounts(self) -> list[Mount]:
        if self.in_volume:
            # Where it is new the engine makes it, owned as the image's folder is.
            id = os.path.basename(self.workspace)
            labels = {OWNER: self.owner, SANDBOX: id}
            volume = name_of(self.owner, id)
            mounts = [
                Mount("/workspace", volume, type="volume", labels=labels, read_only=self.read_only)
            ]
        else:
            following = "rslave" if self.follows else None
            mounts = [
                Mount(
                    "/workspace",
                    self.workspace,
                    type="bind",
                    read_only=self.read_only,
                    propagation=following,
                )
            ]
        if self.run is not None:
            mounts.append(Mount(IN_CONTAINER, self.run, type="bind", read_only=True))
        if self.inputs is not None:
            mounts.append(Mount(INPUTS, self.inputs, type="bind", read_only=True))
        return mounts + options.mounts(self.configured)


def limits_for_engine(limits: Limits) -> dict[str, Any]:
    """The limits that can also be changed while a container runs."""
    memory = limits.memory_mb * MEGABYTE
    return {
        "mem_limit": memory,
        "memswap_limit": memory,
        "cpu_period": PERIOD_US,
        "cpu_quota": max(1000, int(limits.cpus * PERIOD_US)),
        "pids_limit": limits.processes,
    }


def environ(id: str, limits: Limits) -> dict[str, str]:
    """The environment of a container's first process, over what the image has."""
    threads = str(math.ceil(limits.cpus))
    zone = os.environ.get("TZ")
    return {
        "INTERPRETER_SANDBOX": id,
        "PYTHONPATH": payload.IN_SANDBOX,
        "HOME": "/tmp/home",
        "TMPDIR": "/tmp",
        "LANG": "C.UTF-8",
        "TERM": "xterm-256color",
        # More threads than cores only wait for each other, and each counts as a process.
        "OMP_NUM_THREADS": threads,
        "OPENBLAS_NUM_THREADS": threads,
        **({"TZ": zone} if zone else {}),
    }


def name_of(owner: str, id: str) -> str:
    return f"interpreter-{owner}-{id}"


def update_for_engine(limits: Limits) -> dict[str, Any]:
    """The same as the body of a request to change them."""
    wanted = limits_for_engine(limits)
    return {
        "Memory": wanted["mem_limit"],
        "MemorySwap": wanted["memswap_limit"],
        "CpuPeriod": wanted["cpu_period"],
        "CpuQuota": wanted["cpu_quota"],
        "PidsLimit": wanted["pids_limit"],
    }


def usage(stats: dict[str, Any]) -> Usage:
    """What a container uses, from the engine's figures."""
    memory = stats.get("memory_stats", {})
    details = memory.get("stats", {})
    cached = details.get("total_inactive_file", details.get("inactive_file", 0))
    return Usage(
        cpu_seconds=stats.get("cpu_stats", {}).get("cpu_usage", {}).get("total_usage", 0) / 1e9,
        memory_bytes=max(0, memory.get("usage", 0) - cached),
        processes=stats.get("pids_stats", {}).get("current", 0),
    )
