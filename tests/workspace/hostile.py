"""A process that swaps a directory of a workspace for a link to somewhere else, as fast as it can."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import ctypes, os, sys
outside = sys.argv[1]
libc = ctypes.CDLL(None)
def make():
    os.makedirs("d/keep", exist_ok=True)
    for name in ("d/secret", "d/keep/file"):
        with open(name, "wb") as f:
            f.write(b"harmless")
make()
os.symlink(outside, "link")
AT, EXCHANGE = -100, 2
count = 0
print("ready", flush=True)
while True:
    for _ in range(500):
        # 'd' is now the directory and now the link, and never missing.
        libc.renameat2(AT, b"d", AT, b"link", EXCHANGE)
        count += 1
    for name in ("d", "link"):
        try:
            if not os.path.islink(name):
                os.makedirs(name + "/keep", exist_ok=True)
                for file in ("/secret", "/keep/file"):
                    if not os.path.lexists(name + file):
                        open(name + file, "wb").write(b"harmless")
        except OSError:
            pass
    print(count, flush=True)
"""


class Racing:
    """The process while it runs; `swaps` says how often it has swapped."""

    def __init__(self, workspace: Path, outside: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(outside)],
            cwd=workspace,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self.swaps = 0

    def __enter__(self) -> Racing:
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n"
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.poll() is None, "the hostile process has ended"
        self._process.kill()
        out, _err = self._process.communicate()
        numbers = [line for line in out.split(b"\n") if line.isdigit()]
        self.swaps = int(numbers[-1]) if numbers else 0
