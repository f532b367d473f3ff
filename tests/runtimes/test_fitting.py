"""Fitted images: made once, shared by gateways, removed when the last that used one has another."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import docker
import pytest

from interpreter.runtimes import fitting, payload
from interpreter.runtimes.engine import Engine, endpoint
from interpreter.runtimes.fitting import Fitted
from tests import user_images

OURS, THEIRS = "0123456789ab", "ba9876543210"
IMAGE = "interpreter-tests/fitted"


class Fitter:
    """Two versions of an image, two of the code, and gateways that fit them."""

    def __init__(self, engine: Engine, client: docker.APIClient, folder: Path) -> None:
        self.client = client
        self._engine = engine
        self._codes = {version: self._code(folder, version) for version in ("old", "new")}

    def _code(self, folder: Path, version: str) -> Path:
        """The kernel host's own code, and a file that makes it another."""
        (folder / version).mkdir()
        (folder / version / "version.py").write_text(f"VERSION = '{version}'\n")
        return payload.write(folder, {**payload.SOURCES, "test": folder / version})

    def build(self, version: str) -> None:
        user_images.build(
            self.client, "fitted", f"FROM interpreter/python\nLABEL interpreter.tests={version}\n"
        )

    async def start(self, owner: str, code: str = "old") -> Fitted:
        """What a gateway does when it starts."""
        fitted = await fitting.fit(self._engine, IMAGE, self._codes[code], owner)
        await fitting.forget_others(self._engine, owner, [fitted])
        return fitted

    def is_there(self, fitted: Fitted) -> bool:
        return any(image["Id"] == fitted.image for image in self.client.images(all=True))


@pytest.fixture
async def fitter(engine: docker.APIClient, tmp_path: Path) -> AsyncIterator[Fitter]:
    opened = await Engine.open(endpoint())
    fitter = Fitter(opened, engine, tmp_path)
    fitter.build("1")
    yield fitter
    for owner in (OURS, THEIRS):
        await fitting.forget_others(opened, owner, [])
    await opened.close()
    for left in engine.images(filters={"label": "interpreter.tests", "dangling": True}):
        engine.remove_image(left["Id"], noprune=True)


async def test_gateways_share_what_is_the_same(fitter: Fitter) -> None:
    ours, theirs = await fitter.start(OURS), await fitter.start(THEIRS)
    assert ours == theirs
    assert await fitter.start(OURS) == ours


@pytest.mark.parametrize("what", ["code", "image"])
async def test_what_is_replaced_is_removed(fitter: Fitter, what: str) -> None:
    before = await fitter.start(OURS)
    if what == "image":
        fitter.build("2")
    after = await fitter.start(OURS, "new" if what == "code" else "old")
    assert after.image != before.image
    assert (fitter.is_there(before), fitter.is_there(after)) == (False, True)


async def test_what_another_gateway_uses_stays(fitter: Fitter) -> None:
    before, theirs = await fitter.start(OURS), await fitter.start(THEIRS)
    await fitter.start(OURS, "new")
    assert fitter.is_there(before)
    assert await fitter.start(THEIRS) == theirs
    await fitter.start(THEIRS, "new")
    assert not fitter.is_there(before)


async def test_what_a_container_uses_stays_until_that_is_gone(fitter: Fitter) -> None:
    before = await fitter.start(OURS)
    container = fitter.client.create_container(before.image, ["true"])
    try:
        await fitter.start(OURS, "new")
        assert fitter.is_there(before)
    finally:
        fitter.client.remove_container(container)
    await fitter.start(OURS, "new")
    assert not fitter.is_there(before)


@pytest.fixture
def strangers(engine: docker.APIClient) -> Iterator[list[str]]:
    """Names that look like ours and are not."""
    names = ["fitted:mine", f"fitted:mine-{THEIRS}", f"other:mine-{OURS}"]
    for name in names:
        repository, _, tag = name.partition(":")
        engine.tag("interpreter/python", f"interpreter/{repository}", tag)
    yield [f"interpreter/{name}" for name in names]
    for name in names:
        engine.remove_image(f"interpreter/{name}", noprune=True)


async def test_nothing_of_anybody_else_is_touched(fitter: Fitter, strangers: list[str]) -> None:
    await fitter.start(OURS)
    await fitter.start(OURS, "new")
    assert all(fitter.client.images(name) for name in strangers)
    assert fitter.client.images("interpreter/python")
    assert fitter.client.images(IMAGE)
