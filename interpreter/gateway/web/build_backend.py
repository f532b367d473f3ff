"""Makes packages: setuptools, with the page built first where it is not there or not up to date.

Where there is no Node, the one from PyPI is asked for as everything else is that a build needs. An
editable install does not build the page: `make` does, and the gateway says so where it is missing.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import build_page
from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    return [*build_meta.get_requires_for_build_wheel(config_settings), *_node()]


def get_requires_for_build_sdist(config_settings: Any = None) -> list[str]:
    return [*build_meta.get_requires_for_build_sdist(config_settings), *_node()]


def build_wheel(
    wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None
) -> str:
    _have_page()
    # What an earlier build has left there would go into this wheel, too.
    shutil.rmtree(Path("build") / "lib" / "interpreter" / "gateway" / "web", ignore_errors=True)
    return build_meta.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_sdist(sdist_directory: str, config_settings: Any = None) -> str:
    _have_page()
    return build_meta.build_sdist(sdist_directory, config_settings)


def _node() -> list[str]:
    wanted = build_page.outdated() and not build_page.has_node(os.environ.get("PATH", ""))
    return [build_page.NODE_FROM_PYPI] if wanted else []


def _have_page() -> None:
    if build_page.outdated():
        build_page.build(os.environ.get("PATH", ""))
