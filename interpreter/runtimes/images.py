"""Kernel images: what a container of the Docker runtime is made from.

Each has a folder in `kernel-images/` with a Dockerfile and pinned requirements. Building one takes
a base image with Python: `python:3.11-slim` where a registry answers, else one made from Debian's
packages. What this machine needs to reach packages is used by the build and is not in the image.
"""

from __future__ import annotations

import contextlib
import sys
import sysconfig
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from docker.errors import APIError, DockerException, ImageNotFound
from msgspec import Struct

from interpreter import __version__
from interpreter.errors import ConfigurationError
from interpreter.runtimes import base_image, build_context, host_settings
from interpreter.runtimes.build_steps import Report, Steps

NAME_LABEL = "org.interpreter.image"
PRELOAD_LABEL = "org.interpreter.preload"
VERSION_LABEL = "org.opencontainers.image.version"
BASE_LABEL = "org.opencontainers.image.base.name"


class KernelImage(Struct, frozen=True, kw_only=True):
    """An image in the engine that sessions can run in."""

    name: str
    tags: list[str]
    id: str
    size: int
    """In bytes, with the base."""
    made_at: datetime
    version: str | None = None
    """Of the interpreter that built it."""
    base: str | None = None
    preload: list[str] = []
    """Modules that are imported before a kernel is forked."""


class KernelImageList(Struct, frozen=True):
    images: list[KernelImage]


def folder() -> Path:
    """Where the Dockerfiles are: beside the source, or where the package was installed."""
    places = [Path(__file__).parents[2]]
    places += [Path(data, "share/interpreter") for data in (sysconfig.get_path("data"), sys.prefix)]
    for place in places:
        if (place / "kernel-images").is_dir():
            return place / "kernel-images"
    raise ConfigurationError(
        "The folder 'kernel-images' is missing from this installation.", "Install the package again."
    )


def names(root: Path | None = None) -> list[str]:
    """The images that can be built."""
    return sorted(path.parent.name for path in (root or folder()).glob("*/Dockerfile"))


def build(client: Any, name: str, base: str, report: Report, root: Path | None = None) -> KernelImage:
    """Builds an image and tags it `interpreter/NAME`, with this version and with `latest`.

    `client` is a docker.APIClient; `base` is 'auto', 'debian' or the name of an image. Raises
    ConfigurationError with what the failing step said.
    """
    root = root or folder()
    if name not in names(root):
        known = ", ".join(names(root))
        raise ConfigurationError(f"There is no kernel image '{name}' to build.", f"There are: {known}.")
    repository = f"interpreter/{name}"
    steps = Steps(report)
    try:
        before = _id(client, f"{repository}:latest")
        chosen = base_image.choose(client, base, lambda what: steps.say(f"base image: {what}"))
        with build_context.pack(root / name, host_settings.files()) as context:
            answers = client.build(
                fileobj=context,
                custom_context=True,
                tag=f"{repository}:{__version__}",
                buildargs={"BASE": chosen, "VERSION": __version__, **host_settings.proxies()},
                # Packages are fetched as on the host: its name servers, a proxy on its loopback.
                network_mode="host",
                rm=True,
                forcerm=True,
                decode=True,
            )
            steps.follow(name, answers)
        client.tag(f"{repository}:{__version__}", repository, "latest")
        remove_replaced(client, before)
        made = _id(client, f"{repository}:latest")
        return next(image for image in listed(client) if image.id == made)
    # An engine that goes away meanwhile is an OSError of the connection.
    except (DockerException, OSError) as e:
        raise ConfigurationError(
            f"The image '{name}' could not be built: {e}", "The engine's log may say more."
        ) from e


def has(client: Any, image: str) -> bool:
    return _id(client, image) is not None


def listed(client: Any) -> list[KernelImage]:
    """The kernel images in the engine: ours, and others that carry our label."""
    found = client.images(filters={"label": NAME_LABEL, "dangling": False})
    images = [_described(image) for image in found if _tags(image)]
    return sorted(images, key=lambda image: (image.name, image.made_at))


def _tags(image: Mapping[str, Any]) -> list[str]:
    """Without what the runtime makes of images, which carries their labels on."""
    return sorted(t for t in image.get("RepoTags") or () if not t.startswith("interpreter/fitted:"))


def _described(image: Mapping[str, Any]) -> KernelImage:
    labels = image.get("Labels") or {}
    return KernelImage(
        name=labels[NAME_LABEL],
        tags=_tags(image),
        id=image["Id"],
        size=image["Size"],
        made_at=datetime.fromtimestamp(image["Created"], UTC),
        version=labels.get(VERSION_LABEL),
        base=labels.get(BASE_LABEL),
        preload=labels.get(PRELOAD_LABEL, "").split(),
    )


def _id(client: Any, image: str) -> str | None:
    try:
        return str(client.inspect_image(image)["Id"])
    except ImageNotFound:
        return None


def remove_replaced(client: Any, id: str | None) -> None:
    """Removes an image that has lost its last tag to the new one, unless sandboxes still run it."""
    with contextlib.suppress(APIError):
        if id is not None and not client.inspect_image(id)["RepoTags"]:
            client.remove_image(id)
