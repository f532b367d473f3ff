"""Images as users have them: on ours or on none of ours, with another ipykernel, another Python.

What is built stays in the engine, so the next run is quick.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path

import docker

from interpreter.runtimes import build_context, host_settings

OLDER = """
FROM interpreter/python
USER 0
COPY host* /build/
RUN PIP_CONFIG_FILE=/build/pip.conf pip install --quiet --no-cache-dir --disable-pip-version-check \\
        --no-input 'ipykernel==6.*' bash_kernel==0.10.0; \\
    python -m bash_kernel.install --sys-prefix
"""

NEWER = ("base-files", "dash", "coreutils", "python3", "python3-ipykernel", "libc-bin")
"""Debian 13's packages: Python 3.13 and an ipykernel of theirs, in no environment."""


def build(engine: docker.APIClient, name: str, dockerfile: str, **files: str) -> str:
    """Builds an image `interpreter-tests/NAME` and returns that name."""
    with tempfile.TemporaryDirectory() as folder:
        for path, text in {"Dockerfile": dockerfile, **files}.items():
            Path(folder, path).write_text(text)
        with build_context.pack(Path(folder), host_settings.files()) as context:
            tag = f"interpreter-tests/{name}"
            answers = engine.build(
                fileobj=context, custom_context=True, tag=tag, network_mode="host",
                buildargs=host_settings.proxies(), rm=True, forcerm=True, decode=True,
            )  # fmt: skip
            said = list(answers)
    assert not any("error" in answer for answer in said), said[-5:]
    return tag


def debian_13(engine: docker.APIClient) -> str:
    """An image of Debian 13's packages, unpacked and not set up: nothing in it has ever run."""
    repository, tag = "interpreter-tests/newer", "1"
    if not engine.images(f"{repository}:{tag}"):
        with tempfile.TemporaryDirectory(prefix="newer-") as folder:
            Path(folder).chmod(0o755)
            sources, tree = Path(folder, "sources"), Path(folder, "tree.tar")
            lines = host_settings.apt_sources()["bookworm"]
            sources.write_text(
                re.sub(r"\bbookworm\b", "trixie", next(line for line in lines if " bookworm " in line))
            )
            options = [f"--aptopt={line}" for line in host_settings.apt_options()]
            command = ["mmdebstrap", "--variant=extract", "--format=tar", f"--include={','.join(NEWER)}"]
            subprocess.run(
                [*command, *options, "trixie", tree, sources], check=True, capture_output=True
            )
            engine.import_image_from_file(str(tree), repository=repository, tag=tag)
    return f"{repository}:{tag}"
