"""Gateways without their HTTP, in the process of the tests: what is around them can be made to fail."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Literal

import pytest
from msgspec.structs import replace

from interpreter.config import Config
from interpreter.orchestrator import Orchestrator
from interpreter.runtimes import Runtime, prepared
from interpreter.store import Store
from tests.conftest import KERNELS


class Gateways:
    """One gateway after another in this process, on the same data."""

    def __init__(self, config: Config, runtime: Runtime) -> None:
        self.config = config
        self.runtime = runtime
        self.started = False
        self.store: Store
        self.orchestrator: Orchestrator

    async def start(self) -> None:
        self.store = await self.open_store()
        self.orchestrator = Orchestrator(self.config, self.store, self.runtime)
        await self.orchestrator.start()
        self.started = True

    async def open_store(self) -> Store:
        return await Store.open(self.config.data_path / "interpreter.db")

    async def end(self, on_shutdown: Literal["keep", "stop"] = "keep") -> None:
        self.started = False
        self.orchestrator._config = replace(self.config, on_shutdown=on_shutdown)
        await self.orchestrator.close()
        await self.store.close()


@pytest.fixture
async def gateways(data_root: Path, place: dict[str, str], tmp_path: Path) -> AsyncIterator[Gateways]:
    config = Config(data_dir=str(tmp_path / "data"), kernels_dir=KERNELS, spares=0, **place)  # type: ignore[arg-type]
    (tmp_path / "data").mkdir()
    runtime = await prepared(config, lambda sentence: None)
    gateways = Gateways(config, runtime)
    await gateways.start()
    yield gateways
    if not gateways.started:
        await gateways.start()
    for session in (await gateways.orchestrator.sessions())[0]:
        await gateways.orchestrator.delete(session.id)
    await gateways.end()
    await runtime.close()
