"""The directories that sessions keep their files in, one each, under one root.

What is in them was written by the sandbox and is untrusted: nothing here follows a link.
"""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path


class Workspaces:
    """Makes, measures and removes workspaces."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def path(self, id: str) -> Path:
        return self._root / id

    async def create(self, id: str) -> Path:
        path = self.path(id)
        await asyncio.to_thread(path.mkdir, mode=0o700, parents=True, exist_ok=True)
        return path

    async def remove(self, id: str) -> int:
        """Removes a workspace whose sandbox has ended; returns the bytes its files had."""
        return await asyncio.to_thread(_remove, self.path(id))

    async def sweep(self, known: set[str]) -> None:
        """Removes the workspaces of sessions that there are no more."""

        def remove_unknown() -> None:
            for path in self._root.iterdir() if self._root.is_dir() else ():
                if path.name not in known:
                    _remove(path)

        await asyncio.to_thread(remove_unknown)


def _remove(path: Path) -> int:
    # Python's own tree walks recurse; a sandbox can make a tree too deep for them.
    measured = subprocess.run(
        ["du", "--summarize", "--bytes", "--", path], capture_output=True, text=True
    )
    size = int(measured.stdout.split("\t")[0]) if measured.returncode == 0 else 0
    empty = path.stat().st_size if path.exists() else 0
    subprocess.run(["rm", "--recursive", "--force", "--one-file-system", "--", path], check=False)
    return max(0, size - empty)
