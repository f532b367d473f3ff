"""A base image made from Debian's packages, for machines that reach no image registry.

mmdebstrap unpacks a small Debian with Python into a file, the engine imports it, and it is kept
under a tag. It is made again when this recipe changes; `docker rmi` it to get newer packages.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections import deque
from pathlib import Path
from typing import Any

from interpreter.errors import ConfigurationError
from interpreter.runtimes import host_settings
from interpreter.runtimes.base import Progress

RELEASE = "bookworm"
REPOSITORY, TAG = "interpreter/base", f"debian-{RELEASE}"
IMAGE = f"{REPOSITORY}:{TAG}"
RECIPE_LABEL = "org.interpreter.base"

PACKAGES = ("usr-is-merged", "python3", "python3-venv", "ca-certificates")
LEFT_OUT = ("man", "info", "locale", "doc", "lintian", "bug")
"""Of /usr/share; licences are kept."""

SOURCES_LIST = "# Left out: sandboxes have no network, and every build has mirrors of its own.\n"
"""What the image says of where its packages come from."""

STAGES = ("I: downloading", "I: extracting", "I: installing", "I: creating")
"""The lines of mmdebstrap that tell how far it is."""

# Nothing of this machine stays: mmdebstrap leaves its mirror, its name servers and its name.
CLEAN = (
    'rm -rf "$1"/etc/apt/sources.list.d/* "$1"/etc/apt/apt.conf.d/99mmdebstrap '
    '"$1"/etc/resolv.conf "$1"/etc/hostname "$1"/var/log/* "$1"/var/cache/debconf/*-old'
)


def is_there(client: Any) -> bool:
    """Whether the base is in the engine, made by this recipe."""
    found = client.images(IMAGE)
    return bool(found) and (found[0].get("Labels") or {}).get(RECIPE_LABEL) == _recipe()


def ensure(client: Any, progress: Progress) -> str:
    """The name of the base image, which is made first if it is not there."""
    if is_there(client):
        return IMAGE
    if shutil.which("mmdebstrap") is None:
        raise ConfigurationError(
            "A base image from Debian's packages needs mmdebstrap, which is not installed.",
            "apt install mmdebstrap debian-archive-keyring; or name a base image with --base.",
        )
    with tempfile.TemporaryDirectory(prefix="interpreter-base-") as folder:
        # mmdebstrap may go on as another user, who has to come through here.
        Path(folder).chmod(0o755)
        tree = Path(folder, "base.tar")
        _run(_command(Path(folder), tree), progress)
        progress("giving it to the engine")
        changes = [f"LABEL {RECIPE_LABEL}={_recipe()}", 'CMD ["bash"]']
        client.import_image_from_file(str(tree), repository=REPOSITORY, tag=TAG, changes=changes)
    return IMAGE


def _command(folder: Path, tree: Path) -> list[str]:
    # Without a mirror that this machine has configured, mmdebstrap knows one.
    here = host_settings.apt_sources().get(RELEASE)
    (folder / "sources").write_text("".join(f"{line}\n" for line in here or ()))
    (folder / "sources.list").write_text(SOURCES_LIST)
    options = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in LEFT_OUT]
    options += ["--dpkgopt=path-include=/usr/share/doc/*/copyright"]
    options += [f"--aptopt={line}" for line in host_settings.apt_options()]
    return [
        *("mmdebstrap", "--variant=minbase", "--format=tar", *options),
        # Told that /usr is merged already, it does not bring Perl to merge it.
        "--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr",
        f"--include={','.join(PACKAGES)}",
        f"--customize-hook={CLEAN}",
        f"--customize-hook=upload '{folder}/sources.list' /etc/apt/sources.list",
        *(RELEASE, str(tree), *([str(folder / "sources")] if here else [])),
    ]


def _recipe() -> str:
    """A hash of all that decides what the base is like."""
    parts = (RELEASE, PACKAGES, LEFT_OUT, SOURCES_LIST, CLEAN)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def _run(command: list[str], progress: Progress) -> None:
    tail: deque[str] = deque(maxlen=12)
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env={**os.environ, "LC_ALL": "C.UTF-8"},
    ) as process:
        assert process.stderr is not None
        try:
            for line in process.stderr:
                tail.append(line.rstrip())
                if line.startswith(STAGES):
                    progress(line[3:].strip().rstrip("."))
        except BaseException:
            process.terminate()
            raise
    if process.returncode != 0:
        said = "\n".join(tail)
        raise ConfigurationError(
            f"The base image could not be made from Debian's packages:\n{said}",
            "Check that this machine reaches a Debian mirror; or name a base image with --base.",
        )
