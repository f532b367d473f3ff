"""Fitting: any image with a kernel in it becomes one whose containers can be sandboxes.

The kernel host's code and a few changes are put on top of the image as one more layer, made in a
container and committed. So a user's image needs nothing but ipykernel, an engine needs to see
none of the gateway's files, and a new version of the gateway takes seconds to fit in. The result
is made once, and each gateway that uses it gives it a name of its own: after the image's id, the
code's hash and the gateway. A gateway takes back its names when it has others; what has lost its
last one is removed by the engine.
"""

from __future__ import annotations

import contextlib
import io
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
from docker.errors import APIError, DockerException, ImageNotFound
from msgspec import Struct

from interpreter.errors import ConfigurationError
from interpreter.runtimes import payload
from interpreter.runtimes.engine import Engine, explain
from interpreter.runtimes.image_report import Report
from interpreter.runtimes.images import PRELOAD_LABEL, remove_replaced

REPOSITORY = "interpreter/fitted"
LABEL = "org.interpreter."
OF, OF_ID = LABEL + "fitted-from", LABEL + "fitted-from-id"
HOST, REPORT = LABEL + "kernel-host", LABEL + "report"
FIND_PYTHON = (
    "for p in /opt/kernel/bin/python python3 python; do"
    ' command -v "$p" >/dev/null && exec "$p" -I {script}; done; exit 127'
)
WAIT_SECONDS = 300
MOST_REPORT = 256 * 1024


class Fitted(Struct, frozen=True):
    """An image that containers can be made from as sandboxes."""

    image: str
    report: Report
    preload: list[str] = []
    """What the image asks to have imported before a kernel is forked."""


async def fit(engine: Engine, image: str, code: Path, owner: str) -> Fitted:
    """The fitted image of an image, made first if it is not there. Raises ConfigurationError."""
    try:
        found = await engine.call(engine.api.inspect_image, image)
    except ImageNotFound:
        raise ConfigurationError(
            f"There is no image '{image}' in the engine.",
            "Pull it, or build it with 'interpreter images build'.",
        ) from None
    preload = ((found["Config"] or {}).get("Labels") or {}).get(PRELOAD_LABEL, "").split()
    try:
        report, id = await engine.call(_find_or_fit, engine.api, found["Id"], image, code, owner)
    except DockerException as e:
        raise ConfigurationError(f"The image '{image}' cannot be used: {explain(e)}") from None
    return Fitted(id, report, preload)


async def forget_others(engine: Engine, owner: str, kept: Iterable[Fitted]) -> None:
    """Takes back the owner's names of all images but these, and so removes those nobody else uses.

    An image that a container is made from stays, name and all, until a later start.
    """
    await engine.call(_forget_others, engine.api, owner, {fitted.image for fitted in kept})


async def check(engine: Engine, image: str, code: Path) -> Report:
    """What there is in an image, and what is missing; changes nothing. Raises ConfigurationError."""
    try:
        return await engine.call(_run, engine.api, image, code, None)
    except ImageNotFound:
        raise ConfigurationError(f"There is no image '{image}' in the engine.") from None
    except DockerException as e:
        raise ConfigurationError(f"The image '{image}' cannot be used: {explain(e)}") from None


def _find_or_fit(api: Any, of: str, image: str, code: Path, owner: str) -> tuple[Report, str]:
    name = f"{of.rpartition(':')[2][:12]}-{code.name.rpartition('-')[2]}-{owner}"
    labels = {"label": [f"{OF_ID}={of}", f"{HOST}={code.name}"]}
    for found in api.images(REPOSITORY, filters=labels):
        with contextlib.suppress(ImageNotFound, msgspec.MsgspecError, KeyError):
            report = msgspec.json.decode(found["Labels"][REPORT], type=Report)
            api.tag(found["Id"], REPOSITORY, name)
            return report, found["Id"]
    made: list[str] = []

    def commit(container: str, report: Report) -> None:
        labels = {OF: image, OF_ID: of, HOST: code.name, REPORT: msgspec.json.encode(report).decode()}
        config = {"Labels": labels, "User": "1000:1000", "WorkingDir": "/workspace"}
        config |= {"Entrypoint": [], "Cmd": ["true"], "Volumes": {}}
        made.append(api.commit(container, REPOSITORY, name, conf=config)["Id"])

    report = _run(api, of, code, commit)
    if report.problems:
        raise ConfigurationError(
            f"The image '{image}' cannot be used: {'; '.join(report.problems)}.",
            f"'interpreter images check {image}' tells more.",
        )
    return report, made[0]


def _forget_others(api: Any, owner: str, kept: set[str]) -> None:
    for image in api.images(REPOSITORY):
        for tag in image["RepoTags"] or ():
            if (
                tag.startswith(f"{REPOSITORY}:")
                and tag.endswith(f"-{owner}")
                and image["Id"] not in kept
            ):
                _forget(api, tag, image.get("Labels") or {})


def _forget(api: Any, tag: str, labels: dict[str, str]) -> None:
    # Without what it was made from, which may be somebody's who has it under no name.
    with contextlib.suppress(APIError):
        api.remove_image(tag, noprune=True)
        if labels.get(OF, "").partition(":")[0].partition("/")[0] == "interpreter":
            remove_replaced(api, labels.get(OF_ID))


def _run(api: Any, image: str, code: Path, then: Any) -> Report:
    """Runs the fitting in a container of the image, as root and without a network."""
    script = f"{payload.IN_SANDBOX}/interpreter/sandbox/fit.py"
    container = api.create_container(
        image,
        entrypoint=["/bin/sh", "-c", FIND_PYTHON.format(script=script)],
        command=[],
        user="0:0",
        working_dir="/",
        labels={LABEL + "purpose": "fitting"},
        healthcheck={"test": ["NONE"]},
        host_config=api.create_host_config(
            network_mode="none", log_config={"Type": "json-file", "Config": {"max-size": "1m"}}
        ),
    )["Id"]
    try:
        api.put_archive(container, "/", _archive(code))
        api.start(container)
        code_of_exit = api.wait(container, timeout=WAIT_SECONDS)["StatusCode"]
        said: bytes = api.logs(container, stdout=True, stderr=False, tail=1)[-MOST_REPORT:]
        problem: bytes = api.logs(container, stdout=False, stderr=True, tail=5)[-2000:]
        try:
            report = msgspec.json.decode(said, type=Report)
        except msgspec.MsgspecError:
            if code_of_exit == 127:
                why = "there is no Python in it"
            else:
                why = problem.decode(errors="replace").strip() or f"exit code {code_of_exit}"
            report = Report([why], "", "", None, {}, None)
        if then is not None and not report.problems:
            then(container, report)
        return report
    finally:
        with contextlib.suppress(APIError):  # the next start sweeps it away
            api.remove_container(container, force=True, v=True)


def _archive(code: Path) -> bytes:
    """The code as a tar that unpacks to where sandboxes have it."""
    buffer = io.BytesIO()

    def owned_by_root(info: tarfile.TarInfo) -> tarfile.TarInfo:
        info.uid = info.gid = 0
        info.uname = info.gname = ""
        info.mtime = 0
        return info

    with tarfile.open(fileobj=buffer, mode="w") as tar:
        tar.add(code / "interpreter", payload.IN_SANDBOX[1:] + "/interpreter", filter=owned_by_root)
    return buffer.getvalue()
