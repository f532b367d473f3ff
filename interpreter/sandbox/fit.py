"""Makes an image fit to be a sandbox, and says what it has: run once in a container of the image.

The runtime puts the kernel host's code into the container and runs this as root. What it changes
becomes a layer on top of the image: a user, the places that a session expects, caches that take
long to make. What it finds is printed as JSON. Standard library only: this runs with whatever
Python the image has, and names what is missing instead of failing.
"""

from __future__ import annotations

import compileall
import glob
import json
import os
import subprocess
import sys
from importlib import metadata

HERE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OLDEST_PYTHON = (3, 11)
USER = "sandbox:x:1000:1000:sandbox:/tmp/home:/bin/sh"
GROUP = "sandbox:x:1000:"
FONT_CACHE = os.path.join(HERE, "matplotlib-cache")
WARM_FONTS = "import matplotlib.font_manager, matplotlib.pyplot"


def main() -> None:
    problems: list[str] = []
    if sys.version_info < OLDEST_PYTHON:
        wanted = ".".join(map(str, OLDEST_PYTHON))
        problems.append(f"its Python is {sys.version.split()[0]}; {wanted} or newer is needed")
    ipykernel = version_of("ipykernel")
    kernelspecs = find_kernelspecs()
    if ipykernel is None and not kernelspecs:
        problems.append("there is no ipykernel in it and no other kernel: pip install ipykernel")
    if not problems and os.geteuid() == 0:
        change()
    report = {
        "problems": problems,
        "python": sys.executable,
        "python_version": sys.version.split()[0],
        "ipykernel": ipykernel,
        "kernelspecs": kernelspecs,
        "matplotlib_cache": font_cache(),
    }
    print(json.dumps(report))


def font_cache() -> str | None:
    """Where matplotlib's list of fonts is: in our own images it is beside the packages."""
    places = (os.path.join(sys.prefix, "matplotlib-cache"), FONT_CACHE)
    return next((place for place in places if os.path.isdir(place)), None)


def version_of(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def find_kernelspecs() -> dict[str, dict[str, object]]:
    """Name → kernelspec, of every kernel that Jupyter would find here."""
    roots = [sys.prefix, sys.base_prefix, "/usr/local", "/usr"]
    folders = [os.path.join(root, "share", "jupyter", "kernels") for root in roots]
    folders += [os.path.join(path, "kernels") for path in os.environ.get("JUPYTER_PATH", "").split(":")]
    found: dict[str, dict[str, object]] = {}
    for folder in folders:
        for file in sorted(glob.glob(os.path.join(folder, "*", "kernel.json"))):
            name = os.path.basename(os.path.dirname(file)).lower()
            try:
                with open(file, encoding="utf-8") as text:
                    spec = json.load(text)
                    found.setdefault(
                        name, {"argv": list(spec["argv"]), "env": dict(spec.get("env", {}))}
                    )
            except (OSError, ValueError, KeyError, TypeError, AttributeError):
                continue
    return found


def change() -> None:
    for folder in ("/workspace", "/mnt", "/run"):
        os.makedirs(folder, exist_ok=True)
    os.chown("/workspace", 1000, 1000)
    if not os.path.lexists("/mnt/data"):
        os.symlink("/workspace", "/mnt/data")
    add_line("/etc/passwd", USER)
    add_line("/etc/group", GROUP)
    if version_of("matplotlib") is not None and font_cache() is None:
        # A sandbox could only make this cache anew every time, and that takes seconds.
        os.makedirs(FONT_CACHE, exist_ok=True)
        environ = dict(os.environ, MPLCONFIGDIR=FONT_CACHE, MPLBACKEND="agg")
        subprocess.call([sys.executable, "-c", WARM_FONTS], env=environ, stdout=2)
    compileall.compile_dir(HERE, quiet=2)
    subprocess.call(["chmod", "-R", "a+rX", HERE])


def add_line(path: str, line: str) -> None:
    """Adds a user or a group unless its number is taken."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError:
        lines = []
    if not any(entry.split(":")[2:3] == ["1000"] for entry in lines):
        with open(path, "a", encoding="utf-8") as file:
            file.write(line + "\n")


if __name__ == "__main__":
    main()
