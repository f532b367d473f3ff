"""Real sandboxes for the tests of the runtimes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from probing import SMALL, Probe, StartProbe, prepared, unique_id

from interpreter.models import Limits


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[StartProbe]:
    """Starts sandboxes, isolated unless asked otherwise, and stops them after the test."""
    started: list[Probe] = []

    async def start_one(
        limits: Limits = SMALL,
        isolation: str = "bubblewrap",
        data: str = "data",
        grouped: bool = True,
        inputs: Path | None = None,
    ) -> Probe:
        runtime = await prepared(tmp_path / data, isolation, grouped)
        id = unique_id()
        workspace = tmp_path / f"workspace-{id}"
        workspace.mkdir()
        sandbox = await runtime.start(id, "python", limits, workspace, inputs)
        started.append(Probe(runtime, sandbox, workspace))
        return started[-1]

    yield start_one
    for probe in started:
        await probe.runtime.stop(probe.sandbox)
