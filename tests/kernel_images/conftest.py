"""A real engine and the images built with it. What is built stays there, so the next run is quick."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from interpreter.runtimes import images
from interpreter.runtimes.images import KernelImage
from tests.kernel_images.mirror import Mirror


@pytest.fixture(scope="session")
def python_image(engine: docker.APIClient) -> KernelImage:
    return images.build(engine, "python", "debian", print)


@pytest.fixture(scope="session")
def datascience_image(engine: docker.APIClient) -> KernelImage:
    return images.build(engine, "datascience", "debian", print)


@pytest.fixture
def mirror(tmp_path: Path) -> Iterator[Mirror]:
    with Mirror(tmp_path) as mirror:
        yield mirror
