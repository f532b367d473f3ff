"""`interpreter images`: the images that the Docker runtime makes sandboxes from."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from interpreter.cli.table import ago, print_table
from interpreter.models import to_json
from interpreter.runtimes import fitting, images, payload
from interpreter.runtimes.build_steps import Report, Step
from interpreter.runtimes.engine import Engine, endpoint
from interpreter.runtimes.image_report import Report as ImageReport
from interpreter.runtimes.images import KernelImage, KernelImageList

T = TypeVar("T")

COLUMNS = ("name", "tag", "size", "made", "version", "base")


def build(name: str | None, base: str) -> None:
    """Builds one image, or all of them."""

    async def build_all(engine: Engine) -> None:
        for one in [name] if name else images.names():
            with _shown(one) as report:
                image = await engine.call(images.build, engine.api, one, base, report)
            print(f"built interpreter/{image.name}, {_size(image.size)}, on {image.base}")

    asyncio.run(_with_engine(build_all))


def show(json: bool) -> None:
    """Lists the images in the engine."""

    async def find(engine: Engine) -> list[KernelImage]:
        return await engine.call(images.listed, engine.api)

    found = asyncio.run(_with_engine(find))
    if json:
        print(to_json(KernelImageList(found)).decode())
    elif found:
        print_table(COLUMNS, [_row(image, tag) for image in found for tag in image.tags])
    else:
        print("There are no kernel images. 'interpreter images build' makes them.", file=sys.stderr)


def check(image: str, json: bool) -> int:
    """Says whether sessions can run in an image; returns the exit code."""

    async def look(engine: Engine) -> ImageReport:
        with tempfile.TemporaryDirectory(prefix="interpreter-check-") as folder:
            return await fitting.check(engine, image, payload.write(Path(folder)))

    report = asyncio.run(_with_engine(look))
    if json:
        print(to_json(report).decode())
    elif report.problems:
        print(f"{image} cannot be used for sessions:")
        for problem in report.problems:
            print(f"  - {problem}")
    else:
        started = f"ipykernel {report.ipykernel}" if report.ipykernel else "no ipykernel"
        kernels = ", ".join(sorted(report.kernelspecs)) or "none"
        print(f"{image} can be used for sessions.")
        print(f"  Python {report.python_version} at {report.python}, {started}; kernels: {kernels}")
        if report.ipykernel and not report.ipykernel.startswith("7."):
            print("  With ipykernel 7 a session would start at once; with this one it takes a second.")
    return 1 if report.problems else 0


async def _with_engine(work: Callable[[Engine], Coroutine[Any, Any, T]]) -> T:
    engine = await Engine.open(endpoint())
    try:
        return await work(engine)
    finally:
        await engine.close()


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
