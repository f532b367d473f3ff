"""What is sent to the engine to build an image: its folder, and the settings of this machine.

A tar file with fixed times and owners, so that the engine knows a step it has done before.
"""

from __future__ import annotations

import io
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO


def pack(folder: Path, host: Mapping[str, bytes]) -> IO[bytes]:
    """A tar of the folder, with `host` as a folder of that name in it. The caller closes it."""
    packed = tempfile.TemporaryFile()  # noqa: SIM115
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                _add(tar, str(path.relative_to(folder)), path.read_bytes())
        for name in sorted(host):
            _add(tar, f"host/{name}", host[name])
    packed.seek(0)
    return packed


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    entry.mode = 0o644
    tar.addfile(entry, io.BytesIO(content))
