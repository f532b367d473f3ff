"""The keeper: the process that starts a sandbox, stays with it and writes down how it ended.

It is a shell of a few lines. Before it starts anything it writes down which process it is,
joins the control groups and lowers the resource limits, so there is no moment in which
something of the sandbox runs outside of them. It belongs to no terminal and needs no gateway:
the sandbox outlives the gateway, and the exit code is there for the next one.

Killing the keeper is not enough to end a sandbox of a root gateway, whose stages may not signal
each other; the runtime ends every process of it by itself.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from interpreter.models import Limits
from interpreter.runtimes.cgroup import MEGABYTE
from interpreter.runtimes.enforcement import open_files
from interpreter.runtimes.run_directory import RunDirectory

FAILED = 125
SCRIPT = f"""
run=$1 file_blocks=$2 open_files=$3; shift 3
read -r stat </proc/$$/stat && echo "$stat" >"$run/process" || exit {FAILED}
while [ "$1" != -- ]; do echo $$ >"$1/cgroup.procs" || exit {FAILED}; shift; done; shift
ulimit -c 0 && ulimit -n "$open_files" && ulimit -f "$file_blocks" || exit {FAILED}
"$@"
code=$?
echo $code >"$run/exit"
exit $code
"""


def start(
    run: RunDirectory,
    command: Sequence[str],
    environ: dict[str, str],
    cwd: Path,
    groups: Sequence[Path],
    limits: Limits,
    fds: Sequence[int],
) -> subprocess.Popen[bytes]:
    """Starts the command and returns without waiting for it to come anywhere."""
    settings = [str(run.path), str(limits.file_mb * MEGABYTE // 512), str(open_files())]
    with run.log() as log:
        return subprocess.Popen(
            ["/bin/sh", "-c", SCRIPT, "keeper", *settings, *map(str, groups), "--", *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            env=environ,
            cwd=cwd,
            pass_fds=fds,
            start_new_session=True,
        )


def reason(code: int | None, log_tail: str, out_of_memory: str | None) -> str:
    """Why a sandbox ended, in words. A shell's code above 128 is a signal.

    `out_of_memory` says how much was used of which limit, if that has killed a process of it.
    """
    said = f": {log_tail}" if log_tail else ""
    if code is None:
        return "killed"
    if code in (-signal.SIGKILL, 128 + signal.SIGKILL) and out_of_memory:
        return f"out of memory: {out_of_memory}"
    number = -code if code < 0 else code - 128
    try:
        return f"killed by {signal.Signals(number).name}"
    except ValueError:
        return f"exited with code {code}{said}"
