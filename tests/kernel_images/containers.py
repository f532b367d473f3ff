"""Running a command in an image as a sandbox would run it, and looking into an image."""

from __future__ import annotations

import io
import json
import tarfile
import tempfile
from typing import Any

import docker


def run(engine: docker.APIClient, image: str, *command: str) -> str:
    """Runs a command without network, root or a writable root, and returns what it says."""
    limits = engine.create_host_config(
        network_mode="none",
        read_only=True,
        tmpfs={"/tmp": ""},
        cap_drop=["ALL"],
        security_opt=["no-new-privileges"],
    )
    environ = {"MPLCONFIGDIR": "/tmp/matplotlib", "MPLBACKEND": "agg", "HOME": "/tmp"}
    container = engine.create_container(
        image, list(command), user="1000", host_config=limits, environment=environ
    )
    try:
        engine.start(container)
        code = engine.wait(container)["StatusCode"]
        said = str(engine.logs(container).decode())
        assert code == 0, said
        return said
    finally:
        engine.remove_container(container, force=True)


class SavedImage:
    """An image as `docker save` writes it: its settings and history, and every layer."""

    def __init__(self, engine: docker.APIClient, image: str) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115
        for chunk in engine.get_image(image):
            self._file.write(chunk)
        self._file.seek(0)
        self._tar = tarfile.open(fileobj=self._file)  # noqa: SIM115
        self._manifest: dict[str, Any] = json.loads(self._read("manifest.json"))[0]

    def _read(self, name: str) -> bytes:
        member = self._tar.extractfile(name)
        assert member is not None
        return member.read()

    def files_over_the_base(self) -> set[str]:
        """What its layers add to the base image, which is its first layer."""
        added = set()
        for layer in self._manifest["Layers"][1:]:
            with tarfile.open(fileobj=io.BytesIO(self._read(layer))) as tar:
                added |= {member.name for member in tar if not member.isdir()}
        return added

    def files_of_the_base(self) -> set[str]:
        with tarfile.open(fileobj=io.BytesIO(self._read(self._manifest["Layers"][0]))) as tar:
            return {member.name.removeprefix("./") for member in tar if not member.isdir()}

    def contains(self, text: str) -> bool:
        """Whether a text is anywhere: in a file of a layer, in the settings, in the history."""
        self._file.seek(0)
        wanted, before = text.encode(), b""
        while chunk := self._file.read(1 << 22):
            if wanted in before + chunk:
                return True
            before = chunk[-len(wanted) :]
        return False
