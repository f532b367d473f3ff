"""Which control groups a process of this host is in, whoever made them.

For sandboxes that somebody else puts into groups, such as a container engine: what their groups
count can be read, but they are not for the gateway to change or remove.
"""

from __future__ import annotations

from pathlib import Path

from interpreter.runtimes import cgroup_v1, cgroup_v2
from interpreter.runtimes.cgroup import Group


def group_of_process(pid: int) -> Group | None:
    """None when the process is gone, or in no group of its own that can be seen from here."""
    try:
        lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    except OSError:
        return None
    paths: dict[str, str] = {}
    for _, controllers, path in (line.split(":", 2) for line in lines):
        paths |= dict.fromkeys(controllers.split(","), path)
    # Version 2 has no name for its one tree. It may be there besides, with no controller in it.
    unified = paths.pop("", None)
    if "memory" in paths:
        return cgroup_v1.of_process(paths)
    return None if unified is None else cgroup_v2.of_process(unified)
