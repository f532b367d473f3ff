"""Processes that swap what is in a workspace for links to somewhere else, as fast as they can."""

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

CHURN = """
import ctypes, os, random, shutil, sys
outside, owner = sys.argv[1], int(sys.argv[2])
os.setgid(owner)
os.setuid(owner)  # it may do nothing outside itself
libc = ctypes.CDLL(None)
dice = random.Random(1)
AT, EXCHANGE = -100, 2
targets = [outside, "../outside", "../../outside", outside + "/secret"] * 3
targets += ["..", "/", "/proc/self/root", "a", "b/c", "../a", "."]
def place():
    return "/".join(dice.choice("abc") for _ in range(dice.randint(1, 3)))
def fill(path):
    with open(path, "wb") as file:
        file.write(b"harmless")
def directory(path):
    os.makedirs(path + "/" + dice.choice("abc"))
def remove(path):
    if os.path.islink(path) or not os.path.isdir(path):
        os.unlink(path)
    else:
        shutil.rmtree(path, ignore_errors=True)
def beside(path, make):
    # Made elsewhere and put in its place in one step, as what is there goes away in one.
    new = "new" + str(dice.randint(0, 9))
    make(new)
    libc.renameat2(AT, new.encode(), AT, path.encode(), EXCHANGE if dice.random() < 0.7 else 0)
    remove(new)
def swap(path):
    libc.renameat2(AT, path.encode(), AT, place().encode(), EXCHANGE)
doings = [
    swap, swap, swap, directory, fill, os.mkfifo, remove,
    lambda path: os.rename(path, place()),
    lambda path: os.link(path, place(), follow_symlinks=False),
    lambda path: os.symlink(dice.choice(targets), path),
    lambda path: beside(path, lambda new: os.symlink(dice.choice(targets), new)),
    lambda path: beside(path, directory),
    lambda path: beside(path, fill),
    lambda path: beside(path, os.mkfifo),
]
# It waits for nobody who would read from a pipe.
def open(path, mode):
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK, 0o644), mode)
count = 0
print("ready", flush=True)
while True:
    for _ in range(100):
        try:
            dice.choice(doings)(place())
            count += 1
        except Exception:  # whatever somebody else has made of it meanwhile
            pass
    os.system("rm -rf ./*")  # before it is too deep for anybody
    print(count, flush=True)
"""
"""Swaps, renames and makes anything of a few names, in each other and anew."""


class Racing:
    """The process while it runs; `swaps` says how often it has changed something."""

    def __init__(self, workspace: Path, outside: Path, script: str = SCRIPT, *arguments: object) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", script, str(outside), *map(str, arguments)],
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
