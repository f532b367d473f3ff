"""`interpreter images`: the images that the Docker runtime makes sandboxes from."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import docker
from docker.errors import DockerException

from interpreter.cli.sessions import ago, print_table
from interpreter.errors import ConfigurationError
from interpreter.models import to_json
from interpreter.runtimes import images
from interpreter.runtimes.build_steps import Report, Step
from interpreter.runtimes.images import KernelImage, KernelImageList

COLUMNS = ("name", "tag", "size", "made", "version", "base")


def connect() -> Any:
    """A client for the engine that DOCKER_HOST names, or the local one."""
    try:
        client = docker.APIClient(version="auto", **docker.utils.kwargs_from_env())
    except DockerException as e:
        raise ConfigurationError(
            f"No Docker engine answers: {e}.",
            "Start Docker, or set DOCKER_HOST to where it listens.",
        ) from e
    return client


def build(name: str | None, base: str) -> None:
    """Builds one image, or all of them."""
    client = connect()
    for one in [name] if name else images.names():
        with _shown(one) as report:
            image = images.build(client, one, base, report)
        print(f"built interpreter/{image.name}, {_size(image.size)}, on {image.base}")


def show(json: bool) -> None:
    """Lists the images in the engine."""
    found = images.listed(connect())
    if json:
        print(to_json(KernelImageList(found)).decode())
    elif found:
        print_table(COLUMNS, [_row(image, tag) for image in found for tag in image.tags])
    else:
        print("There are no kernel images. 'interpreter images build' makes them.", file=sys.stderr)


@contextmanager
def _shown(name: str) -> Iterator[Report]:
    """A bar with the time on a terminal; elsewhere a line for each step."""
    if not sys.stderr.isatty():
        yield _Lines(name).report
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.fields[image]}"), BarColumn(20), TimeElapsedColumn())
    text = TextColumn("{task.description}", markup=False)
    with Progress(*columns, text, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=None, image=name)

        def report(step: Step) -> None:
            progress.update(task, completed=step.number, total=step.of or None, description=step.doing)

        yield report


class _Lines:
    """Says each step once; what it downloads meanwhile would fill a log."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._last = -1

    def report(self, step: Step) -> None:
        if step.of == 0 or step.number != self._last:
            place = f" {step.number + 1}/{step.of}" if step.of else ""
            print(f"{self._name}{place}: {step.doing}", file=sys.stderr, flush=True)
            self._last = step.number


def _row(image: KernelImage, tag: str) -> tuple[str, ...]:
    made = f"{ago(image.made_at)} ago"
    return (image.name, tag, _size(image.size), made, image.version or "", image.base or "")


def _size(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"
